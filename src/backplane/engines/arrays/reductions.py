"""Reductions, cumulative sums, softmax, sorting. Sums are BLAS products where that is faster."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from operator import methodcaller
from typing import Any

import numpy as np

from backplane.core.shapes import broadcast_axes
from backplane.core.spec import HALVES, Spec
from backplane.engines.arrays.elementwise import in_single, in_wide, on_arrays
from backplane.engines.arrays.shaping import pad
from backplane.engines.factorizations import is_half
from backplane.engines.table import ADDED_SINGLY, Axes, Lowering, Shape, Table, Value, host_shape

TABLE = Table()

Reduction = Callable[[Value], Value]


# --- sums ----------------------------------------------------------------------------------------


@TABLE.build("sum")
def summed(specs: Sequence[Spec], *, axes: Axes, keepdims: bool) -> Lowering:
    """The sum over `axes`, in the operand's dtype."""
    (spec,) = specs
    if spec.dtype in HALVES:
        total = partial(np.add.reduce, axis=axes, dtype=np.float32, keepdims=keepdims)
        return lambda x: total(x).astype(spec.dtype)
    reduce = partial(np.add.reduce, axis=axes, dtype=np.dtype(spec.dtype), keepdims=keepdims)
    if spec.dtype not in ("float32", "float64") or len(axes) == spec.ndim:
        return reduce
    if axes == tuple(range(len(axes))):
        return partial(_sum_leading, count=len(axes), keepdims=keepdims)
    if axes == tuple(range(spec.ndim - len(axes), spec.ndim)):
        return partial(_sum_trailing, count=len(axes), keepdims=keepdims, reduce=reduce)
    wide = partial(np.add.reduce, axis=axes, dtype=np.float64, keepdims=keepdims)
    return partial(_sum_between, axes=axes, reduce=reduce, wide=wide)


# Sums over all but a few channels (bias gradients, batch normalization) are matrix-vector products:
# BLAS is 2 to 17 times as fast as `np.add.reduce` there, which calls its inner loop for every row.


def _sum_leading(x: Value, *, count: int, keepdims: bool) -> Value:
    shape = x.shape
    rows = math.prod(shape[:count])
    total = _sum_rows(x.reshape(rows, math.prod(shape[count:])))
    return total.reshape((1,) * count + shape[count:] if keepdims else shape[count:])


_BLOCK = 256


