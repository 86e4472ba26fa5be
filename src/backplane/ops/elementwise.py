"""Element-wise primitives: families of one line each.

A cotangent that is 0 stays 0 even where the derivative is infinite or undefined, because a branch
that `where` masked out must contribute 0, not NaN. `mul_no_nan(f, g)` takes care of that. Unlike
`where(g == 0, 0, f * g)`, its own derivative with respect to g is f at g = 0 too, which gradients
of gradients need, as long as f is finite.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

from backplane.core.approximations import CENTRE, FAR_TAIL, TAIL, Rational
from backplane.core.graph import Constant, Tensor, is_scalar
from backplane.core.primitive import Primitive, primitive
from backplane.core.spec import (
    BOOL,
    DTYPES,
    FLOAT,
    HALVES,
    INTEGER,
    NUMBER,
    Spec,
    bits,
    check_dtype,
    is_float,
)
from backplane.core.traits import Memory, Stacked, like_first
from backplane.ops import shaping as sh
from backplane.ops.creation import like, scalar
from backplane.ops.elementwise_families import (
    BOUNDS,
    FULL,
    binary,
    broadcast,
    elementwise_op,
    stacked_broadcast,
    to_x,
    to_y,
    unary,
)
from backplane.ops.elementwise_families import Op as Op


def number(x: Tensor) -> float | None:
    """The value of a constant scalar, None for anything else."""
    return float(x.value) if is_scalar(x) else None


def one(x: Tensor) -> Constant:
    """The number 1 in the dtype of `x`."""
    return like(1, x)


def zero(x: Tensor) -> Constant:
    """The number 0 in the dtype of `x`."""
    return like(0, x)


def in_single(op: Primitive[Any], rule: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """Decompose `op` by `rule`, and for halves, whose sums lose digits or are infinite, by `op`
    itself in float32.
    """

    def composed(*xs: Tensor, **params: object) -> Any:
        dtype = xs[0].spec.dtype
        if dtype in HALVES:
            wide = [cast(x, dtype="float32") if is_float(x.spec.dtype) else x for x in xs]
            results = op(*wide, **params)
            if not op.multiple:
                return cast(results, dtype=dtype)
            return [cast(t, dtype=dtype) if is_float(t.spec.dtype) else t for t in results]
        if rule is None:
            raise NotImplementedError(f"{op.name} needs a kernel for {dtype}")
        return rule(*xs, **params)

    return op.decompose(composed)


# --- arithmetic -----------------------------------------------------------------------------------


def _stacked_sum(node: Tensor, operands: Sequence[Stacked]) -> Tensor:
    """The trait `stacks`. A bias joins the rows of a product: engines do both at once."""
    for (x, stacked, _), (c, varies, _) in (operands, operands[::-1]):
        if stacked and not varies and x.op is sh.reshape:
            rows = x.inputs[0]
            if rows.ndim == node.ndim == 2 and (c.ndim < 2 or c.spec.shape[0] == 1):
                total = add(rows, c)
                if total.spec == rows.spec:
                    return sh.reshape(total, *x.inputs[1:], **x.params)
    return stacked_broadcast(node, operands)


add: Op = binary("add", "x + y.", NUMBER, stacks=_stacked_sum)
add.vjps(to_x(lambda g, z, x, y: g), to_y(lambda g, z, x, y: g))
sub = binary("sub", "x − y.", NUMBER)
sub.vjps(to_x(lambda g, z, x, y: g), to_y(lambda g, z, x, y: neg(g)))
mul = binary("mul", "x · y.", NUMBER, linear=(0, 1))
mul.vjps(to_x(lambda g, z, x, y: mul(g, y)), to_y(lambda g, z, x, y: mul(g, x)))
mul_no_nan = binary(
    "mul_no_nan", "x · y, but 0 where y is 0, even if x is infinite or NaN there.", FLOAT,
    linear=(0, 1),
)  # fmt: skip


def _no_nan_y(g: Tensor, z: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """The other factor; 0 where that is no number and the result is 0 all the same."""
    counts = logical_or(less(abs(x), like(math.inf, x)), not_equal(y, zero(y)))
    return where(counts, mul_no_nan(x, g), zero(g))


mul_no_nan.vjps(to_x(lambda g, z, x, y: mul_no_nan(y, g)), to_y(_no_nan_y))


@mul_no_nan.decompose
def _(x: Tensor, y: Tensor) -> Tensor:
    return where(equal(y, zero(y)), zero(y), mul(x, y))


def _div_x(g: Tensor, z: Tensor, x: Tensor, y: Tensor) -> Tensor:
    divisor = number(y)
    if divisor and math.isfinite(divisor):
        return div(g, y)
    return mul_no_nan(div(one(y), y), g)


div = binary("div", "True division x / y.", FLOAT, linear=(0,))
div.vjps(to_x(_div_x), to_y(lambda g, z, x, y: neg(mul_no_nan(div(z, y), g))))
floordiv = binary("floordiv", "x / y rounded toward minus infinity.", NUMBER, precision=FULL)
mod = binary("mod", "The remainder of `floordiv`; it has the sign of y.", NUMBER, precision=FULL)
mod.vjps(to_x(lambda g, z, x, y: g), to_y(lambda g, z, x, y: neg(mul(g, floordiv(x, y)))))


def _pow_x(g: Tensor, z: Tensor, x: Tensor, y: Tensor) -> Tensor:
    exponent = number(y)
    if exponent == 1:
        return g
    if exponent == 2:
        return mul(g, mul(y, x))
    slope = pow(x, sub(y, one(y)))
    if exponent is not None and exponent > 1:
        return mul(g, mul(y, slope))
    return mul_no_nan(mul_no_nan(slope, y), g)


def _pow_y(g: Tensor, z: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """The gradient by the exponent. Where x ≤ 0 the logarithm counts as 0, as in TensorFlow."""
    positive = less(zero(x), x)
    log_x = where(positive, log(where(positive, x, one(x))), zero(x))
    return mul_no_nan(mul(z, log_x), g)


pow = binary("pow", "x to the power y.", NUMBER, precision=FULL)
pow.vjps(to_x(_pow_x), to_y(_pow_y))


def _kept(condition: Tensor, g: Tensor) -> Tensor:
    return where(condition, g, zero(g))


def _dropped(condition: Tensor, g: Tensor) -> Tensor:
    return where(condition, zero(g), g)


maximum = binary(
    "maximum", "The larger of x and y; the gradient of a tie goes to x.", NUMBER, precision=BOUNDS
)
maximum.vjps(
    to_x(lambda g, z, x, y: _kept(less_equal(y, x), g)),
    to_y(lambda g, z, x, y: _dropped(less_equal(y, x), g)),
)
minimum = binary(
    "minimum", "The smaller of x and y; the gradient of a tie goes to x.", NUMBER, precision=BOUNDS
)
minimum.vjps(
    to_x(lambda g, z, x, y: _kept(less_equal(x, y), g)),
    to_y(lambda g, z, x, y: _dropped(less_equal(x, y), g)),
)

neg: Op = unary("neg", "−x.", NUMBER, lambda g, y, x: neg(g), linear=(0,))
abs = unary("abs", "|x|; its slope at 0 is 0.", NUMBER, lambda g, y, x: mul(g, sign(x)))
sign: Op = unary("sign", "The sign of x: −1, 0 or 1.", NUMBER, lambda g, y, x: sh.zeros_like(x))
floor = unary("floor", "x rounded toward minus infinity.", NUMBER)
round = unary("round", "x rounded to the nearest whole number; halves go to the even one.", NUMBER)

# --- exponentials and other smooth functions ------------------------------------------------------

exp = unary("exp", "e to the power x.", FLOAT, lambda g, y, x: mul_no_nan(y, g), precision=FULL)
expm1 = unary("expm1", "e to the power x, minus 1, exact near 0.", FLOAT, precision=FULL)
expm1.vjps(lambda g, y, x: mul_no_nan(exp(x), g))  # y + 1 would lose digits near 0.
log = unary("log", "The natural logarithm.", FLOAT, precision=FULL)
log.vjps(lambda g, y, x: mul_no_nan(div(one(x), x), g))
log1p = unary("log1p", "The natural logarithm of 1 + x, exact near 0.", FLOAT, precision=FULL)
log1p.vjps(lambda g, y, x: mul_no_nan(div(one(x), add(x, one(x))), g))
sqrt = unary("sqrt", "The square root; NaN for negative x.", FLOAT, precision=FULL)
sqrt.vjps(lambda g, y, x: mul_no_nan(div(like(0.5, y), y), g))
sin = unary("sin", "The sine of x radians.", FLOAT, lambda g, y, x: mul(g, cos(x)), precision=FULL)
cos: Op = unary(
    "cos", "The cosine of x radians.", FLOAT, lambda g, y, x: neg(mul(g, sin(x))), precision=FULL
)
erf = unary(
    "erf", "The error function, 2 / √π times the integral of e^−t² from 0 to x.", FLOAT,
    lambda g, y, x: mul(mul(scalar(2 / math.sqrt(math.pi), x.spec.dtype), exp(neg(mul(x, x)))), g),
    precision=FULL,
)  # fmt: skip
erfinv = unary("erfinv", "The inverse of the error function, on (−1, 1).", FLOAT, precision=FULL)
erfinv.vjps(
    lambda g, y, x: mul_no_nan(mul(scalar(math.sqrt(math.pi) / 2, y.spec.dtype), exp(mul(y, y))), g)
)


def polynomial(x: Tensor, *coefficients: float) -> Tensor:
    """The polynomial with these coefficients, highest power first, by Horner's rule."""
    scalars: list[Tensor] = [like(c, x) for c in coefficients]
    return reduce(lambda total, c: add(mul(total, x), c), scalars)


