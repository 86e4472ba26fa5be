"""Functions that MLX computes in float32 also where it says float64, in float64.

On its processor MLX (0.32) has exp, sin, cos, sigmoid and erfinv only as approximations for
float32, while power, tan, log and sqrt are those of the C library. Each function brings its own
derivative, because MLX's rules would use the approximations again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx

from backplane.core.spec import Spec
from backplane.engines.arrays.special import CENTRE, FAR_TAIL, TAIL, Rational
from backplane.engines.base import Lowering, Value
from backplane.engines.mlx.values import scalar


def is_wide(specs: Sequence[Spec], **params: Any) -> bool:
    """Whether the first operand is of float64: a condition for `Entry.unless`."""
    return specs[0].dtype == "float64"


def _with_slope(function: Lowering, slope: Callable[[Value, Value], Value]) -> Lowering:
    """`function`, whose derivative at x, where it is y, is `slope(x, y)`."""
    followed = mx.custom_function(function)
    followed.vjp(lambda x, g, y: g * slope(x, y))
    followed.jvp(lambda x, t: t * slope(x, function(x)))
    return followed


E = scalar(math.e, "float64")

exp = _with_slope(lambda x: mx.power(E, x), lambda x, y: y)


def _sin(x: Value) -> Value:
    t = mx.tan(x / 2)
    return 2 * t / (1 + t * t)


def _cos(x: Value) -> Value:
    t = mx.tan(x / 2)
    return (1 - t) * (1 + t) / (1 + t * t)


sin: Lowering = _with_slope(_sin, lambda x, y: cos(x))
cos: Lowering = _with_slope(_cos, lambda x, y: -sin(x))
sigmoid = _with_slope(lambda x: 1 / (1 + exp(-x)), lambda x, y: y * (1 - y))


def _erfinv(x: Value) -> Value:
    """The formula is described in `engines.arrays.special`."""
    distance = 1 - mx.abs(x)
    r = mx.sqrt(-mx.log(distance / 2))
    tail = mx.where(r > 5, _rational(FAR_TAIL, r - 5), _rational(TAIL, r - 1.6))
    tail = mx.sign(x) * mx.where(distance == 0, math.inf, tail)
    centre = x / 2 * _rational(CENTRE, scalar(0.180625, "float64") - x * x / 4)
    return mx.where(distance < 0.15, tail, centre) * scalar(math.sqrt(0.5), "float64")


erfinv = _with_slope(_erfinv, lambda x, y: exp(y * y) * scalar(math.sqrt(math.pi) / 2, "float64"))


def _rational(coefficients: Rational, r: Value) -> Value:
    numerator, denominator = coefficients
    return _polynomial(numerator, r) / _polynomial(denominator, r)


def _polynomial(coefficients: Sequence[float], r: Value) -> Value:
    """Horner's rule."""
    y = scalar(coefficients[0], "float64")
    for c in coefficients[1:]:
        y = y * r + scalar(c, "float64")
    return y
