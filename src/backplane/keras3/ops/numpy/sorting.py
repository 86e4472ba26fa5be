"""Order of elements, and what follows from it: medians and quantiles."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from backplane.backend._args import as_axes
from backplane.core.graph import Tensor
from backplane.core.spec import is_float
from backplane.keras3.call import op
from backplane.keras3.operands import result_type, tensor_of
from backplane.keras3.ops.numpy.indexing import take_along_axis
from backplane.keras3.ops.numpy.operands import (
    along,
    flat,
    floatx,
    length,
    like,
    reduced,
    single,
)
from backplane.ops import elementary as el
from backplane.ops import elementwise as ew
from backplane.ops import reduction as red
from backplane.ops.axes import merge_axes, permuted
from backplane.ops.creation import scalar, shaped, size_at
from backplane.ops.indexing import gather
from backplane.ops.lift import cast_to
from backplane.ops.reduction import sort as sorted_rows
from backplane.ops.shaping import expand_dims, reshape

__all__ = [
    "argpartition", "argsort", "median", "nanmedian", "nanpercentile", "nanquantile", "percentile",
    "quantile", "sort",
]  # fmt: skip


def _sorted(x: Any, axis: int | None) -> tuple[Tensor, Tensor]:
    """The elements along `axis` in ascending order, and where they were."""
    x = tensor_of(x)
    dtype = x.spec.dtype
    x = cast_to(x, "int32") if dtype == "bool" else x
    x, at = (flat(x), 0) if not x.ndim else along(x, axis)
    order = [*[i for i in range(x.ndim) if i != at], at]
    back = [order.index(i) for i in range(x.ndim)]
    values, positions = sorted_rows(permuted(x, order))
    return cast_to(permuted(values, back), dtype), permuted(positions, back)


@op
def sort(x: Any, axis: int | None = -1) -> Tensor:
    """The elements along `axis` in ascending order; NaN come last."""
    return _sorted(x, axis)[0]


@op
def argsort(x: Any, axis: int | None = -1) -> Tensor:
    """The positions along `axis` of the elements in ascending order, as int32. Equal elements keep
    their order.
    """
    return _sorted(x, axis)[1]


@op(static=("kth",))
def argpartition(x: Any, kth: Any, axis: int | None = -1) -> Tensor:
    """Positions along `axis` of the elements in an order in which element `kth` has its final
    place: smaller ones are before it, and larger ones behind. Here all have their final places.
    """
    return argsort(x, axis)


# --- quantiles ------------------------------------------------------------------------------------

_CHOICES: dict[str, Callable[[Tensor], Tensor]] = {
    "linear": lambda p: p,
    "lower": ew.floor,
    "higher": lambda p: _ceil(p),
    "nearest": ew.round,
    "midpoint": lambda p: ew.mul(ew.add(ew.floor(p), _ceil(p)), like(0.5, p)),
}
"""The rules for a position between two elements."""


def _ceil(x: Tensor) -> Tensor:
    return ew.neg(ew.floor(ew.neg(x)))


def _rows(x: Any, axis: Any) -> tuple[Tensor, str, tuple[int, ...]]:
    """The operand with `axis` as its last axis, in ascending order, as floats; the dtype of the
    result; and the axes.
    """
    x = tensor_of(x)
    dtype = x.spec.dtype
    result = result_type(None if dtype == "int64" else dtype, float)
    x = cast_to(x, single(dtype if is_float(dtype) else floatx()))
    axes = as_axes(axis, x)
    others = [i for i in range(x.ndim) if i not in axes]
    x = permuted(x, [*others, *axes])
    x = merge_axes(x, [*[[i] for i in range(len(others))], range(len(others), x.ndim)])
    return sorted_rows(x)[0], result, axes


def _quantile(x: Any, q: Any, axis: Any, method: str, keepdims: bool, missing: bool) -> Tensor:
    """Quantiles, with the axes of `q` in front. If elements are `missing`, NaN does not count."""
    if method not in _CHOICES:
        raise ValueError(f"quantile: method must be one of {', '.join(_CHOICES)}, got {method!r}")
    rows, result, axes = _rows(x, axis)
    q = cast_to(tensor_of(q), rows.spec.dtype)
    last = rows.ndim - 1
    if missing:
        there = cast_to(ew.logical_not(el.is_nan(rows)), rows.spec.dtype)
        count = reduced(red.sum, there, last, True)
    else:
        count = cast_to(length(rows, last), rows.spec.dtype)
    most = ew.maximum(ew.sub(count, ew.one(count)), ew.zero(count))
    position = _CHOICES[method](ew.mul(flat(q), most))
    low = ew.floor(position)
    weight = ew.sub(position, low)
    ends = [cast_to(p, "int32") for p in (low, ew.minimum(ew.add(low, ew.one(low)), most))]
    first, second = (
        take_along_axis(rows, p, last) if missing else gather(rows, p, axis=last) for p in ends
    )
    # Each is weighted, as the difference of two infinite elements is NaN.
    found = ew.add(ew.mul(first, ew.sub(ew.one(weight), weight)), ew.mul(second, weight))
    found = ew.where(ew.equal(weight, ew.zero(weight)), first, found)
    if not missing:  # One NaN, which is the last element, makes the result NaN.
        final = gather(rows, ew.sub(length(rows, last), scalar(1, "int32")), axis=last)
        final = expand_dims(final, axes=(last,))
        found = ew.where(el.is_nan(final), like(math.nan, final), found)
    found = permuted(found, [last, *range(last)])
    sizes = [size_at(q, i) for i in range(q.ndim)]
    sizes += [size_at(found, i) for i in range(1, found.ndim)]
    found = shaped(reshape, sizes, found)
    if keepdims and axes:
        found = expand_dims(found, axes=tuple(i + q.ndim for i in axes))
    return cast_to(found, result)


@op
def quantile(
    x: Any, q: Any, axis: Any = None, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """The elements along `axis` below which the part `q` of all of them lies, from 0 to 1. `method`
    says what to do between two elements: "linear", "lower", "higher", "midpoint" or "nearest".
    """
    return _quantile(x, q, axis, method, keepdims, missing=False)


@op
def nanquantile(
    x: Any, q: Any, axis: Any = None, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """The quantile of the elements along `axis` that are numbers."""
    return _quantile(x, q, axis, method, keepdims, missing=True)


def _part(q: Any) -> Tensor:
    q = tensor_of(q)
    q = q if is_float(q.spec.dtype) else cast_to(q, floatx())
    return ew.div(q, like(100, q))


@op
def percentile(
    x: Any, q: Any, axis: Any = None, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """The quantile of a part that is given in percent."""
    return _quantile(x, _part(q), axis, method, keepdims, missing=False)


@op
def nanpercentile(
    x: Any, q: Any, axis: Any = None, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """The quantile of the numbers along `axis`, of a part that is given in percent."""
    return _quantile(x, _part(q), axis, method, keepdims, missing=True)


@op
def median(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The middle one of the elements along `axis`, or the mean of the two in the middle."""
    return _quantile(x, 0.5, axis, "linear", keepdims, missing=False)


@op
def nanmedian(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The median of the elements along `axis` that are numbers."""
    return _quantile(x, 0.5, axis, "linear", keepdims, missing=True)
