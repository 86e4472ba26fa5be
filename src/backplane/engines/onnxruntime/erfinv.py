"""The inverse error function.

Rational approximations of Wichura, M. J. (1988), "Algorithm AS 241: The Percentage Points of the
Normal Distribution", Applied Statistics 37 (3), 477-484, doi:10.2307/2347330: relative error about
1e-16. They give the normal quantile z(p), and erfinv(x) = z((1 + x) / 2) / sqrt(2); all three are
written in x, so that nothing cancels near 0 and near 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from backplane.engines.onnxruntime.builder import Symbol, node, number

# Numerator and denominator of each range, highest power first.
_CENTRE = (
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
_TAIL = (
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
_FAR_TAIL = (
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


Rational = tuple[Sequence[float], Sequence[float]]


def erfinv(x: Symbol) -> Symbol:
    """The y with erf(y) = x; ±inf at ±1 and NaN beyond. `x` is float32 or float64."""

    def constant(value: float) -> Symbol:
        return number(value, x.dtype)

    def less(a: Symbol, b: Symbol) -> Symbol:
        return node("Less", a, b, dtype="bool")

    def where(c: Symbol, a: Symbol, b: Symbol) -> Symbol:
        return node("Where", c, a, b, dtype=x.dtype)

    half = node("Mul", x, constant(0.5))
    square = node("Mul", half, half)
    inner = node("Mul", _rational(_CENTRE, node("Sub", constant(0.180625), square)), half)
    size = node("Abs", x)
    distance = node("Sub", constant(1), size)
    # Near 1: the quantile at this distance from it.
    r = node("Sqrt", node("Neg", node("Log", node("Mul", distance, constant(0.5)))))
    tail = _rational(_TAIL, node("Sub", r, constant(1.6)))
    far = _rational(_FAR_TAIL, node("Sub", r, constant(5)))
    outer = where(less(constant(5), r), far, tail)
    outer = where(node("Equal", distance, constant(0), dtype="bool"), constant(math.inf), outer)
    outer = node("Mul", outer, node("Sign", x))
    y = where(less(constant(0.85), size), outer, inner)
    return node("Mul", y, constant(math.sqrt(0.5)))


def _rational(coefficients: Rational, r: Symbol) -> Symbol:
    numerator, denominator = coefficients
    return node("Div", _polynomial(numerator, r), _polynomial(denominator, r))


def _polynomial(coefficients: Sequence[float], r: Symbol) -> Symbol:
    """Horner's rule."""
    y = number(coefficients[0], r.dtype)
    for c in coefficients[1:]:
        y = node("Add", node("Mul", y, r), number(c, r.dtype))
    return y
