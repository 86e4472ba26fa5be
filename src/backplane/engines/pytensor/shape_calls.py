"""PyTensor's operations on shapes and indices as functions on NumPy arrays (see `calls`)."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter, methodcaller
from typing import Any

import numpy as np
from pytensor.compile.ops import DeepCopyOp, TypeCastingOp
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.op import Op
from pytensor.scalar import basic as ps
from pytensor.tensor import basic, subtensor
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.shape import Reshape, Shape_i, SpecifyShape

from backplane.engines.arrays.elementwise import unchanged
from backplane.engines.arrays.shaping import filled
from backplane.engines.base import Value
from backplane.engines.pytensor.calls import Call, call_of, static

# --- shapes ---------------------------------------------------------------------------------------


@call_of.register
def _(op: DimShuffle, node: Apply) -> Call:
    order = list(op.new_order)
    kept = [i for i in order if i != "x"]
    steps: list[Callable[[Value], Value]] = []
    if op.drop:
        steps.append(methodcaller("squeeze", tuple(op.drop)))
    if kept != sorted(kept):
        steps.append(methodcaller("transpose", [sorted(kept).index(i) for i in kept]))
    if "x" in order and op.input_ndim == 0:  # may be a size, a Python int
        steps.append(partial(np.reshape, shape=(1,) * len(order)))
    elif "x" in order:
        steps.append(itemgetter(tuple([None if i == "x" else slice(None) for i in order])))
    if len(steps) < 2:
        return Call(steps[0] if steps else unchanged, node.inputs)
    return Call(lambda x: functools.reduce(lambda y, step: step(y), steps, x), node.inputs)


@call_of.register
def _(op: Shape_i, node: Apply) -> Call:
    return Call(lambda x: x.shape[op.i], node.inputs)


@call_of.register
def _(op: Reshape, node: Apply) -> Call:
    x, wanted = node.inputs
    known = static(wanted)
    if known is not None and x.type.ndim:
        return Call(methodcaller("reshape", known), [x])
    if known is not None:
        return Call(partial(np.reshape, shape=known), [x])
    if wanted.owner is not None and isinstance(wanted.owner.op, basic.MakeVector):
        return Call(lambda x, *sizes: np.reshape(x, sizes), [x, *_uncast(wanted.owner.inputs)])
    return Call(np.reshape, node.inputs)


def _uncast(sizes: Sequence[Variable]) -> list[Variable]:
    """Sizes before they were made int64: NumPy takes any integers."""
    return [
        n.owner.inputs[0]
        if n.owner is not None
        and isinstance(n.owner.op, Elemwise)
        and isinstance(n.owner.op.scalar_op, ps.Cast)
        and n.owner.inputs[0].type.dtype.startswith(("int", "uint"))
        else n
        for n in sizes
    ]


@call_of.register
def _(op: SpecifyShape, node: Apply) -> Call:
    if all(isinstance(n, Constant) for n in node.inputs[1:]):
        # A promise: where it is not kept, the next operation says so.
        return Call(unchanged, node.inputs[:1])
    return call_of.dispatch(Op)(op, node)


@call_of.register
def _(op: basic.Alloc, node: Apply) -> Call:
    value, *sizes = node.inputs
    dtype = np.dtype(node.outputs[0].type.dtype)
    known = [static(n) for n in sizes]
    number = static(value) if value.type.ndim == 0 else None
    if number is None:
        if None not in known:
            return Call(partial(np.broadcast_to, shape=tuple(known)), [value], view=True)
        return Call(
            lambda x, *sizes: np.broadcast_to(x, sizes), [value, *_uncast(sizes)], view=True
        )
    if None not in known:
        return Call(partial(filled, tuple(known), number, dtype), [])
    return Call(lambda *sizes: filled(sizes, number, dtype), _uncast(sizes))


@call_of.register
def _(op: basic.AllocEmpty, node: Apply) -> Call:
    dtype = np.dtype(op.dtype)
    return Call(lambda *sizes: np.empty(sizes, dtype), _uncast(node.inputs))


@call_of.register
def _(op: basic.MakeVector, node: Apply) -> Call:
    dtype = np.dtype(op.dtype)
    return Call(lambda *xs: np.array(xs, dtype), node.inputs)


@call_of.register
def _(op: basic.Join, node: Apply) -> Call:
    axis, *xs = node.inputs
    known = static(axis)
    if known is None:
        return call_of.dispatch(Op)(op, node)
    return Call(lambda *xs: np.concatenate(xs, known), xs)


@call_of.register
def _(op: basic.ARange, node: Apply) -> Call:
    return Call(partial(np.arange, dtype=np.dtype(op.dtype)), node.inputs)


@call_of.register(basic.ScalarFromTensor)
@call_of.register(basic.TensorFromScalar)
@call_of.register(TypeCastingOp)
def _(op: Op, node: Apply) -> Call:
    return Call(unchanged, node.inputs, view=True)


@call_of.register
def _(op: DeepCopyOp, node: Apply) -> Call:
    return Call(np.array, node.inputs)


# --- indexing -------------------------------------------------------------------------------------


def _index(idx_list: Sequence[Any], values: Sequence[Any]) -> tuple[Any, ...]:
    """An index from the pattern of PyTensor's, whose numbers are positions in `values`."""

    def value(i: int | None) -> Any:
        return None if i is None else values[i]

    return tuple(
        [
            slice(value(e.start), value(e.stop), value(e.step))
            if isinstance(e, slice)
            else values[e]
            for e in idx_list
        ]
    )


@call_of.register(subtensor.Subtensor)
@call_of.register(subtensor.AdvancedSubtensor)
def _(op: Any, node: Apply) -> Call:
    x, *indices = node.inputs
    known = [_host(i) for i in indices]
    if None not in known:
        index = _index(op.idx_list, known)
        return Call(itemgetter(index if len(index) != 1 else index[0]), [x])
    pattern = op.idx_list
    along = len(pattern) - 1
    if isinstance(op, subtensor.AdvancedSubtensor) and pattern == (*[slice(None)] * along, 0):
        return Call(lambda x, indices: x.take(indices, along), node.inputs)
    return Call(lambda x, *values: x[_index(pattern, values)], node.inputs)


def is_last(node: Apply) -> bool:
    """Whether a node is `x[-1]`."""
    op = node.op
    return (
        isinstance(op, subtensor.Subtensor) and op.idx_list == (0,) and _host(node.inputs[1]) == -1
    )


def _host(i: Variable) -> Any:
    """An index that is a constant number, else None."""
    return i.data.item() if isinstance(i, Constant) and np.ndim(i.data) == 0 else None


@call_of.register
def _(op: subtensor.IncSubtensor, node: Apply) -> Call:
    """Into new memory: where `x` was made for this alone, the call makes it itself."""
    x, y, *indices = node.inputs
    known = [_host(i) for i in indices]
    if None in known:
        return call_of.dispatch(Op)(op, node)
    index = _index(op.idx_list, known)
    change: Any = operator.setitem if op.set_instead_of_inc else _increment
    made = Call(np.array, [x])
    if x.owner is not None and isinstance(x.owner.op, basic.Alloc | basic.AllocEmpty):
        alone = call_of(x.owner.op, x.owner)
        made = made if alone.view else alone
    make, count = made.function, len(made.inputs)

    def fill(*values: Value) -> Value:
        target = make(*values[:count])
        change(target, index, values[count])
        return target

    return Call(fill, [*made.inputs, y])


def _increment(x: Value, index: Any, y: Value) -> None:
    x[index] += y
