"""Control flow: Python's own, over callables of the closed graphs.

The steps of a scan write to the rows of its stacks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import NamedTuple

import numpy as np

from backplane.core.graph import Graph
from backplane.engines.arrays.buffers import LOOPS
from backplane.engines.arrays.linear import for_steps
from backplane.engines.base import Engine, Stack, Steps, Table, Value


class Rows(NamedTuple):
    """What a loop does with an engine's values."""

    empty: Callable[[int, Value], Value]
    """A stack for so many values like the one given."""
    of: Callable[[Value], Sequence[Value]]
    """The rows of a stack as views, in order."""
    copy: Callable[[Value], Value]


def run(
    steps: Steps,
    state: Sequence[Value],
    elements: Iterable[Sequence[Value]],
    constants: Sequence[Value],
    count: int,
    reverse: bool,
    rows: Rows,
) -> list[Value]:
    """The final states and the stacks of `count` steps, one at least. `elements` are the rows of
    the sequences in the order of the steps; `reverse` says that the last ones come first.
    """
    first, later = steps.make(*constants)
    elements = iter(elements)
    results = first(*state, *next(elements))
    made = [_stack(stack, state, results, count, reverse, rows) for stack in steps.stacks]
    places = zip(*[views for _, views in made], strict=True) if made else repeat(())
    carried = results[: len(state)]
    for element, place in zip(elements, places, strict=False):
        carried = later(*carried, *element, *place)
    # A row of a stack would keep the whole stack.
    finals = [
        rows.copy(x) if is_row else x for x, is_row in zip(carried, steps.placed, strict=True)
    ]
    return [*finals, *[_result(made[k][0], count, before, reverse) for k, before in steps.results]]


def _stack(
    stack: Stack,
    state: Sequence[Value],
    results: Sequence[Value],
    count: int,
    reverse: bool,
    rows: Rows,
) -> tuple[Value, Sequence[Value]]:
    """A stack that holds the first step's result, and the places of the others."""
    y = results[stack.output]
    more = stack.state is not None
    room = rows.empty(count + more, y)
    views = rows.of(room)
    if reverse:
        views = views[::-1]
    if stack.state is not None:
        views[0][...] = state[stack.state]
    views[more][...] = y
    return room, views[1 + more :]


def _result(room: Value, count: int, before: bool, reverse: bool) -> Value:
    """The rows of a stack that belong to a result."""
    if len(room) == count:
        return room
    return room[:-1] if before != reverse else room[1:]


def loops(engine: Engine) -> Table:
    """The lowerings of `cond`, `scan` and `while_loop`; `engine` makes graphs callable."""
    table = Table()

    @table.add("cond")
    def cond(predicate: Value, *operands: Value, then: Graph, orelse: Graph) -> list[Value]:
        return list(engine.callable(then if predicate else orelse)(*operands))

    @table.add("while_loop")
    def while_loop(*operands: Value, test: Graph, body: Graph, carry: int) -> list[Value]:
        goes_on, step = engine.callable(test), engine.callable(body)
        state, constants = operands[:carry], operands[carry:]
        while goes_on(*state, *constants)[0]:
            state = step(*state, *constants)
        return list(state)

    @table.add("scan")
    def scan(
        *operands: Value, body: Graph, carry: int, xs: int, reverse: bool, length: int | None
    ) -> list[Value]:
        steps = engine.steps(body, carry, xs)
        state = operands[:carry]
        sequences, constants = operands[carry : carry + xs], for_steps(operands[carry + xs :])
        count = len(sequences[0]) if xs else length or 0
        if not count:
            stacks = _empty_stacks(steps, body, carry, state, sequences, constants)
            return [*state, *stacks]
        if reverse:
            sequences = tuple([s[::-1] for s in sequences])
        elements = zip(*sequences, strict=True) if xs else repeat((), count)
        return run(steps, state, elements, constants, count, reverse, ROWS)

    return table


def _rows(stack: Value) -> list[Value]:
    """Rows without axes are no views: they become rows of one element."""
    return list(stack if stack.ndim > 1 else stack.reshape(-1, 1))


ROWS = Rows(lambda count, y: LOOPS.empty((count, *y.shape), y.dtype), _rows, np.array)


def _empty_stacks(
    steps: Steps,
    body: Graph,
    carry: int,
    state: Sequence[Value],
    sequences: Sequence[Value],
    constants: Sequence[Value],
) -> list[Value]:
    """The results of a scan of no steps; a step on zeros tells sizes that the graph does not."""
    specs = [t.spec for t in body.outputs[carry:]]
    if all(spec.is_static for spec in specs):
        return [np.empty((0, *spec.shape), spec.dtype) for spec in specs]
    element = [np.zeros(s.shape[1:], s.dtype) for s in sequences]
    first, _ = steps.make(*constants)
    ys = first(*state, *element)[carry:]
    return [np.empty((0, *y.shape), y.dtype) for y in ys]
