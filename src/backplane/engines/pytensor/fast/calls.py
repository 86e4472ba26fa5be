"""PyTensor's operations as functions on NumPy arrays: one call each, prepared once.

PyTensor's own `perform` methods do the same with checks and cells around it, at several times the
cost of a small ufunc. They remain the way for operations that are not listed here.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, singledispatch
from operator import itemgetter, methodcaller
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.op import Op
from pytensor.scalar import basic as ps
from pytensor.scalar.math import Sigmoid
from pytensor.tensor import basic, extra_ops, math, subtensor
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.shape import Reshape, Shape_i
from pytensor.tensor.utils import import_func_from_string

from backplane.core.spec import Spec
from backplane.core.traits import Memory
from backplane.engines.arrays.elementwise import masked, on_arrays, select, sigmoid, unchanged
from backplane.engines.arrays.linear import for_blas
from backplane.engines.arrays.reductions import cumulative_product, cumulative_sum, summed
from backplane.engines.arrays.shaping import filled
from backplane.engines.pytensor.array_op import ArrayOp
from backplane.engines.table import Value


@dataclass(slots=True)
class Call:
    """A node as one call: `function(*inputs)` gives its result, or a sequence of its results.

    `view` says that the result may share memory with an operand although PyTensor's declaration of
    such results, the operation's `view_map`, names none. `in_place` says that the result may be
    written to an operand of its shape, by the argument `out`.
    """

    function: Callable[..., Any]
    inputs: Sequence[Variable]
    view: bool = False
    in_place: bool = False


@singledispatch
def call_of(op: Op, node: Apply) -> Call:
    """The call that computes a node: by default, PyTensor's own Python implementation."""
    cells: dict[Variable, list[Any]] = {v: [None] for v in (*node.inputs, *node.outputs)}
    computed = {v: [True] for v in node.inputs} | {v: [False] for v in node.outputs}
    inputs, outputs = [cells[v] for v in node.inputs], [cells[v] for v in node.outputs]
    thunk = op.make_thunk(node, cells, computed, [], impl="py")

    def perform(*values: Value) -> Any:
        for cell, value in zip(inputs, values, strict=True):
            cell[0] = np.asarray(value) if isinstance(value, np.generic | int) else value
        try:
            thunk()
            results = [cell[0] for cell in outputs]
        finally:
            for cell in (*inputs, *outputs):
                cell[0] = None
        return results if len(results) > 1 else results[0]

    # An operation of somebody else's may keep an operand without saying so.
    return Call(perform, node.inputs, view=True)


def static(x: Variable) -> Any:
    """The Python value of a constant scalar or vector, else None."""
    return x.data.tolist() if isinstance(x, Constant) else None


# --- element-wise ---------------------------------------------------------------------------------


@call_of.register
def _(op: Elemwise, node: Apply) -> Call:
    scalar, x = op.scalar_op, node.inputs[0]
    dtype = np.dtype(node.outputs[0].type.dtype)
    if isinstance(scalar, ps.Cast):
        if x.type.ndim == 0:  # may be a size, a Python int
            return Call(partial(np.asarray, dtype=dtype), [x])
        return Call(methodcaller("astype", dtype), [x])
    if isinstance(scalar, ps.Identity):
        return Call(methodcaller("copy"), [x])
    inputs = _unbroadcast(node)
    if isinstance(scalar, ps.Switch):
        condition, x, y = inputs
        if static(y) == 0 and node.inputs[1].type.shape == node.outputs[0].type.shape:
            return Call(masked, [condition, x])
        return Call(select if node.inputs[0].type.ndim else np.where, inputs)
    if isinstance(scalar, Sigmoid) and dtype.kind == "f" and x.type.dtype == dtype:
        return Call(on_arrays(sigmoid, [Spec(x.type.shape, x.type.dtype)]), inputs)
    function = _ufunc(scalar, node, dtype)
    if function is None:
        return call_of.dispatch(Op)(op, node)
    return Call(function, inputs, in_place=True)


def _ufunc(scalar: Any, node: Apply, dtype: Any) -> Any:
    """The ufunc of a scalar operation, if it gives the dtype that PyTensor promises."""
    name, count, _ = getattr(scalar, "nfunc_spec", None) or ("", 0, 0)
    if isinstance(scalar, ps.RoundHalfToEven):
        name = "rint"
    if isinstance(scalar, ps.IntDiv | ps.Mod) or count != len(node.inputs):
        name = {ps.IntDiv: "floor_divide", ps.Mod: "remainder"}.get(type(scalar), "")
    function = import_func_from_string(name) if "." in name else getattr(np, name, None)
    if not isinstance(function, np.ufunc):
        return None
    kinds = [np.dtype(x.type.dtype) for x in node.inputs]
    try:
        resolved = function.resolve_dtypes((*kinds, None))
    except TypeError:
        return None
    return function if resolved == (*kinds, dtype) else None


