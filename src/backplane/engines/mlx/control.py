"""Lowerings of branches and loops: Python's own, around functions that run the closed graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import mlx.core as mx

from backplane.core.graph import Graph
from backplane.core.spec import Spec
from backplane.engines.base import Engine, Lowering, Table, Value
from backplane.engines.mlx.values import MLX

Step = Callable[..., tuple[Value, ...]]


def table(engine: Engine) -> Table:
    """The table of control flow, whose graphs `engine` turns into functions."""
    return Table(
        {"builds": True},
        cond=partial(_cond, engine),
        while_loop=partial(_while_loop, engine),
        scan=partial(_scan, engine),
    )


def _cond(engine: Engine, specs: Sequence[Spec], *, then: Graph, orelse: Graph) -> Lowering:
    if_true, if_false = engine.callable(then), engine.callable(orelse)

    def lowering(predicate: Value, *operands: Value) -> list[Value]:
        return list((if_true if predicate.item() else if_false)(*operands))

    return lowering


def _while_loop(
    engine: Engine, specs: Sequence[Spec], *, test: Graph, body: Graph, carry: int
) -> Lowering:
    goes_on, step = engine.callable(test), engine.callable(body)

    def lowering(*operands: Value) -> list[Value]:
        state, constants = operands[:carry], operands[carry:]
        while goes_on(*state, *constants)[0].item():
            state = step(*state, *constants)
        return list(state)

    return lowering


def _scan(
    engine: Engine,
    specs: Sequence[Spec],
    *,
    body: Graph,
    carry: int,
    xs: int,
    reverse: bool,
    length: int | None,
) -> Lowering:
    step = engine.callable(body)
    results = [t.spec for t in body.outputs[carry:]]

    def lowering(*operands: Value) -> list[Value]:
        state, constants = operands[:carry], operands[carry + xs :]
        sequences = operands[carry : carry + xs]
        count = sequences[0].shape[0] if sequences else length or 0
        if not count:
            return [*state, *_no_steps(step, results, state, sequences, constants)]
        columns = [list(x) for x in sequences]
        rows: list[tuple[Value, ...]] = [()] * count
        for i in reversed(range(count)) if reverse else range(count):
            outputs = step(*state, *[column[i] for column in columns], *constants)
            state, rows[i] = outputs[:carry], outputs[carry:]
        return [*state, *map(mx.stack, zip(*rows, strict=True))]

    return lowering


def _no_steps(
    step: Step,
    results: Sequence[Spec],
    state: Sequence[Value],
    sequences: Sequence[Value],
    constants: Sequence[Value],
) -> list[Value]:
    """Empty stacks. Where a size is unknown, a step on zeros tells it."""
    shapes: list[Sequence[int | None]] = [spec.shape for spec in results]
    if not all(spec.is_static for spec in results):
        zeros = [mx.zeros(x.shape[1:], x.dtype) for x in sequences]
        shapes = [y.shape for y in step(*state, *zeros, *constants)[len(state) :]]
    return [
        mx.zeros((0, *shape), MLX[spec.dtype]) for shape, spec in zip(shapes, results, strict=True)
    ]
