"""PyTensor's operations as functions on NumPy arrays: one call each, prepared once.

PyTensor's own `perform` methods do the same with checks and cells around it, at several times the
cost of a small ufunc. They remain the way for operations that are not listed here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, singledispatch
from operator import methodcaller
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.op import Op
from pytensor.scalar import basic as ps
from pytensor.scalar.math import Sigmoid
from pytensor.tensor import basic, extra_ops, math
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.utils import import_func_from_string

from backplane.core.spec import Spec
from backplane.engines.arrays.elementwise import masked, on_arrays, select, sigmoid
from backplane.engines.arrays.linear import for_blas
from backplane.engines.arrays.reductions import cumulative_product, cumulative_sum, summed
from backplane.engines.base import Value
from backplane.engines.pytensor.kernel import Kernel


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
    """The operands without what NumPy does by itself: axes of size 1 in front, and repetition to a
    shape that another operand has.
    """
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


# --- our own --------------------------------------------------------------------------------------


@call_of.register
def _(op: Kernel, node: Apply) -> Call:
    if op.primitive.in_place or not op.multiple:
        return Call(op.function, node.inputs)
    if len(node.outputs) == 1:
        return Call(lambda *values: op.compute(*values)[0], node.inputs)
    return Call(op.compute, node.inputs)
