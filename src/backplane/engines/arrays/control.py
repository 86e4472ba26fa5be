"""Control flow: Python's own, over callables of the closed graphs.

The steps of a scan write to the rows of its stacks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple

from backplane.core.graph import Graph, toposort
from backplane.core.spec import Spec
from backplane.engines.base import Engine, Stack, Steps
from backplane.engines.table import Lowering, Table, Value

Step = Callable[..., Sequence[Value]]


class Room(NamedTuple):
    """How steps write to memory that is there."""

    serves: Callable[[Sequence[Value]], bool] | None
    """Whether they may, for these operands; None if they always may."""
    empty: Callable[[int, Value], Value]
    """A stack for so many values like the one given."""
    places: Callable[[Value], Sequence[Value]]
    """The rows of a stack as views, in order."""
    copy: Callable[[Value], Value]


class Rows(NamedTuple):
    """What a loop does with an engine's values."""

    of: Callable[[Value], Sequence[Value]]
    """The rows of a sequence, in order."""
    stack: Callable[[Sequence[Value]], Value]
    zeros: Callable[[Sequence[int], str], Value]
    """An array of a shape and dtype."""
    for_steps: Callable[[Sequence[Value]], Sequence[Value]] = tuple
    """What all steps read, in the form that is read fastest."""
    room: Room | None = None
    after: Callable[[Sequence[Value], Sequence[Value]], Sequence[Value]] | None = None
    """The first values, which are not computed before the second ones: for a library that computes
    lazily. Otherwise what each step makes is kept until the library gets to its last result."""


def run(
    steps: Steps,
    state: Sequence[Value],
    elements: Iterable[Sequence[Value]],
    constants: Sequence[Value],
    count: int,
    reverse: bool,
    room: Room,
) -> list[Value]:
    """The final states and the stacks of `count` steps, one at least. `elements` are the rows of
    the sequences in the order of the steps; `reverse` says that the last ones come first.
    """
    first, later = steps.make(*constants)
    elements = iter(elements)
    results = first(*state, *next(elements))
    made = [_stack(stack, state, results, count, reverse, room) for stack in steps.stacks]
    places = zip(*[views for _, views in made], strict=True) if made else repeat(())
    carried = results[: len(state)]
    for element, place in zip(elements, places, strict=False):
        carried = later(*carried, *element, *place)
    # A row of a stack would keep the whole stack.
    finals = [
        room.copy(x) if is_row else x for x, is_row in zip(carried, steps.placed, strict=True)
    ]
    return [*finals, *[_result(made[k][0], count, before, reverse) for k, before in steps.results]]


def _stack(
    stack: Stack,
    state: Sequence[Value],
    results: Sequence[Value],
    count: int,
    reverse: bool,
    room: Room,
) -> tuple[Value, Sequence[Value]]:
    """A stack that holds the first step's result, and the places of the others."""
    y = results[stack.output]
    more = stack.state is not None
    made = room.empty(count + more, y)
    views = room.places(made)
    if reverse:
        views = views[::-1]
    if stack.state is not None:
        views[0][...] = state[stack.state]
    views[more][...] = y
    return made, views[1 + more :]


def _result(room: Value, count: int, before: bool, reverse: bool) -> Value:
    """The rows of a stack that belong to a result."""
    if len(room) == count:
        return room
    return room[:-1] if before != reverse else room[1:]


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

    table.build("scan")(partial(_scan, engine, rows))
    return table


def _scan(
    engine: Engine,
    rows: Rows,
    specs: Sequence[Spec],
    *,
    body: Graph,
    carry: int,
    xs: int,
    reverse: bool,
    length: int | None,
) -> Lowering:
    saves_memory = _saves_memory(body)
    room = None if saves_memory else rows.room
    after = rows.after if saves_memory else None
    kept = engine.steps(body, carry, xs) if room is not None and room.serves is None else None
    step = engine.callable(body) if kept is None else None

    def lowering(*operands: Value) -> list[Value]:
        state, sequences = operands[:carry], operands[carry : carry + xs]
        constants = rows.for_steps(operands[carry + xs :])
        count = sequences[0].shape[0] if xs else length or 0
        if not count:
            single = step or engine.callable(body)
            return [*state, *_empty_stacks(single, body, state, sequences, constants, rows)]
        columns = [rows.of(x) for x in sequences]
        ordered = [reversed(c) if reverse else c for c in columns]
        elements = zip(*ordered, strict=True) if xs else repeat((), count)
        if room is not None and (room.serves is None or room.serves(operands)):
            steps = kept or engine.steps(body, carry, xs)
            return run(steps, state, elements, constants, count, reverse, room)
        assert step is not None
        return _stacked(step, state, elements, constants, reverse, rows, after)

    return lowering


def _saves_memory(body: Graph) -> bool:
    """Whether somebody pays for less memory in a loop. Its temporaries are not kept from step to
    step then: with them, a training step in parts takes twice as much.
    """
    return any(t.op is not None and t.op.name == "barrier" for t in toposort(body.outputs))


def _stacked(
    step: Step,
    state: Sequence[Value],
    elements: Iterable[Sequence[Value]],
    constants: Sequence[Value],
    reverse: bool,
    rows: Rows,
    after: Callable[[Sequence[Value], Sequence[Value]], Sequence[Value]] | None,
) -> list[Value]:
    """What `run` gives, without writing to any memory. A step may begin `after` the state."""
    made: list[Sequence[Value]] = []
    for row in elements:
        element = after(row, state) if after is not None and state else row
        results = step(*state, *element, *constants)
        state = results[: len(state)]
        made.append(results[len(state) :])
    if reverse:
        made.reverse()
    return [*state, *map(rows.stack, zip(*made, strict=True))]


def _empty_stacks(
    step: Step,
    body: Graph,
    state: Sequence[Value],
    sequences: Sequence[Value],
    constants: Sequence[Value],
    rows: Rows,
) -> list[Value]:
    """The results of a scan of no steps; a step on zeros tells sizes that the graph does not."""
    specs = [t.spec for t in body.outputs[len(state) :]]
    shapes: list[Sequence[Any]] = [spec.shape for spec in specs]
    if not all(spec.is_static for spec in specs):
        first = [t.spec.dtype for t in body.inputs[len(state) :]]
        element = [
            rows.zeros(x.shape[1:], dtype) for x, dtype in zip(sequences, first, strict=False)
        ]
        shapes = [y.shape for y in step(*state, *element, *constants)[len(state) :]]
    return [rows.zeros((0, *n), spec.dtype) for n, spec in zip(shapes, specs, strict=True)]
