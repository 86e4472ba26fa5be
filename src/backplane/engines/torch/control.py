"""Lowerings of branches and loops: Python's own, around functions that run the closed graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch

from backplane.core.graph import Graph
from backplane.core.spec import Spec
from backplane.engines.arrays.buffers import LOOPS
from backplane.engines.arrays.control import Rows, run
from backplane.engines.base import Engine, Lowering, Table, Value
from backplane.engines.torch.blocks import NUMPY
from backplane.engines.torch.dtypes import TORCH

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
        return list((if_true if predicate else if_false)(*operands))

    return lowering


def _while_loop(
    engine: Engine, specs: Sequence[Spec], *, test: Graph, body: Graph, carry: int
) -> Lowering:
    goes_on, step = engine.callable(test), engine.callable(body)

    def lowering(*operands: Value) -> list[Value]:
        state, constants = operands[:carry], operands[carry:]
        while goes_on(*state, *constants)[0]:
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
        state, constants = operands[:carry], _for_steps(operands[carry + xs :])
        sequences = operands[carry : carry + xs]
        steps = sequences[0].shape[0] if sequences else length
        if not steps:
            return [*state, *_no_steps(step, results, state, sequences, constants)]
        items = _items(sequences, steps, reverse)
        if _only_values_count(operands):
            kept = engine.steps(body, carry, xs)
            return run(kept, state, items, constants, steps, reverse, ROWS)
        rows: list[tuple[Value, ...]] = []
        for item in items:
            outputs = step(*state, *item, *constants)
            state = outputs[:carry]
            rows.append(outputs[carry:])
        if reverse:
            rows.reverse()
        return [*state, *map(torch.stack, zip(*rows, strict=True))]

    return lowering


def _only_values_count(operands: Sequence[Value]) -> bool:
    """Whether no tape, transformation or compiler watches what is done with plain tensors, so that
    steps may write to memory that is there.
    """
    return (
        not torch.is_grad_enabled()
        and not torch.compiler.is_compiling()
        and torch._C._functorch.peek_interpreter_stack() is None
        and all(type(x) is torch.Tensor for x in operands)
    )


def _stack(count: int, y: Value) -> Value:
    """Room for `count` values like y, on the processor in memory that an earlier stack had."""
    dtype = NUMPY.get(y.dtype) if y.is_cpu else None
    if dtype is None:
        return y.new_empty((count, *y.shape))
    return torch.from_numpy(LOOPS.empty((count, *y.shape), dtype))


ROWS = Rows(_stack, torch.unbind, torch.clone)


def _for_steps(constants: Sequence[Value]) -> list[Value]:
    """Matrices row by row: all steps read them, and products with them are faster so."""
    return [x.contiguous() if x.ndim == 2 else x for x in constants]


def _items(sequences: Sequence[Value], steps: int, reverse: bool) -> Iterator[tuple[Value, ...]]:
    """The elements of the sequences, step by step. `unbind` makes all views at once."""
    if not sequences:
        return iter([()] * steps)
    columns = [x.unbind() for x in sequences]
    return zip(*[reversed(c) if reverse else c for c in columns], strict=True)


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
        zeros = [x.new_zeros(x.shape[1:]) for x in sequences]
        with torch.no_grad():
            outputs = step(*state, *zeros, *constants)
        shapes = [y.shape for y in outputs[len(state) :]]
    return [
        torch.zeros((0, *shape), dtype=TORCH[spec.dtype])
        for shape, spec in zip(shapes, results, strict=True)
    ]