@partial(in_single, erf)
def _(x: Tensor) -> Tensor:
    """Two rational approximations: up to 1 that of erf(x) / x, in x², and above that of (1 −
    erf(x)) · e^x², in x.

    Exact to 2e-16 in float64. Source: the coefficients of `erf` and `erfc` in S. L. Moshier's
    Cephes library, ndtr.c (https://www.netlib.org/cephes/), after W. J. Cody, Rational Chebyshev
    approximations for the error function (Mathematics of Computation 23, 1969).
    """
    # Beyond 6 the result is 1 even in float64. The quotient must not become ∞ / ∞ there.
    a = minimum(abs(x), like(6, x))
    z = mul(a, a)
    near = div(
        polynomial(z, 9.60497373987051638749e0, 9.00260197203842689217e1, 2.23200534594684319226e3,
                    7.00332514112805075473e3, 5.55923013010394962768e4),
        polynomial(z, 1.0, 3.35617141647503099647e1, 5.21357949780152679795e2,
                    4.59432382970980127987e3, 2.26290000613890934246e4, 4.92673942608635921086e4),
    )  # fmt: skip
    far = div(
        polynomial(a, 2.46196981473530512524e-10, 5.64189564831068821977e-1,
                    7.46321056442269912687e0, 4.86371970985681366614e1, 1.96520832956077098242e2,
                    5.26445194995477358631e2, 9.34528527171957607540e2, 1.02755188689515710272e3,
                    5.57535335369399327526e2),
        polynomial(a, 1.0, 1.32281951154744992508e1, 8.67072140885989742329e1,
                    3.54937778887819891062e2, 9.75708501743205489753e2, 1.82390916687909736289e3,
                    2.24633760818710981792e3, 1.65666309194161350182e3, 5.57535340817727675546e2),
    )  # fmt: skip
    outer = mul(sign(x), sub(one(x), mul(exp(neg(z)), far)))
    return where(less(a, one(x)), mul(x, near), outer)