def _sum_rows(x: Value) -> Value:
    """The sum of the rows, which BLAS adds one by one: many of them block by block."""
    rows, columns = x.shape
    if rows <= ADDED_SINGLY:
        return np.dot(np.ones(rows, x.dtype), x)
    ones, cut = np.ones(_BLOCK, x.dtype), rows - rows % _BLOCK
    blocks = np.matmul(ones, x[:cut].reshape(cut // _BLOCK, _BLOCK, columns))
    return _sum_rows(blocks) + np.dot(ones[: rows - cut], x[cut:])


def _sum_between(x: Value, *, axes: Axes, reduce: Lowering, wide: Lowering) -> Value:
    # `np.add.reduce` adds in pairs along the last axis only.
    singly = math.prod([x.shape[axis] for axis in axes if axis != x.ndim - 1])
    return reduce(x) if singly <= ADDED_SINGLY else wide(x).astype(x.dtype)


_LONG = 1024
"""Rows from this length on are left to `np.add.reduce`, whose pairwise sum is more exact."""


def _sum_trailing(x: Value, *, count: int, keepdims: bool, reduce: Lowering) -> Value:
    kept = x.shape[:-count]
    columns = math.prod(x.shape[-count:])
    if columns >= _LONG:
        return reduce(x)
    total = np.dot(x.reshape(math.prod(kept), columns), np.ones(columns, x.dtype))
    return total.reshape(kept + (1,) * count if keepdims else kept)


@TABLE.build("sum_to")
def sum_to(specs: Sequence[Spec], *, shape: Shape) -> Lowering:
    """The sum that undoes a broadcast from `shape`."""

    def lowering(x: Value, *dims: Value) -> Value:
        wanted = host_shape(shape, dims)
        added, stretched = broadcast_axes(wanted, x.shape)
        if not added and not stretched:
            return x
        axes = (*added, *stretched)
        return summed(specs[:1], axes=axes, keepdims=bool(stretched))(x).reshape(wanted)

    return lowering


# --- other reductions ----------------------------------------------------------------------------


_FEW = 16
"""Elements of rows that are compared column by column. NumPy takes about as long for rows of 2 as
for rows of 32: six times as long as this for rows of 8."""


def _reduced(
    ufunc: np.ufunc, specs: Sequence[Spec], *, axes: Axes, keepdims: bool, **initial: Any
) -> Lowering:
    """The reduction by a function that may take its operands in any order."""
    reduce = partial(ufunc.reduce, axis=axes, keepdims=keepdims, **initial)
    last = specs[0].ndim - 1
    if axes != (last,) or not last:
        return reduce

    def by_columns(x: Value) -> Value:
        if not 0 < x.shape[last] <= _FEW:
            return reduce(x)
        columns = np.asarray(x.reshape(-1, x.shape[last]), order="F")
        return ufunc.reduce(columns, axis=1).reshape(x.shape[:last] + (1,) * keepdims)

    return by_columns


TABLE.build("max")(partial(_reduced, np.maximum))
TABLE.build("min")(partial(_reduced, np.minimum))
TABLE.build("any")(partial(_reduced, np.logical_or))
TABLE.build("all")(partial(_reduced, np.logical_and))


@TABLE.build("prod")
def _prod(specs: Sequence[Spec], *, axes: Axes, keepdims: bool) -> Lowering:
    dtype = np.dtype(specs[0].dtype)
    return partial(np.multiply.reduce, axis=axes, dtype=dtype, keepdims=keepdims)


TABLE.build("argmax")(lambda specs, *, axis: methodcaller("argmax", axis))
TABLE.build("argmin")(lambda specs, *, axis: methodcaller("argmin", axis))


# --- cumulative sums and products ----------------------------------------------------------------


def _cumulative(
    function: Callable[[Value, int], Value], specs: Sequence[Spec], *, axis: int, reverse: bool
) -> Lowering:
    def build(specs: Sequence[Spec]) -> Lowering:
        if not reverse:
            return lambda x: function(x, axis)
        back = (slice(None),) * axis + (slice(None, None, -1),)
        return lambda x: function(x[back], axis)[back]

    return in_single(build, specs)


_IN_DOUBLE, _ADDED = 1 << 15, 256
"""Running sums of more than `ADDED_SINGLY` float32 are computed in float64 for arrays of up to so
many elements, else in blocks of this many: either takes 1.2 times as long."""


def cumulative_product(x: Value, axis: int) -> Value:
    """The products of the elements up to each one, in the dtype of `x`."""
    return np.multiply.accumulate(x, axis, x.dtype)


def cumulative_sum(x: Value, axis: int) -> Value:
    """The sums of the elements up to each one, in the dtype of `x`."""
    count = x.shape[axis]
    if count <= ADDED_SINGLY or x.dtype != np.float32:
        return np.add.accumulate(x, axis, x.dtype)
    if x.size <= _IN_DOUBLE:
        return np.add.accumulate(x, axis, np.float64).astype(x.dtype)
    before: tuple[Any, ...] = (slice(None),) * axis
    after = x.shape[axis + 1 :]
    if lacking := -count % _ADDED:
        x = pad(x, padding=[(0, lacking if i == axis else 0) for i in range(x.ndim)], value=0)
    blocks = x.reshape(*x.shape[:axis], -1, _ADDED, *after)
    sums = np.add.accumulate(blocks, axis + 1)
    starts = np.add.accumulate(sums[(*before, slice(-1), -1)], axis, np.float64)
    sums[(*before, slice(1, None))] += np.expand_dims(starts, axis + 1).astype(x.dtype)
    return sums.reshape(x.shape)[(*before, slice(count))]


TABLE.build("cumsum")(partial(_cumulative, cumulative_sum))
TABLE.build("cumprod")(partial(_cumulative, cumulative_product))


# --- softmax -------------------------------------------------------------------------------------


def _exponential(function: Callable[..., Value], specs: Sequence[Spec], axes: Axes) -> Lowering:
    """`function(x, largest, total)` for operands of `specs`. The last two reduce an array over
    `axes`, which they keep as axes of size 1; the largest of no elements is -inf.
    """
    lowest = np.dtype(specs[0].dtype).type(-np.inf)
    largest = _reduced(np.maximum, specs, axes=axes, keepdims=True, initial=lowest)
    total = summed(specs, axes=axes, keepdims=True)
    return on_arrays(partial(function, largest=largest, total=total), specs)


def _softmax(x: Value, largest: Reduction, total: Reduction) -> Value:
    y = x - largest(x)
    np.exp(y, out=y)
    y /= total(y)
    return y


def _log_softmax(x: Value, largest: Reduction, total: Reduction) -> Value:
    y = x - largest(x)
    y -= np.log(total(np.exp(y)))
    return y


TABLE.build("softmax", unless=is_half)(
    lambda specs, *, axis: _exponential(_softmax, specs, (axis,))
)
TABLE.build("log_softmax", unless=is_half)(
    lambda specs, *, axis: _exponential(_log_softmax, specs, (axis,))
)


_LONG_ROW = 8192
"""Numbers that `einsum`, which adds them one by one, sums to the last digit but one."""


@TABLE.add(
    "softmax_grad", into=True,
    unless=lambda specs, *, axis: axis != specs[0].ndim - 1
    or specs[0].dtype not in ("float32", "float64"),
)  # fmt: skip
def _softmax_grad(g: Value, y: Value, *, axis: int, out: Value | None = None) -> Value:
    """Sums of products that never lie in memory: 0.65 to 0.77 of the time of single operations.
    Long rows are added up in pairs, which keeps their digits.
    """
    if g.shape[-1] > _LONG_ROW:
        total = np.sum(g * y, axis=-1, keepdims=True)
    else:
        total = np.einsum("...i,...i->...", g, y)[..., None]
    x = np.subtract(g, total, out=out)
    return np.multiply(x, y, out=x)


@TABLE.build("logsumexp", unless=is_half)
def _logsumexp(specs: Sequence[Spec], *, axes: Axes, keepdims: bool) -> Lowering:
    def logsumexp(x: Value, largest: Reduction, total: Reduction) -> Value:
        shift = largest(x)
        # Where all are -inf, or one is inf, the difference would be NaN.
        shift[~np.isfinite(shift)] = 0
        y = x - shift
        y = np.log(total(np.exp(y, out=y)))
        y += shift
        return y if keepdims else y.squeeze(axes)

    return _exponential(logsumexp, specs, axes)


# --- sorting -------------------------------------------------------------------------------------


@TABLE.add("top_k")
def _top_k(x: Value, *, k: int) -> list[Value]:
    # A stable ascending sort of the reversed row, read backwards: descending, first of ties first.
    indices = np.argsort(x[..., ::-1], axis=-1, kind="stable")[..., ::-1][..., :k]
    indices = x.shape[-1] - 1 - indices
    return [np.take_along_axis(x, indices, -1), indices.astype(np.int32)]


@TABLE.add("sort")
def _sort(x: Value) -> list[Value]:
    # NumPy's order of halves is slower than that of the same numbers in float32.
    keys = x.astype(in_wide(x.dtype), copy=False)
    indices = np.argsort(keys, axis=-1, kind="stable")
    return [np.take_along_axis(x, indices, -1), indices.astype(np.int32)]
