"""The inverse error function; its formula is described in `engines.arrays.special`."""

from __future__ import annotations

import math
from collections.abc import Sequence

from backplane.engines.arrays.special import CENTRE, FAR_TAIL, TAIL, Rational
from backplane.engines.onnxruntime.builder import Symbol, node, number


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
    inner = node("Mul", _rational(CENTRE, node("Sub", constant(0.180625), square)), half)
    size = node("Abs", x)
    distance = node("Sub", constant(1), size)
    # Near 1: the quantile at this distance from it.
    r = node("Sqrt", node("Neg", node("Log", node("Mul", distance, constant(0.5)))))
    tail = _rational(TAIL, node("Sub", r, constant(1.6)))
    far = _rational(FAR_TAIL, node("Sub", r, constant(5)))
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
