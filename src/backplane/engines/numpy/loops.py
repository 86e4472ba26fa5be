"""Control flow: Python's own, over callables of the closed graphs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat

import numpy as np

from backplane.core.graph import Graph
from backplane.engines.arrays import rooms
from backplane.engines.arrays.products import for_steps
from backplane.engines.arrays.stepping import Rows, run
from backplane.engines.base import Engine, Steps, Table, Value


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


ROWS = Rows(lambda count, y: rooms.LOOPS.empty((count, *y.shape), y.dtype), _rows, np.array)


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
