"""Functions that MLX computes in float32 also where it says float64, in float64.

On its processor MLX (0.32) has exp, sin, cos and sigmoid only as approximations for
float32, while power, tan, log and sqrt are those of the C library. Each function brings its own
derivative, because MLX's rules would use the approximations again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx

from backplane.core.spec import Spec
from backplane.engines.table import Lowering, Value


def is_wide(specs: Sequence[Spec], **params: Any) -> bool:
    """Whether the first operand is of float64: a condition for `Entry.unless`."""
    return specs[0].dtype == "float64"


def _with_slope(function: Lowering, slope: Callable[[Value, Value], Value]) -> Lowering:
    """`function`, whose derivative at x, where it is y, is `slope(x, y)`."""
    followed = mx.custom_function(function)
    followed.vjp(lambda x, g, y: g * slope(x, y))
    followed.jvp(lambda x, t: t * slope(x, function(x)))
    return followed


def _exp(x: Value) -> Value:
    """Use `expm1`, which is exact in float64. A power of the rounded e would be 7e-14 off."""
    large = mx.expm1(mx.abs(x)) + 1
    return mx.where(x < 0, 1 / large, large)


exp = _with_slope(_exp, lambda x, y: y)


def _sin(x: Value) -> Value:
    t = mx.tan(x / 2)
    return 2 * t / (1 + t * t)


def _cos(x: Value) -> Value:
    t, full = mx.tan(x / 2), mx.tan(x)
    # Near the zeros of the cosine 1 - t has few digits, but the tangent has all.
    return mx.where(mx.abs(full) > 1, 2 * t / full, (1 - t) * (1 + t)) / (1 + t * t)


sin: Lowering = _with_slope(_sin, lambda x, y: cos(x))
cos: Lowering = _with_slope(_cos, lambda x, y: -sin(x))
sigmoid = _with_slope(lambda x: 1 / (1 + exp(-x)), lambda x, y: y * (1 - y))
