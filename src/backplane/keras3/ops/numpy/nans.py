"""Reductions that leave out what is no number."""

from __future__ import annotations

import math
from typing import Any

from backplane.core.graph import Tensor
from backplane.keras3.call import op
from backplane.keras3.operands import result_type, tensor_of
from backplane.keras3.ops.numpy import reductions
from backplane.keras3.ops.numpy.operands import (
    Function,
    floatx,
    is_floating,
    like,
    reduced,
    single,
)
from backplane.ops import elementary as el
from backplane.ops import elementwise as ew
from backplane.ops import reduction as red
from backplane.ops.lift import cast_to

__all__ = [
    "nanargmax", "nanargmin", "nancumprod", "nancumsum", "nanmax", "nanmean", "nanmin", "nanprod",
    "nanstd", "nansum", "nanvar",
]  # fmt: skip


def _with(value: float, x: Any) -> Tensor:
    """`x` with a number in the place of NaN."""
    x = tensor_of(x)
    return ew.where(el.is_nan(x), like(value, x), x) if is_floating(x) else x


@op
def nansum(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The sum of the elements along `axis` that are numbers."""
    return reductions.sum(_with(0, x), axis, keepdims)


@op
def nanprod(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The product of the elements along `axis` that are numbers."""
    return reductions.prod(_with(1, x), axis, keepdims)


@op
def nancumsum(x: Any, axis: Any = None, dtype: Any = None) -> Tensor:
    """For each element the sum of the numbers up to it along `axis`."""
    return reductions.cumsum(_with(0, x), axis, dtype)


@op
def nancumprod(x: Any, axis: Any = None, dtype: Any = None) -> Tensor:
    """For each element the product of the numbers up to it along `axis`."""
    return reductions.cumprod(_with(1, x), axis, dtype)


# --- extremes -------------------------------------------------------------------------------------


def _none_left(x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    """The mask of places with no number along `axis`."""
    return reduced(red.all, el.is_nan(x), axis, keepdims)


def _extreme(function: Function, limit: float, x: Any, axis: Any, keepdims: bool) -> Tensor:
    x = tensor_of(x)
    found = function(_with(limit, x), axis, keepdims)
    if not is_floating(x):
        return found
    return ew.where(_none_left(x, axis, keepdims), like(math.nan, x), found)


@op
def nanmax(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The largest number along `axis`; NaN if there is none."""
    return _extreme(reductions.max, -math.inf, x, axis, keepdims)


@op
def nanmin(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The smallest number along `axis`; NaN if there is none."""
    return _extreme(reductions.min, math.inf, x, axis, keepdims)


def _position(find: ew.Op, limit: float, x: Any, axis: Any, keepdims: bool) -> Tensor:
    x = tensor_of(x)
    found = reductions.position(find, _with(limit, x), axis, keepdims)
    if not is_floating(x):
        return found
    return ew.where(_none_left(x, axis, keepdims), like(-1, found), found)


@op
def nanargmax(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The position of the largest number along `axis`; -1 if there is none."""
    return _position(red.argmax, -math.inf, x, axis, keepdims)


@op
def nanargmin(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The position of the smallest number along `axis`; -1 if there is none."""
    return _position(red.argmin, math.inf, x, axis, keepdims)


# --- means ----------------------------------------------------------------------------------------


def _floats(x: Any) -> tuple[Tensor, str]:
    """The operand in the dtype in which means are computed, and the dtype of the result."""
    x = tensor_of(x)
    result = result_type(x.spec.dtype, float)
    whole = x.spec.dtype if is_floating(x) else floatx()
    return cast_to(x, single(whole)), result


def _mean(x: Tensor, missing: Tensor, axis: Any, keepdims: bool) -> Tensor:
    """The mean of the elements along `axis` that are not missing; NaN if all are."""
    there = ew.where(missing, ew.zero(x), x)
    ones = cast_to(ew.logical_not(missing), x.spec.dtype)
    total, count = (reduced(red.sum, t, axis, keepdims) for t in (there, ones))
    return ew.div(total, count)


@op
def nanmean(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The mean of the numbers along `axis`; NaN if there is none."""
    x, result = _floats(x)
    return cast_to(_mean(x, el.is_nan(x), axis, keepdims), result)


@op
def nanvar(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The mean squared distance of the numbers along `axis` from their mean; NaN without any."""
    x, result = _floats(x)
    missing = el.is_nan(x)
    distance = ew.sub(ew.where(missing, ew.zero(x), x), _mean(x, missing, axis, True))
    return cast_to(_mean(ew.mul(distance, distance), missing, axis, keepdims), result)


@op
def nanstd(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The square root of `nanvar`. If all numbers are equal, its gradient is 0."""
    result = _floats(x)[1]
    variance = nanvar(_floats(x)[0], axis, keepdims)
    equal = ew.equal(variance, ew.zero(variance))
    root = ew.sqrt(ew.where(equal, ew.one(variance), variance))
    return cast_to(ew.where(equal, ew.zero(root), root), result)