def _rational(x: Tensor, coefficients: Rational) -> Tensor:
    return div(polynomial(x, *coefficients[0]), polynomial(x, *coefficients[1]))


@partial(in_single, erfinv)
def _(x: Tensor) -> Tensor:
    """±inf at ±1 and NaN beyond."""
    number = partial(like, x=x)
    half = mul(x, number(0.5))
    centre = mul(_rational(sub(number(0.180625), mul(half, half)), CENTRE), half)
    distance = sub(number(1), abs(x))
    edge = equal(distance, number(0))
    # Near 1 the result follows from the distance to 1. At 1 itself it is infinite. The branch that
    # is not chosen must be finite even there, because engines' own tapes differentiate it too.
    r = sqrt(neg(log(mul(where(edge, number(1), distance), number(0.5)))))
    near, far = _rational(sub(r, number(1.6)), TAIL), _rational(sub(r, number(5)), FAR_TAIL)
    tail = where(less(number(5), r), far, near)
    tail = mul(sign(x), where(edge, div(number(1), distance), tail))
    return mul(where(less(distance, number(0.15)), tail, centre), number(math.sqrt(0.5)))


# --- activations and the gradients that engines have kernels for ----------------------------------

relu = unary("relu", "max(x, 0); its slope at 0 is 0.", NUMBER)
sigmoid = unary("sigmoid", "1 / (1 + e^−x).", FLOAT)
tanh = unary("tanh", "The hyperbolic tangent.", FLOAT)
softplus = unary("softplus", "log(1 + e^x), without overflow for large |x|.", FLOAT, precision=FULL)
softplus.vjps(lambda g, y, x: mul(g, sigmoid(x)))
softplus.decompose(lambda x: add(maximum(x, zero(x)), log1p(exp(neg(abs(x))))))
softsign = unary("softsign", "x / (1 + |x|).", FLOAT)


