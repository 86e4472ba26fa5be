"""Trigonometry, hyperbolas, and the Bessel function that windows need."""

from __future__ import annotations

import math
from typing import Any

from backplane.core.graph import Tensor
from backplane.keras3.call import op
from backplane.keras3.ops.numpy.operands import float_of, floats, like
from backplane.ops import elementary as el
from backplane.ops import elementwise as ew
from backplane.ops.angles import atan2
from backplane.ops.lift import cast_to

__all__ = [
    "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "cos", "cosh",
    "deg2rad", "i0", "rad2deg", "sin", "sinc", "sinh", "tan", "tanh",
]  # fmt: skip


# --- circles --------------------------------------------------------------------------------------


@op
def sin(x: Any) -> Tensor:
    """The sine of an angle in radians."""
    return ew.sin(float_of(x))


@op
def cos(x: Any) -> Tensor:
    """The cosine of an angle in radians."""
    return ew.cos(float_of(x))


@op
def tan(x: Any) -> Tensor:
    """The tangent of an angle in radians."""
    return el.tan(float_of(x))


@op
def sinh(x: Any) -> Tensor:
    """The hyperbolic sine."""
    return el.sinh(float_of(x))


@op
def cosh(x: Any) -> Tensor:
    """The hyperbolic cosine."""
    return el.cosh(float_of(x))


@op
def tanh(x: Any) -> Tensor:
    """The hyperbolic tangent."""
    return ew.tanh(float_of(x))


@op
def arcsinh(x: Any) -> Tensor:
    """The inverse of `sinh`."""
    return el.arcsinh(float_of(x))


@op
def arccosh(x: Any) -> Tensor:
    """The inverse of `cosh` for numbers from 1 on; NaN for smaller ones."""
    return el.arccosh(float_of(x))


@op
def arctanh(x: Any) -> Tensor:
    """The inverse of `tanh`."""
    return el.arctanh(float_of(x))


@op
def arctan2(x1: Any, x2: Any) -> Tensor:
    """The angle of the point with the coordinates x2 and x1, in radians from -π to π."""
    return atan2(*floats(x1, x2))


@op
def arctan(x: Any) -> Tensor:
    """The inverse of `tan`, from -π/2 to π/2."""
    return el.arctan(float_of(x))


@op
def arcsin(x: Any) -> Tensor:
    """The inverse of `sin`, from -π/2 to π/2; NaN beyond ±1."""
    return el.arcsin(float_of(x))


@op
def arccos(x: Any) -> Tensor:
    """The inverse of `cos`, from 0 to π; NaN beyond ±1."""
    return el.arccos(float_of(x))


@op
def deg2rad(x: Any) -> Tensor:
    """An angle in degrees as radians."""
    x = float_of(x)
    return ew.mul(x, like(math.pi / 180, x))


@op
def rad2deg(x: Any) -> Tensor:
    """An angle in radians as degrees."""
    x = float_of(x)
    return ew.mul(x, like(180 / math.pi, x))


@op
def sinc(x: Any) -> Tensor:
    """sin(πx) / πx; 1 at 0."""
    x = float_of(x)
    z = ew.mul(x, like(math.pi, x))
    small = ew.less(ew.abs(z), like(0.01, z))
    divisor = ew.where(small, ew.one(z), z)
    # Near 0 the first terms of the series: they have all derivatives there.
    near = ew.polynomial(ew.mul(z, z), 1 / 120, -1 / 6, 1.0)
    return ew.where(small, near, ew.div(ew.sin(divisor), divisor))


# --- Bessel ---------------------------------------------------------------------------------------

_I0_NEAR = (
    -4.4153416464793395e-18,
    3.3307945188222384e-17,
    -2.431279846547955e-16,
    1.715391285555133e-15,
    -1.1685332877993451e-14,
    7.676185498604936e-14,
    -4.856446783111929e-13,
    2.95505266312964e-12,
    -1.726826291441556e-11,
    9.675809035373237e-11,
    -5.189795601635263e-10,
    2.6598237246823866e-09,
    -1.300025009986248e-08,
    6.046995022541919e-08,
    -2.670793853940612e-07,
    1.1173875391201037e-06,
    -4.4167383584587505e-06,
    1.6448448070728896e-05,
    -5.754195010082104e-05,
    0.00018850288509584165,
    -0.0005763755745385824,
    0.0016394756169413357,
    -0.004324309995050576,
    0.010546460394594998,
    -0.02373741480589947,
    0.04930528423967071,
    -0.09490109704804764,
    0.17162090152220877,
    -0.3046826723431984,
    0.6767952744094761,
)
_I0_FAR = (
    -7.233180487874754e-18,
    -4.830504485944182e-18,
    4.46562142029676e-17,
    3.461222867697461e-17,
    -2.8276239805165836e-16,
    -3.425485619677219e-16,
    1.7725601330565263e-15,
    3.8116806693526224e-15,
    -9.554846698828307e-15,
    -4.150569347287222e-14,
    1.54008621752141e-14,
    3.8527783827421426e-13,
    7.180124451383666e-13,
    -1.7941785315068062e-12,
    -1.3215811840447713e-11,
    -3.1499165279632416e-11,
    1.1889147107846439e-11,
    4.94060238822497e-10,
    3.3962320257083865e-09,
    2.266668990498178e-08,
    2.0489185894690638e-07,
    2.8913705208347567e-06,
    6.889758346916825e-05,
    0.0033691164782556943,
    0.8044904110141088,
)
"""Coefficients of Chebyshev polynomials for I0(x) · e^-x, up to 8 in x / 2 - 2, and for that times
√x, above 8 in 32 / x - 2.

Source: S. L. Moshier's Cephes library, i0.c (https://www.netlib.org/cephes/)."""


def _chebyshev(x: Tensor, coefficients: tuple[float, ...]) -> Tensor:
    """A sum of Chebyshev polynomials by Clenshaw's recurrence, the last one first."""
    before: Tensor = ew.zero(x)
    last: Tensor = ew.zero(x)
    two_before: Tensor = ew.zero(x)
    for c in coefficients:
        two_before, before = before, last
        last = ew.add(ew.sub(ew.mul(x, before), two_before), like(c, x))
    return ew.mul(ew.sub(last, two_before), like(0.5, x))


@op
def i0(x: Any) -> Tensor:
    """The modified Bessel function of the first kind and order 0."""
    x = float_of(x)
    dtype = x.spec.dtype
    a = ew.abs(x if dtype == "float64" else cast_to(x, "float32"))
    eight = like(8, a)
    near = ew.sub(ew.mul(ew.minimum(a, eight), like(0.5, a)), like(2, a))
    large = ew.maximum(a, eight)
    far = ew.sub(ew.div(like(32, a), large), like(2, a))
    scaled = ew.where(
        ew.less_equal(a, eight),
        _chebyshev(near, _I0_NEAR),
        ew.div(_chebyshev(far, _I0_FAR), ew.sqrt(large)),
    )
    return cast_to(ew.mul(ew.exp(a), scaled), dtype)
