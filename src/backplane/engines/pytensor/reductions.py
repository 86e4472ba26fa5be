"""Reductions and cumulative sums."""

from __future__ import annotations

import pytensor.tensor as pt

from backplane.core.spec import UNSIGNED, bits, is_float
from backplane.engines.pytensor.elementwise import in_single
from backplane.engines.table import Axes, Lowering, Table, Value

TABLE = Table()


@TABLE.add("sum")
@in_single
def sum_(x: Value, *, axes: Axes, keepdims: bool) -> Value:
    """The sum in the operand's dtype; PyTensor's default widens small integers."""
    return pt.sum(x, axis=axes, dtype=x.dtype, acc_dtype=x.dtype, keepdims=keepdims)


@TABLE.add("prod")
def prod(x: Value, *, axes: Axes, keepdims: bool) -> Value:
    """The product in the operand's dtype."""
    return pt.prod(x, axis=axes, dtype=x.dtype, acc_dtype=x.dtype, keepdims=keepdims)


def _reduction(function: Lowering) -> Lowering:
    return lambda x, *, axes, keepdims: function(x, axis=axes, keepdims=keepdims)


TABLE.add("max")(_reduction(pt.max))
TABLE.add("any")(_reduction(pt.any))
TABLE.add("all")(_reduction(pt.all))


@TABLE.add("min")
def min_(x: Value, *, axes: Axes, keepdims: bool) -> Value:
    """The smallest element. PyTensor's own negates, but the least integer has no negative."""
    if is_float(x.dtype) or x.dtype in UNSIGNED:
        return pt.min(x, axis=axes, keepdims=keepdims)
    return pt.invert(pt.max(pt.invert(x), axis=axes, keepdims=keepdims))


TABLE.add("argmax")(pt.argmax)


@TABLE.add("argmin")
def argmin(x: Value, *, axis: int) -> Value:
    """The index of the first of the smallest elements."""
    # The order of integers is turned round by their complement, which never overflows.
    return pt.argmax(pt.neg(x) if is_float(x.dtype) else pt.invert(x), axis=axis)


def _cumulative(function: Lowering) -> Lowering:
    def along(x: Value, *, axis: int, reverse: bool) -> Value:
        back = (slice(None),) * axis + (slice(None, None, -1 if reverse else None),)
        if is_float(x.dtype) or bits(x.dtype) == 64:
            return function(x[back], axis=axis)[back]
        # NumPy accumulates small integers in 64 bits; PyTensor does not expect it.
        return pt.cast(function(pt.cast(x[back], "int64"), axis=axis)[back], x.dtype)

    return in_single(along)


TABLE.add("cumsum")(_cumulative(pt.cumsum))
TABLE.add("cumprod")(_cumulative(pt.cumprod))
