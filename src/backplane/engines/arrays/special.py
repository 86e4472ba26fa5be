"""The inverse error function, which NumPy lacks, by rational approximations."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from backplane.core.approximations import CENTRE, FAR_TAIL, TAIL, Rational
from backplane.engines.table import Value


def erfinv(x: Value) -> Value:
    """The y with erf(y) = x; ±inf at ±1 and NaN beyond. `x` is an array of float32 or float64."""
    y = _rational(CENTRE, 0.180625 - x * x / 4)
    y *= x / 2
    outer = np.absolute(x) > 0.85
    if outer.any():
        tail = x[outer]
        y[outer] = np.copysign(_in_tail(1 - np.absolute(tail)), tail)
    y *= math.sqrt(0.5)
    return y


def _in_tail(distance: Value) -> Value:
    """The quantile at `distance` = 1 - |x|."""
    r = np.sqrt(-np.log(distance / 2))
    y = _rational(TAIL, r - 1.6)
    far = r > 5
    y[far] = _rational(FAR_TAIL, r[far] - 5)
    y[distance == 0] = np.inf
    return y


def _rational(coefficients: Rational, r: Value) -> Value:
    numerator, denominator = coefficients
    y = _polynomial(numerator, r)
    y /= _polynomial(denominator, r)
    return y


def _polynomial(coefficients: Sequence[float], r: Value) -> Value:
    """Horner's rule, in place."""
    y = np.full_like(r, coefficients[0])
    for c in coefficients[1:]:
        y *= r
        y += c
    return y
