"""Control flow: Python's own, over callables of the closed graphs.

The steps of a scan write to the rows of its stacks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any, NamedTuple

from backplane.core.graph import Graph, toposort
from backplane.core.hooks import HOOKS
from backplane.core.spec import Spec
from backplane.engines.base import Engine
from backplane.engines.programs import Scanning, Stack, Steps
from backplane.engines.table import Lowering, Table, Value

Values = Sequence[Value]


class Room(NamedTuple):
    """The means by which steps write to memory that is there."""

    serves: Callable[[Values], bool] | None
    """Whether they may, for these operands; None if they always may."""
    empty: Callable[[int, Value], Value]
    """A stack for so many values like the one given."""
    places: Callable[[Value], Values]
    """The rows of a stack as views, in order."""
    copy: Callable[[Value], Value]


class Rows(NamedTuple):
    """The operations of a loop on an engine's values."""

    of: Callable[[Value], Values]
    """The rows of a sequence, in order."""
    stack: Callable[[Values], Value]
    zeros: Callable[[Sequence[int], str], Value]
    """An array of a shape and dtype."""
    for_steps: Callable[[Values], Values] = tuple
    """The values that all steps read, in the form that is read fastest."""
    room: Room | None = None
    after: Callable[[Values, Values], Values] | None = None
    """The first values, not to be computed before the second ones. A library that computes lazily
    needs this. Otherwise it would keep what each step makes until it gets to its last result."""


def loops(engine: Engine, rows: Rows) -> Table:
    """The lowerings of `cond`, `scan` and `while_loop`. `engine` makes the graphs callable when the
    program is written: a compiler that follows a run of it, such as PyTorch's, could not follow
    that.
    """
    table = Table()

    @table.build("cond")
    def cond(specs: Sequence[Spec], *, then: Graph, orelse: Graph) -> Lowering:
        if_true, if_false = engine.callable(then), engine.callable(orelse)
        return lambda predicate, *operands: list((if_true if predicate else if_false)(*operands))

    @table.build("while_loop")
    def while_loop(specs: Sequence[Spec], *, test: Graph, body: Graph, carry: int) -> Lowering:
        goes_on, step = engine.callable(test), engine.callable(body)

        def lowering(*operands: Value) -> list[Value]:
            state, constants = operands[:carry], operands[carry:]
            while goes_on(*state, *constants)[0]:
                state = step(*state, *constants)
            return list(state)

        return lowering

    table.build("scan")(lambda specs, **given: _Scan(engine, rows, Scanning(**given)).lowering)
    return table


class _Scan:
    """A scan over an engine's values."""

    def __init__(self, engine: Engine, rows: Rows, loop: Scanning) -> None:
        self.engine, self.rows, self.loop, self.reverse = engine, rows, loop, loop.reverse
        # A barrier says that somebody pays for less memory in a loop. Its temporaries are not kept
        # from step to step then: with them, a training step in parts takes twice as much.
        nodes = toposort(loop.body.outputs)
        saves_memory = any(t.op is not None and t.op.name == "barrier" for t in nodes)
        self.room = None if saves_memory else rows.room
        self.after = rows.after if saves_memory else None
        always = self.room is not None and self.room.serves is None
        self.steps = self._steps() if always else None
        self.step = None if always else engine.callable(loop.body)

    def _steps(self) -> Steps:
        """The steps, which write to memory that is kept from one to the next, and to the rows of
        the stacks.
        """
        return HOOKS["steps_of"](self.loop.body, self.engine, self.loop.carry, self.loop.xs)

    def lowering(self, *operands: Value) -> list[Value]:
        """Run the loop."""
        rows, room = self.rows, self.room
        state, sequences, constants = self.loop.parts(operands)
        constants = rows.for_steps(constants)
        count = sequences[0].shape[0] if sequences else self.loop.length or 0
        if not count:
            return [*state, *self._empty_stacks(state, sequences, constants)]
        columns = [rows.of(x) for x in sequences]
        ordered = [reversed(c) if self.reverse else c for c in columns]
        elements = zip(*ordered, strict=True) if sequences else repeat((), count)
        if room is not None and (room.serves is None or room.serves(operands)):
            return self._in_room(room, state, elements, constants, count)
        return self._in_new_memory(state, elements, constants)

    def _in_room(
        self, room: Room, state: Values, elements: Iterable[Values], constants: Values, count: int
    ) -> list[Value]:
        """The final states and stacks of `count` ≥ 1 steps; `elements` are rows in their order."""
        steps = self.steps or self._steps()
        first, later = steps.make(*constants)
        elements = iter(elements)
        results = first(*state, *next(elements))
        made = [self._stack(room, stack, state, results, count) for stack in steps.stacks]
        places = zip(*[views for _, views in made], strict=True) if made else repeat(())
        carried = results[: len(state)]
        for element, place in zip(elements, places, strict=False):
            carried = later(*carried, *element, *place)
        # A row of a stack would keep the whole stack.
        pairs = zip(carried, steps.placed, strict=True)
        finals = [room.copy(x) if is_row else x for x, is_row in pairs]
        return [*finals, *[self._result(made[k][0], count, b) for k, b in steps.results]]

    def _stack(
        self, room: Room, stack: Stack, state: Values, results: Values, count: int
    ) -> tuple[Value, Values]:
        """A stack that holds the first step's result, and the places of the others."""
        y = results[stack.output]
        more = stack.state is not None
        made = room.empty(count + more, y)
        views = room.places(made)
        if self.reverse:
            views = views[::-1]
        if stack.state is not None:
            views[0][...] = state[stack.state]
        views[more][...] = y
        return made, views[1 + more :]

    def _result(self, made: Value, count: int, before: bool) -> Value:
        """The rows of a stack that belong to a result."""
        if len(made) == count:
            return made
        return made[:-1] if before != self.reverse else made[1:]

    def _in_new_memory(
        self, state: Values, elements: Iterable[Values], constants: Values
    ) -> list[Value]:
        """The same, where the steps write to no memory that is there."""
        step, after = self.step, self.after
        assert step is not None
        made: list[Values] = []
        for row in elements:
            element = after(row, state) if after is not None and state else row
            results = step(*state, *element, *constants)
            state = results[: len(state)]
            made.append(results[len(state) :])
        if self.reverse:
            made.reverse()
        return [*state, *map(self.rows.stack, zip(*made, strict=True))]

    def _empty_stacks(self, state: Values, sequences: Values, constants: Values) -> list[Value]:
        """The stacks of no steps; a step on zeros tells sizes that the graph does not."""
        zeros, specs, body = self.rows.zeros, self.loop.stacked, self.loop.body
        shapes: list[Sequence[Any]] = [spec.shape for spec in specs]
        if not all(spec.is_static for spec in specs):
            step = self.step or self.engine.callable(body)
            pairs = zip(sequences, body.inputs[len(state) :], strict=False)
            element = [zeros(x.shape[1:], t.spec.dtype) for x, t in pairs]
            shapes = [y.shape for y in step(*state, *element, *constants)[len(state) :]]
        return [zeros((0, *n), spec.dtype) for n, spec in zip(shapes, specs, strict=True)]