@softsign.vjp
def _(g: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """The slope is 1 / (1 + |x|)². The rules of the quotient give a difference that cancels."""
    divisor = add(abs(x), one(x))
    return div(div(g, divisor), divisor)


@softsign.decompose
def _(x: Tensor) -> Tensor:
    """From some limit on the result is ±1. Infinities must not become ∞ / ∞."""
    limit = 6e4 if x.spec.dtype == "float16" else 1e30
    x = maximum(minimum(x, like(limit, x)), like(-limit, x))
    return div(x, add(abs(x), one(x)))


def stacked_alike(node: Tensor, operands: Sequence[Stacked]) -> Tensor:
    """The trait `stacks`: kernels take operands of one shape, so constant ones are repeated."""
    g, y = [v.tensor for v in operands]
    if not operands[0].stacked:
        g = sh.broadcast_like(g, y)
    elif not operands[1].stacked:
        y = sh.broadcast_like(y, g)
    return stacked_broadcast(node, [Stacked(g, True), Stacked(y, True)])


gradient_op = partial(elementwise_op, axes=like_first, linear=(0,), stacks=stacked_alike)
"""Decorator: declare a primitive of a cotangent and of a tensor from which the slope follows. It is
linear in the cotangent."""


def like_both(name: str, g: Spec, y: Spec) -> Spec:
    """The result of such a primitive."""
    if g.dtype != y.dtype:
        raise TypeError(f"{name}: g has dtype {g.dtype} and y {y.dtype}; cast one of them")
    return g if g.shape == y.shape else Spec(broadcast(name, g.shape, y.shape), g.dtype)


def plain_gradient(name: str, doc: str, **traits: Any) -> Op:
    """Such a primitive without parameters."""

    def rule(g: Spec, y: Spec) -> Spec:
        return like_both(name, g, y)

    rule.__doc__ = doc
    return gradient_op(rule, name, **traits)


relu_grad = plain_gradient(
    "relu_grad", "The cotangent g where y > 0, else 0: the gradient of `relu` from its result y."
)
sigmoid_grad = plain_gradient(
    "sigmoid_grad", "The product g · y · (1 − y): the gradient of `sigmoid` from its result y."
)
tanh_grad = plain_gradient(
    "tanh_grad", "The product g · (1 − y²): the gradient of `tanh` from its result y."
)
relu.vjps(lambda g, y, x: relu_grad(g, y))
sigmoid.vjps(lambda g, y, x: sigmoid_grad(g, y))
tanh.vjps(lambda g, y, x: tanh_grad(g, y))
relu_grad.vjps(lambda c, z, g, y: relu_grad(c, y), lambda c, z, g, y: sh.zeros_like(y))
sigmoid_grad.vjps(
    lambda c, z, g, y: sigmoid_grad(c, y),
    lambda c, z, g, y: mul(mul(c, g), sub(one(y), add(y, y))),
)
tanh_grad.vjps(
    lambda c, z, g, y: tanh_grad(c, y),
    lambda c, z, g, y: mul(mul(c, g), mul(like(-2, y), y)),
)


@relu_grad.decompose
def _(g: Tensor, y: Tensor) -> Tensor:
    return where(less(zero(y), y), g, zero(g))


sigmoid_grad.decompose(lambda g, y: mul(mul(g, y), sub(one(y), y)))
tanh_grad.decompose(lambda g, y: mul(g, sub(one(y), mul(y, y))))


# --- comparison, logic and bits -------------------------------------------------------------------

_comparison = partial(binary, result="bool", precision=BOUNDS)
equal = _comparison("equal", "Whether x = y.", DTYPES)
not_equal = _comparison("not_equal", "Whether x ≠ y.", DTYPES)
less = _comparison("less", "Whether x < y.", NUMBER)
less_equal: Op = _comparison("less_equal", "Whether x ≤ y.", NUMBER)

logical_not = unary("logical_not", "Whether x is false.", BOOL)
logical_and = binary("logical_and", "Whether both are true.", BOOL)
logical_or = binary("logical_or", "Whether at least one of them is true.", BOOL)

bit_and = binary("bit_and", "The bits that are set in both.", INTEGER)
bit_or = binary("bit_or", "The bits that are set in at least one of them.", INTEGER)
bit_xor = binary("bit_xor", "The bits that are set in exactly one of them.", INTEGER)
shift_left = binary("shift_left", "The bits of x, moved up by y places.", INTEGER)
shift_right = binary(
    "shift_right", "The bits of x, moved down by y places; a signed x keeps its sign.", INTEGER
)

# --- choice and conversion ------------------------------------------------------------------------


@partial(elementwise_op, memory=Memory.ANY, on_host=True)
def where(c: Spec, x: Spec, y: Spec) -> Spec:
    """Element by element, x where c is true and y elsewhere. All three are broadcast."""
    if c.dtype != "bool":
        raise TypeError(f"where: c must hold bools, got dtype {c.dtype}; cast it")
    if x.dtype != y.dtype:
        raise TypeError(f"where: x has dtype {x.dtype} and y {y.dtype}; cast one of them")
    if c.shape == x.shape and (x.shape == y.shape or not y.shape) and not x.sparse:
        return x
    return Spec(broadcast("where", c.shape, x.shape, y.shape), x.dtype)


where.vjps(
    None,
    lambda g, z, c, x, y: sh.sum_to_like(_kept(c, g), x, z),
    lambda g, z, c, x, y: sh.sum_to_like(_dropped(c, g), y, z),
)


@partial(elementwise_op, memory=Memory.VIEW, on_host=True, axes=like_first, precision=FULL)
def cast(x: Spec, *, dtype: str) -> Spec:
    """The elements as `dtype`. Floats become integers by rounding toward zero; numbers become bools
    by x ≠ 0.
    """
    if dtype not in DTYPES:
        raise ValueError(f"cast: unknown dtype {dtype!r}; known are {', '.join(sorted(DTYPES))}")
    return Spec(x.shape, dtype)


cast.vjp(lambda g, y, x, *, dtype: cast(g, dtype=x.spec.dtype) if is_float(x.spec.dtype) else None)


@primitive(memory=Memory.VIEW, precision=FULL)
def bitcast(x: Spec, *, dtype: str) -> Spec:
    """The bits of the elements, read as `dtype`. If an element of `dtype` is smaller, a new last
    axis counts its parts, the lowest bits first. If it is larger, the last axis must hold just the
    parts of one, and goes away.
    """
    for what, given in (("x", x.dtype), ("the wanted dtype", dtype)):
        check_dtype("bitcast", what, given, NUMBER)
    old, new = bits(x.dtype), bits(dtype)
    if old > new:
        return Spec((*x.shape, old // new), dtype)
    if old < new and (not x.shape or x.shape[-1] not in (new // old, None)):
        raise ValueError(
            f"bitcast: one {dtype} is {new // old} elements of {x.dtype}, and the last axis of x "
            f"must have as many: x has shape {x.shape}"
        )
    return Spec(x.shape if old == new else x.shape[:-1], dtype)
