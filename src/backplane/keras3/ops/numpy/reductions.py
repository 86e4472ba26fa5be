"""Reductions along axes, cumulative sums and products, and means of several kinds."""

from __future__ import annotations

from typing import Any

from backplane import backend as K
from backplane.backend._args import as_axes, as_axis
from backplane.core.graph import Tensor
from backplane.core.spec import is_float
from backplane.keras3.call import op
from backplane.keras3.operands import result_type, standard, tensor_of
from backplane.keras3.ops.numpy.operands import (
    Function,
    along,
    cast_all,
    common_type,
    float_of,
    integers_or_floats,
    like,
    lined_up,
    reduced,
    single,
    truth,
    wide,
)
from backplane.ops import elementwise as ew
from backplane.ops import reduction as red
from backplane.ops.creation import full, shaped, size_at
from backplane.ops.lift import cast_to
from backplane.ops.shaping import broadcast_like, expand_dims, reshape

__all__ = [
    "amax", "amin", "argmax", "argmin", "average", "count_nonzero", "cumprod", "cumsum", "diff",
    "max",
    "mean", "min", "prod", "ptp", "std", "sum", "trapezoid", "var",
]  # fmt: skip


# --- sums, products and means ---------------------------------------------------------------------


@op(static=("axis",))
def sum(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The sum of the elements along `axis`; small integers are added in 32 bits."""
    x = tensor_of(x)
    return reduced(red.sum, cast_to(x, wide(x.spec.dtype)), axis, keepdims)


@op(static=("axis", "dtype"))
def prod(x: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Tensor:
    """The product of the elements along `axis`; small integers are multiplied in 32 bits."""
    x = tensor_of(x)
    kind = wide(x.spec.dtype) if dtype is None else standard(dtype)
    return reduced(red.prod, cast_to(x, kind), axis, keepdims)


@op(static=("axis",))
def count_nonzero(x: Any, axis: Any = None) -> Tensor:
    """The number of elements along `axis` that are not 0, as int32."""
    return reduced(red.sum, cast_to(truth(x), "int32"), axis, False)


@op(static=("axis",))
def mean(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The mean of the elements along `axis`."""
    x = tensor_of(x)
    dtype = x.spec.dtype
    result = dtype if is_float(dtype) else result_type(dtype, "float32")
    return cast_to(reduced(red.mean, cast_to(x, single(result)), axis, keepdims), result)


def _moment(function: Function, x: Any, axis: Any, keepdims: bool) -> Tensor:
    """A result of a function of K, which is computed in 32 bits at least."""
    x = tensor_of(x)
    result = result_type(x.spec.dtype, float)
    whole = x.spec.dtype if is_float(x.spec.dtype) else result
    axes = list(as_axes(axis, x))
    return cast_to(function(cast_to(x, single(whole)), axes, bool(keepdims)), result)


@op(static=("axis",))
def var(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The mean squared distance of the elements along `axis` from their mean."""
    return _moment(K.var, x, axis, keepdims)


@op(static=("axis",))
def std(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The square root of `var`."""
    return _moment(K.std, x, axis, keepdims)


@op(static=("axis",))
def average(x: Any, axis: Any = None, weights: Any = None) -> Tensor:
    """The mean of the elements along `axis`, weighted by `weights`: a tensor of the shape of `x`,
    or a vector along `axis`.
    """
    if weights is None:
        return mean(float_of(x), axis)
    x, weights = (tensor_of(t) for t in (x, weights))
    x, weights = cast_all(common_type(x, weights, also=[float]), x, weights)
    if weights.ndim == 1 and x.ndim > 1:
        if axis is None:
            raise ValueError("average: axis must be given where x and weights have other shapes")
        weights = lined_up(weights, as_axis(axis, x), x.ndim)
    weighted = ew.mul(x, weights)
    total = reduced(red.sum, broadcast_like(weights, weighted), axis, False)
    return ew.div(reduced(red.sum, weighted, axis, False), total)


@op
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Tensor:
    """The integral along `axis` by the trapezoidal rule, of values at the places `x`, or at places
    that are `dx` apart.
    """
    y = float_of(y)
    at = as_axis(axis, y)
    lead = (slice(None),) * at
    later, earlier = (slice(1, None),), (slice(None, -1),)
    if x is None:
        step = cast_to(tensor_of(dx), y.spec.dtype)
    else:
        places = cast_to(tensor_of(x), y.spec.dtype)
        places = lined_up(places, at, y.ndim) if places.ndim == 1 else places
        step = ew.sub(places[(*lead, *later)], places[(*lead, *earlier)])
    pairs = ew.add(y[(*lead, *later)], y[(*lead, *earlier)])
    return reduced(red.sum, ew.mul(ew.mul(pairs, step), like(0.5, y)), at, False)


# --- extremes -------------------------------------------------------------------------------------


def _extreme(
    x: Any,
    axis: Any,
    keepdims: bool,
    initial: Any,
    numbers: tuple[Any, Any],
    bools: tuple[Any, Any],
) -> Tensor:
    """The result of (a reduction, and the same of two operands), for numbers or for bools."""
    x = tensor_of(x)
    reduction, of_two = bools if x.spec.dtype == "bool" else numbers
    if initial is None:
        return reduced(reduction, x, axis, keepdims)
    first = cast_to(tensor_of(initial), x.spec.dtype)
    axes = as_axes(axis, x)
    if 0 in [x.spec.shape[i] for i in axes]:
        sizes = [
            1 if i in axes else size_at(x, i) for i in range(x.ndim) if keepdims or i not in axes
        ]
        return ew.add(shaped(full, sizes, value=0, dtype=x.spec.dtype), first)
    return of_two(reduced(reduction, x, axis, keepdims), first)


_LARGEST = ((red.max, ew.maximum), (red.any, ew.logical_or))
_SMALLEST = ((red.min, ew.minimum), (red.all, ew.logical_and))


@op(static=("axis",))
def max(x: Any, axis: Any = None, keepdims: bool = False, initial: Any = None) -> Tensor:
    """The largest element along `axis`, and of `initial`."""
    return _extreme(x, axis, keepdims, initial, *_LARGEST)


@op(static=("axis",))
def min(x: Any, axis: Any = None, keepdims: bool = False, initial: Any = None) -> Tensor:
    """The smallest element along `axis`, and of `initial`."""
    return _extreme(x, axis, keepdims, initial, *_SMALLEST)


@op(static=("axis",))
def amax(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The largest element along `axis`."""
    return max(x, axis, keepdims)


@op(static=("axis",))
def amin(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The smallest element along `axis`."""
    return min(x, axis, keepdims)


@op(static=("axis",))
def ptp(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The distance of the largest element along `axis` from the smallest one."""
    x = tensor_of(x)
    return ew.sub(max(x, axis, keepdims), min(x, axis, keepdims))


def position(find: ew.Op, x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    """The position that `find` gives, as int32."""
    x = cast_to(x, "int32") if x.spec.dtype == "bool" else x
    vector, at = along(x, axis)
    if not x.ndim:
        return shaped(full, [], value=0, dtype="int32")
    found = cast_to(find(vector, axis=at), "int32")
    if not keepdims:
        return found
    return reshape(found, shape=(1,) * x.ndim) if axis is None else expand_dims(found, axes=(at,))


@op
def argmax(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The position of the largest element along `axis`, the first one of equals."""
    return position(red.argmax, tensor_of(x), axis, keepdims)


@op
def argmin(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The position of the smallest element along `axis`, the first one of equals."""
    return position(red.argmin, tensor_of(x), axis, keepdims)


# --- cumulative -----------------------------------------------------------------------------------


def cumulated(function: ew.Op, x: Tensor, axis: Any, dtype: Any) -> Tensor:
    """The results of a cumulative primitive along `axis`."""
    kind = result_type(x.spec.dtype if dtype is None else standard(dtype))
    vector, at = along(integers_or_floats(cast_to(x, kind)), axis)
    return function(vector, axis=at, reverse=False)


@op
def cumsum(x: Any, axis: Any = None, dtype: Any = None) -> Tensor:
    """For each element the sum of those up to it along `axis`."""
    return cumulated(red.cumsum, tensor_of(x), axis, dtype)


@op
def cumprod(x: Any, axis: Any = None, dtype: Any = None) -> Tensor:
    """For each element the product of those up to it along `axis`."""
    return cumulated(red.cumprod, tensor_of(x), axis, dtype)


@op
def diff(a: Any, n: int = 1, axis: int = -1) -> Tensor:
    """The differences of neighbours along `axis`, `n` times over; of bools, whether they differ."""
    a = tensor_of(a)
    lead = (slice(None),) * as_axis(axis, a)
    subtracted = ew.not_equal if a.spec.dtype == "bool" else ew.sub
    for _ in range(n):
        a = subtracted(a[(*lead, slice(1, None))], a[(*lead, slice(None, -1))])
    return a
