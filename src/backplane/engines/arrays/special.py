"""The inverse error function, which NumPy lacks, by rational approximations."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from backplane.engines.base import Value

Rational = tuple[Sequence[float], Sequence[float]]
"""Numerator and denominator, highest power first."""

# Wichura, M. J. (1988), "Algorithm AS 241: The Percentage Points of the Normal
# Distribution", Applied Statistics 37 (3), 477-484, doi:10.2307/2347330. The relative error is
# about 1e-16. They give the normal quantile z(p), and erfinv(x) = z((1 + x) / 2) / sqrt(2). All
# three are written in x, so that nothing cancels near 0 and near 1.

CENTRE = (
    (
        2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4,
        4.5921953931549871457e4, 1.3731693765509461125e4, 1.9715909503065514427e3,
        1.3314166789178437745e2, 3.3871328727963666080e0,
    ),
    (
        5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4,
        2.1213794301586595867e4, 5.3941960214247511077e3, 6.8718700749205790830e2,
        4.2313330701600911252e1, 1.0,
    ),
)  # fmt: skip
TAIL = (
    (
        7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
        1.27045825245236838258e0, 3.64784832476320460504e0, 5.76949722146069140550e0,
        4.63033784615654529590e0, 1.42343711074968357734e0,
    ),
    (
        1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2,
        1.48103976427480074590e-1, 6.89767334985100004550e-1, 1.67638483018380384940e0,
        2.05319162663775882187e0, 1.0,
    ),
)  # fmt: skip
FAR_TAIL = (
    (
        2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3,
        2.65321895265761230930e-2, 2.96560571828504891230e-1, 1.78482653991729133580e0,
        5.46378491116411436990e0, 6.65790464350110377720e0,
    ),
    (
        2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5,
        7.86869131145613259100e-4, 1.48753612908506148525e-2, 1.36929880922735805310e-1,
        5.99832206555887937690e-1, 1.0,
    ),
)  # fmt: skip


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
