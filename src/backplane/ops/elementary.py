"""Elementary functions that are compositions: kinds of numbers, logarithms to any base, triangles
and hyperbolas. Squares and powers inside of them do not overflow where the result is finite.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from backplane.core.graph import Tensor
from backplane.core.spec import bits
from backplane.ops import elementwise as ew
from backplane.ops.angles import atan2
from backplane.ops.creation import like

# --- bits -----------------------------------------------------------------------------------------


def shifted(shift: ew.Op, x: Tensor, y: Tensor) -> Tensor:
    """`x`, shifted by `y` places: in two steps, since libraries disagree about a shift by as many
    places as there are bits, or by more.
    """
    half, most = ew.shift_right(y, like(1, y)), like(bits(y.spec.dtype) - 1, y)
    return shift(shift(x, ew.minimum(half, most)), ew.minimum(ew.sub(y, half), most))


# --- kinds of numbers -----------------------------------------------------------------------------


def is_nan(x: Tensor) -> Tensor:
    """Whether floats are no numbers."""
    return ew.not_equal(x, x)


def is_infinite(x: Tensor) -> Tensor:
    """Whether floats are infinite."""
    return ew.equal(ew.abs(x), like(math.inf, x))


def is_finite(x: Tensor) -> Tensor:
    """Whether floats are neither infinite nor NaN."""
    return ew.less(ew.abs(x), like(math.inf, x))


def odd(x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    """An odd function by its values for positive numbers. Its slope at 0 is that from the right."""
    negative = ew.less(x, ew.zero(x))
    y = function(ew.where(negative, ew.neg(x), x))
    return ew.where(negative, ew.neg(y), y)


def rounded(x: Tensor, decimals: int) -> Tensor:
    """Floats rounded to so many decimals, or with a negative number to tens, hundreds, …; halves go
    to the even neighbour.
    """
    if not decimals:
        return ew.round(x)
    power = like(10.0 ** abs(decimals), x)
    up, down = (ew.mul, ew.div) if decimals > 0 else (ew.div, ew.mul)
    return down(ew.round(up(x, power)), power)


# --- powers and logarithms ------------------------------------------------------------------------


def exp2(x: Tensor) -> Tensor:
    """2 to the power x."""
    return ew.pow(like(2, x), x)


def cbrt(x: Tensor) -> Tensor:
    """The cube root, of negative numbers too."""
    return odd(x, lambda a: ew.pow(a, like(1 / 3, a)))


def log_to(base: float, x: Tensor) -> Tensor:
    """The logarithm to `base`."""
    return ew.div(ew.log(x), like(math.log(base), x))


def _ordered(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The larger and the smaller of two elements, if neither is NaN."""
    larger = ew.less_equal(y, x)
    return ew.where(larger, x, y), ew.where(larger, y, x)


def log_of_sum(base: float, x: Tensor, y: Tensor) -> Tensor:
    """The logarithm to `base` of the sum of its powers x and y."""
    high, low = _ordered(x, y)
    tie = ew.logical_and(ew.equal(x, y), is_infinite(x))
    distance = ew.where(tie, ew.zero(x), ew.sub(low, high))
    unit = like(math.log(base), x)
    return ew.add(high, ew.div(ew.softplus(ew.mul(distance, unit)), unit))


# --- triangles ------------------------------------------------------------------------------------


def hypot(x: Tensor, y: Tensor) -> Tensor:
    """√(x² + y²)."""
    x, y = ew.abs(x), ew.abs(y)
    high, low = _ordered(x, y)
    plain = ew.logical_and(ew.less(ew.zero(high), high), is_finite(high))
    ratio = ew.div(low, ew.where(plain, high, ew.one(high)))
    length = ew.mul(high, ew.sqrt(ew.add(ew.one(ratio), ew.mul(ratio, ratio))))
    infinite = ew.logical_or(is_infinite(x), is_infinite(y))
    # Of 0 and 0, or of an infinity and anything, it is the larger one.
    return ew.where(infinite, like(math.inf, high), ew.where(plain, length, ew.add(high, low)))


def tan(x: Tensor) -> Tensor:
    """The tangent of x radians."""
    return ew.div(ew.sin(x), ew.cos(x))


def arctan(x: Tensor) -> Tensor:
    """The inverse of `tan`, from −π/2 to π/2."""
    return atan2(x, ew.one(x))


def _other_side(x: Tensor) -> Tensor:
    """√(1 − x²), exact near 1; NaN beyond."""
    return ew.sqrt(ew.mul(ew.sub(ew.one(x), x), ew.add(ew.one(x), x)))


def arcsin(x: Tensor) -> Tensor:
    """The inverse of the sine, from −π/2 to π/2; NaN beyond ±1."""
    return atan2(x, _other_side(x))


def arccos(x: Tensor) -> Tensor:
    """The inverse of the cosine, from 0 to π; NaN beyond ±1."""
    return atan2(_other_side(x), x)


# --- hyperbolas -----------------------------------------------------------------------------------


def _powers_of_half(x: Tensor) -> tuple[Tensor, Tensor]:
    """e^(x/2) − 1 and e^(−x/2) − 1, which are exact near 0."""
    half = ew.mul(x, like(0.5, x))
    return ew.expm1(half), ew.expm1(ew.neg(half))


def sinh(x: Tensor) -> Tensor:
    """The hyperbolic sine, by the half argument."""
    up, down = _powers_of_half(x)
    twice_cosh = ew.add(ew.add(up, down), like(2, x))
    return ew.mul(ew.mul(ew.sub(up, down), like(0.5, x)), twice_cosh)


def cosh(x: Tensor) -> Tensor:
    """The hyperbolic cosine, by the half argument: 1 + 2 sinh²(x/2)."""
    twice_sinh = ew.sub(*_powers_of_half(x))
    return ew.add(ew.one(x), ew.mul(ew.mul(twice_sinh, like(0.5, x)), twice_sinh))


def arctanh(x: Tensor) -> Tensor:
    """The inverse of the hyperbolic tangent; NaN beyond ±1."""
    return ew.mul(ew.sub(ew.log1p(x), ew.log1p(ew.neg(x))), like(0.5, x))


_FAR = {"float16": 64.0, "float64": 1e8}
"""From where on 1 beside a square does not count, by dtype; 4096 for the others."""


def _limit(x: Tensor) -> Tensor:
    return like(_FAR.get(x.spec.dtype, 4096.0), x)


def _log_of_twice(x: Tensor, near: Tensor) -> Tensor:
    """log(2x) where x is so large that its square may be infinite, and `near` elsewhere."""
    far = ew.less(_limit(x), x)
    safe = ew.where(far, x, ew.one(x))
    return ew.where(far, ew.add(ew.log(safe), like(math.log(2), x)), near)


def arcsinh(x: Tensor) -> Tensor:
    """The inverse of `sinh`."""

    def positive(a: Tensor) -> Tensor:
        b = ew.minimum(a, _limit(a))
        square = ew.mul(b, b)
        root = ew.sqrt(ew.add(square, ew.one(b)))
        near = ew.log1p(ew.add(b, ew.div(square, ew.add(ew.one(b), root))))
        return _log_of_twice(a, near)

    return odd(x, positive)


def arccosh(x: Tensor) -> Tensor:
    """The inverse of `cosh` for numbers from 1 on; NaN for smaller ones."""
    above = ew.sub(ew.minimum(x, _limit(x)), ew.one(x))
    root = ew.sqrt(ew.mul(above, ew.add(above, like(2, x))))
    return _log_of_twice(x, ew.log1p(ew.add(above, root)))