def _unbroadcast(node: Apply) -> list[Variable]:
    """The operands without what NumPy broadcasts by itself."""
    wanted = node.outputs[0].type.shape
    whole = [x.type.shape == wanted and None not in wanted and not _repeats(x) for x in node.inputs]
    operands = []
    for x in node.inputs:
        if any(whole) and _repeats(x):
            x = x.owner.inputs[0]
        while x.owner is not None and isinstance(x.owner.op, DimShuffle) and _pads_left(x.owner.op):
            (x,) = x.owner.inputs
        operands.append(x)
    # One of them must still have all axes.
    return operands if any(x.type.ndim == len(wanted) for x in operands) else list(node.inputs)


def _repeats(x: Variable) -> bool:
    return x.owner is not None and isinstance(x.owner.op, basic.Alloc)


def _pads_left(op: Any) -> bool:
    order = list(op.new_order)
    return order == ["x"] * (len(order) - op.input_ndim) + list(range(op.input_ndim))


# --- reductions and products ----------------------------------------------------------------------


@call_of.register
def _(op: CAReduce, node: Apply) -> Call:
    (x,), dtype = node.inputs, np.dtype(node.outputs[0].type.dtype)
    axes = tuple(range(x.type.ndim)) if op.axis is None else tuple(op.axis)
    if isinstance(op, math.Sum) and dtype == x.type.dtype and axes and dtype.kind in "iuf":
        return Call(
            summed([Spec(tuple(x.type.shape), x.type.dtype)], axes=axes, keepdims=False), [x]
        )
    ufunc = op.ufunc
    if isinstance(op, math.Sum | math.Prod):
        return Call(partial(ufunc.reduce, axis=axes, dtype=dtype), [x])
    if isinstance(op, math.Max | math.Min | math.Any | math.All):
        return Call(partial(ufunc.reduce, axis=axes), [x])
    return call_of.dispatch(Op)(op, node)


@call_of.register
def _(op: math.Argmax, node: Apply) -> Call:
    if op.axis is None or len(op.axis) != 1:
        return call_of.dispatch(Op)(op, node)
    return Call(methodcaller("argmax", op.axis[0]), node.inputs)


@call_of.register
def _(op: extra_ops.CumOp, node: Apply) -> Call:
    if op.axis is None:
        return call_of.dispatch(Op)(op, node)
    function = cumulative_sum if op.mode == "add" else cumulative_product
    return Call(partial(function, axis=op.axis), node.inputs)


@call_of.register
def _(op: math.Dot, node: Apply) -> Call:
    return Call(np.dot, node.inputs)


@call_of.register
def _(op: Blockwise, node: Apply) -> Call:
    if not isinstance(op.core_op, math.Dot):
        return call_of.dispatch(Op)(op, node)
    return Call(lambda x, y: np.matmul(for_blas(x), for_blas(y)), node.inputs)


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
    """Sizes before their dtype was changed: NumPy takes any integers."""
    return [_uncast([n.owner.inputs[0]])[0] if _casts_integers(n.owner) else n for n in sizes]


def _casts_integers(node: Apply | None) -> bool:
    """Whether a node brings integers to a dtype that holds any size."""
    if node is None or not isinstance(node.op, Elemwise):
        return False
    (x, *_), (y, *_) = node.inputs, node.outputs
    fits = x.type.dtype.startswith(("int", "uint")) and y.type.dtype in ("int32", "int64")
    return isinstance(node.op.scalar_op, ps.Cast) and fits


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
def _(op: basic.Join, node: Apply) -> Call:
    axis, *xs = node.inputs
    known = static(axis)
    if known is None:
        return call_of.dispatch(Op)(op, node)
    return Call(lambda *xs: np.concatenate(xs, known), xs)


@call_of.register
def _(op: basic.ARange, node: Apply) -> Call:
    return Call(partial(np.arange, dtype=np.dtype(op.dtype)), node.inputs)


@call_of.register
def _(op: basic.ScalarFromTensor, node: Apply) -> Call:
    return Call(unchanged, node.inputs, view=True)


# --- indexing -------------------------------------------------------------------------------------


def _index(idx_list: Sequence[Any], values: Sequence[Any]) -> tuple[Any, ...]:
    """An index from the pattern of PyTensor's, whose numbers are positions in `values`."""

    def value(i: int | None) -> Any:
        return None if i is None else values[i]

    def part(e: Any) -> Any:
        parts = isinstance(e, slice)
        return slice(value(e.start), value(e.stop), value(e.step)) if parts else values[e]

    return tuple(map(part, idx_list))


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
    if x.owner is not None and isinstance(x.owner.op, basic.Alloc):
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


# --- our own --------------------------------------------------------------------------------------


@call_of.register
def _(op: ArrayOp, node: Apply) -> Call:
    view = op.primitive.memory is Memory.ANY
    if op.primitive.in_place or not op.multiple:
        return Call(op.function, node.inputs, view)
    if len(node.outputs) == 1:
        return Call(lambda *values: op.compute(*values)[0], node.inputs, view)
    return Call(op.compute, node.inputs, view)
