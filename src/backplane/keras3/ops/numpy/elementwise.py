"""Functions of one operand, element by element."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from backplane.core.graph import Tensor
from backplane.core.spec import is_float
from backplane.keras3.call import eager_engine, op
from backplane.keras3.operands import tensor_of
from backplane.keras3.ops.numpy.operands import (
    float_of,
    floatx,
    integers_or_floats,
    is_floating,
    like,
)
from backplane.ops import elementary as el
from backplane.ops import elementwise as ew
from backplane.ops.effects import identity
from backplane.ops.lift import cast_to
from backplane.ops.shaping import full_like

__all__ = [
    "angle", "cbrt", "ceil", "clip", "conj", "conjugate", "copy", "exp", "exp2", "expm1", "floor",
    "imag", "log", "log1p", "log2", "log10", "nan_to_num", "real", "round", "sqrt", "trunc",
]  # fmt: skip


# --- exponentials and logarithms ------------------------------------------------------------------


@op
def exp(x: Any) -> Tensor:
    """E to the power of each element."""
    return ew.exp(float_of(x))


@op
def exp2(x: Any) -> Tensor:
    """2 to the power of each element."""
    return el.exp2(float_of(x))


@op
def expm1(x: Any) -> Tensor:
    """E to the power of each element, minus 1."""
    return ew.expm1(float_of(x))


@op
def log(x: Any) -> Tensor:
    """The natural logarithm."""
    return ew.log(float_of(x))


@op
def log1p(x: Any) -> Tensor:
    """The natural logarithm of 1 + x."""
    return ew.log1p(float_of(x))


@op
def log2(x: Any) -> Tensor:
    """The logarithm to the base 2."""
    return el.log_to(2.0, float_of(x))


@op
def log10(x: Any) -> Tensor:
    """The logarithm to the base 10."""
    return el.log_to(10.0, float_of(x))


@op
def sqrt(x: Any) -> Tensor:
    """The square root; NaN for negative numbers."""
    return ew.sqrt(float_of(x))


@op
def cbrt(x: Any) -> Tensor:
    """The cube root, of negative numbers too."""
    return el.cbrt(float_of(x))


# --- whole numbers --------------------------------------------------------------------------------


@op
def floor(x: Any) -> Tensor:
    """Each element rounded toward minus infinity, as floats."""
    return ew.floor(float_of(x))


@op
def ceil(x: Any) -> Tensor:
    """Each element rounded toward infinity, as floats."""
    return ew.neg(ew.floor(ew.neg(float_of(x))))


@op
def trunc(x: Any) -> Tensor:
    """Each element rounded toward 0; integers and bools stay as they are."""
    x = tensor_of(x)
    if not is_floating(x):
        return x
    return ew.where(ew.less(x, ew.zero(x)), ew.neg(ew.floor(ew.neg(x))), ew.floor(x))


@op(static=("decimals",))
def round(x: Any, decimals: int = 0) -> Tensor:
    """Each element rounded to so many decimals; halves go to the even neighbour. With a negative
    number of decimals, it is rounded to tens, hundreds, …
    """
    x = tensor_of(x)
    if not is_floating(x):
        if decimals >= 0 or x.spec.dtype == "bool":
            return x
        return cast_to(el.rounded(cast_to(x, floatx()), decimals), x.spec.dtype)
    return el.rounded(x, decimals)


# --- limits ---------------------------------------------------------------------------------------


@op
def clip(x: Any, x_min: Any, x_max: Any) -> Tensor:
    """Each element, but not below `x_min` and not above `x_max`; None is no limit."""
    x = integers_or_floats(x)
    for limit, chosen in ((x_min, ew.maximum), (x_max, ew.minimum)):
        if limit is not None:
            x = chosen(x, cast_to(tensor_of(limit), x.spec.dtype))
    return x


def _largest(dtype: str) -> float:
    if dtype == "bfloat16":
        import ml_dtypes

        return float(ml_dtypes.finfo(dtype).max)
    return float(np.finfo(dtype).max)


@op
def nan_to_num(x: Any, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Tensor:
    """Numbers in the place of NaN and infinities: 0, and the largest and the smallest number of the
    dtype, unless others are given.
    """
    x = tensor_of(x)
    if not is_float(x.spec.dtype):
        return x
    most = _largest(x.spec.dtype)
    infinity = like(math.inf, x)
    high = most if posinf is None else posinf
    low = -most if neginf is None else neginf
    nan, high, low = (cast_to(tensor_of(v), x.spec.dtype) for v in (nan, high, low))
    finite = ew.where(ew.equal(x, ew.neg(infinity)), low, x)
    finite = ew.where(ew.equal(x, infinity), high, finite)
    return ew.where(el.is_nan(x), nan, finite)


# --- complex numbers, of which all here are real --------------------------------------------------


@op
def _same(x: Any) -> Tensor:
    return identity(tensor_of(x))


def copy(x: Any) -> Any:
    """The same elements, outside of steps in memory of their own."""
    y, engine = _same(x), eager_engine()
    return engine.copied(y) if engine.owns(y) else y


@op
def real(x: Any) -> Tensor:
    """The real part, which is all of it."""
    return identity(tensor_of(x))


@op
def imag(x: Any) -> Tensor:
    """The imaginary part: zeros."""
    return full_like(tensor_of(x), 0)


@op
def conjugate(x: Any) -> Tensor:
    """The complex conjugate, which is the number itself."""
    return identity(tensor_of(x))


@op
def conj(x: Any) -> Tensor:
    """The complex conjugate, which is the number itself."""
    return conjugate(x)


@op
def angle(x: Any) -> Tensor:
    """The angle of a real number in the complex plane: 0, and π for negative ones."""
    x = float_of(x)
    # 1 / -0 is minus infinity.
    zero = ew.equal(x, ew.zero(x))
    side = ew.where(zero, ew.div(ew.one(x), ew.where(zero, x, ew.one(x))), x)
    negative = ew.less(side, ew.zero(x))
    found = ew.where(negative, like(math.pi, x), ew.zero(x))
    return ew.where(el.is_nan(x), x, found)
