"""Control flow: Python's own, over callables of the closed graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat

import numpy as np

from backplane.core.graph import Graph
from backplane.engines.arrays import rooms
from backplane.engines.arrays.products import for_steps
from backplane.engines.base import Engine, Table, Value


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
        step = engine.callable(body)
        state = operands[:carry]
        sequences, constants = operands[carry : carry + xs], for_steps(operands[carry + xs :])
        times = range(len(sequences[0]) if xs else length or 0)
        if reverse:
            times, sequences = times[::-1], tuple([s[::-1] for s in sequences])
        stacks: list[Value] | None = None
        elements = zip(*sequences, strict=True) if xs else repeat((), len(times))
        for time, element in zip(times, elements, strict=True):
            results = step(*state, *element, *constants)
            state, ys = results[:carry], results[carry:]
            if stacks is None:
                stacks = [rooms.empty((len(times), *y.shape), y.dtype) for y in ys]
            for stack, y in zip(stacks, ys, strict=True):
                stack[time] = y
        if stacks is None:
            stacks = _empty_stacks(step, body, carry, state, sequences, constants)
        return [*state, *stacks]

    return table


def _empty_stacks(
    step: Callable[..., Sequence[Value]],
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
    ys = step(*state, *element, *constants)[carry:]
    return [np.empty((0, *y.shape), y.dtype) for y in ys]
