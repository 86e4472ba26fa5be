"""Groups: what programs write as a dozen operations and libraries compute by one kernel.

`compile.fuse` finds them in graphs by their decompositions. A group has a gradient that is a
primitive too, and both have decompositions, so an engine without the kernels needs to know nothing
of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from backplane.core import shapes
from backplane.core.graph import Tensor
from backplane.core.primitive import Fused, Primitive, primitive
from backplane.core.spec import FLOAT, Spec, check_dtype
from backplane.core.traits import Cotangents, Memory, Precision, like_first, results_like
from backplane.ops import elementwise as ew
from backplane.ops.autodiff import gradients
from backplane.ops.creation import as_scalar, like, scalar
from backplane.ops.effects import identity
from backplane.ops.elementwise import add, div, erf, exp, mul, mul_no_nan, sqrt, sub, tanh
from backplane.ops.elementwise_families import elementwise_op, unary
from backplane.ops.linear import matmul, times
from backplane.ops.rectifiers import clipped_relu, clipped_relu_grad
from backplane.ops.reduction import count, mean, softmax
from backplane.ops.shaping import Axes, sum, sum_to_like


def through_decomposition(op: Primitive[Any]) -> None:
    """Let `op` have the gradient of its decomposition."""
    op.vjp(lambda g, y, *operands, **params: slopes(op, g, operands, **params))


def slopes(op: Primitive[Any], g: Any, operands: Sequence[Tensor], **params: Any) -> Cotangents:
    """The gradients of the decomposition of `op` by its operands, from those of its results."""
    assert op.decomposition is not None
    # Operands may be equal, and may be computed from each other.
    given = [identity(t) for t in operands]
    result = op.decomposition(*given, **params)
    results, seeds = (result, g) if op.multiple else ([result], [g])
    reached = [(t, c) for t, c in zip(results, seeds, strict=True) if c is not None]
    return gradients([t for t, _ in reached], given, [c for _, c in reached], stop=given)


# --- GELU -----------------------------------------------------------------------------------------

CUBIC = 0.044715
"""The weight of the cube in the tangent that approximates GELU."""
SLOPE = math.sqrt(2 / math.pi)


APPROXIMATE = ({"approximate": True}, {"approximate": False})


@partial(
    elementwise_op, axes=like_first, precision=Precision.FULL, fused=Fused(options=APPROXIMATE)
)
def gelu(x: Spec, *, approximate: bool) -> Spec:
    """The product of x and the probability that a standard normal number is below x. If
    `approximate`, 0.5 · x · (1 + tanh(√(2/π) · (x + 0.044715 · x³))).
    """
    check_dtype("gelu", "x", x.dtype, FLOAT)
    return x


@partial(ew.gradient_op, precision=Precision.FULL)
def gelu_grad(g: Spec, x: Spec, *, approximate: bool) -> Spec:
    """The product of g and the derivative of `gelu` at x."""
    return ew.like_both("gelu_grad", g, x)


gelu.vjps(lambda g, y, x, *, approximate: gelu_grad(g, x, approximate=approximate))


def _curve(x: Tensor, approximate: bool) -> Tensor:
    """The part of GELU that lies between −1 and 1."""
    if not approximate:
        return erf(mul(x, scalar(math.sqrt(0.5), x.spec.dtype)))
    cubic = mul(mul(x, x), like(SLOPE * CUBIC, x))
    return tanh(mul(x, add(cubic, like(SLOPE, x))))


def _share(x: Tensor, approximate: bool) -> Tensor:
    """The share of x that GELU passes on."""
    half = like(0.5, x)
    return add(mul(_curve(x, approximate), half), half)


gelu.decompose(lambda x, *, approximate: mul(x, _share(x, approximate)))


@gelu_grad.decompose
def _(g: Tensor, x: Tensor, *, approximate: bool) -> Tensor:
    dtype = x.spec.dtype
    square = mul(x, x)
    if approximate:
        t = _curve(x, approximate)
        inner = add(mul(square, scalar(1.5 * SLOPE * CUBIC, dtype)), scalar(0.5 * SLOPE, dtype))
        slope = mul_no_nan(inner, sub(scalar(1, dtype), mul(t, t)))
    else:
        slope = mul(
            exp(mul(square, scalar(-0.5, dtype))), scalar(1 / math.sqrt(2 * math.pi), dtype)
        )
    return mul(g, add(_share(x, approximate), mul_no_nan(x, slope)))


through_decomposition(gelu_grad)

# --- SiLU, and with a piecewise linear sigmoid ----------------------------------------------------


@partial(ew.gradient_op, precision=Precision.FULL)
def silu_grad(g: Spec, x: Spec) -> Spec:
    """The product of g and the derivative of `silu` at x."""
    return ew.like_both("silu_grad", g, x)


silu = unary(
    "silu", "The product of x and its sigmoid, also known as swish.", FLOAT,
    lambda g, y, x: silu_grad(g, x), precision=Precision.FULL, fused=Fused(),
)  # fmt: skip
silu.decompose(lambda x: mul(x, ew.sigmoid(x)))


@silu_grad.decompose
def _(g: Tensor, x: Tensor) -> Tensor:
    share = ew.sigmoid(x)
    return add(mul(g, share), ew.sigmoid_grad(mul(g, x), share))


through_decomposition(silu_grad)


@ew.gradient_op
def hard_silu_grad(g: Spec, x: Spec) -> Spec:
    """The product of g and the derivative of `hard_silu` at x."""
    return ew.like_both("hard_silu_grad", g, x)


hard_silu = unary(
    "hard_silu", "The product of x and min(max(x + 3, 0), 6) / 6, also known as hard swish.", FLOAT,
    lambda g, y, x: hard_silu_grad(g, x), fused=Fused(),
)  # fmt: skip


def _clipped(x: Tensor) -> Tensor:
    return clipped_relu(add(x, like(3, x)), high=6.0)


hard_silu.decompose(lambda x: mul(x, mul(_clipped(x), like(1 / 6, x))))


@hard_silu_grad.decompose
def _(g: Tensor, x: Tensor) -> Tensor:
    share = _clipped(x)
    slope = add(mul(g, share), clipped_relu_grad(mul(g, x), share, high=6.0))
    return mul(slope, like(1 / 6, x))


through_decomposition(hard_silu_grad)

# --- normalization --------------------------------------------------------------------------------


def varying(t: Spec, x: Spec) -> set[int]:
    """The axes of `x` along which a tensor that is broadcast to it varies."""
    return {i + len(x.shape) - len(t.shape) for i, n in enumerate(t.shape) if n != 1}


def _is_normalization(x: Spec, *parameters: Spec, axes: Axes, epsilon: float) -> bool:
    """Whether gamma and beta vary along normalized axes alone, or along others alone, or along the
    channels of groups of channels.
    """
    groups = axes == (*range(1, x.ndim - 2), x.ndim - 1)

    def fits(t: Spec) -> bool:
        if t.dtype != x.dtype or t.ndim > x.ndim:
            return False
        along = varying(t, x)
        channels = groups and along == {x.ndim - 2, x.ndim - 1}
        return along.issubset(axes) or along.isdisjoint(axes) or channels

    return epsilon > 0 and all(map(fits, parameters))


@primitive(
    multiple=True,
    memory=Memory.FRESH,
    axes=results_like(0, 0, 0, 0),
    fused=Fused(operands=(3, 1), numbers=["epsilon"], fits=_is_normalization),
)
def normalize(x: Spec, *parameters: Spec, axes: Axes, epsilon: float) -> list[Spec]:
    """(x − mean) / √(variance + ε), with mean and variance over `axes`, times gamma plus beta if
    these two are given. Then the mean, the variance, and 1 / √(variance + ε), whose `axes` have
    size 1.
    """
    check_dtype("normalize", "x", x.dtype, FLOAT)
    shapes.check_axes("normalize", axes, len(x.shape))
    if len(parameters) not in (0, 2):
        raise TypeError(f"normalize: takes gamma and beta or none, got {len(parameters)} operands")
    if any(t.dtype != x.dtype for t in parameters):
        raise TypeError(f"normalize: gamma and beta must have dtype {x.dtype}; cast them")
    moment = Spec(shapes.reduce(x.shape, axes, True), x.dtype)
    return [x, moment, moment, moment]


@primitive(multiple=True, memory=Memory.FRESH, axes=results_like(1, 4, 4))
def normalize_grad(
    g: Spec, x: Spec, mean: Spec, scale: Spec, *gamma: Spec, axes: Axes
) -> list[Spec]:
    """The gradients of `normalize` by x and, if gamma is given, by gamma and by a beta of its
    shape. `mean` and `scale` are the second and the last result of `normalize`.
    """
    check_dtype("normalize_grad", "g", g.dtype, FLOAT)
    return [x, *gamma, *gamma]


def _scale(variance: Tensor, epsilon: float | Tensor) -> Tensor:
    dtype = variance.spec.dtype
    return div(scalar(1, dtype), sqrt(add(variance, as_scalar(epsilon, dtype))))


def _moments(x: Tensor, axes: Axes, epsilon: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The operand without its mean, the mean, the variance, and the scale."""
    centre = mean(x, axes=axes, keepdims=True)
    centred = sub(x, centre)
    variance = mean(mul(centred, centred), axes=axes, keepdims=True)
    return centred, centre, variance, _scale(variance, epsilon)


@normalize.decompose
def _(x: Tensor, *parameters: Tensor, axes: Axes, epsilon: float) -> list[Tensor]:
    centred, *others, scale = _moments(x, axes, epsilon)
    if not parameters:
        return [mul(centred, scale), *others, scale]
    gamma, beta = parameters
    if varying(gamma.spec, x.spec).isdisjoint(axes):
        y = mul(centred, mul(scale, gamma))  # These two are small, so their product comes first.
    else:
        y = mul(mul(centred, scale), gamma)
    return [add(y, beta), *others, scale]


@normalize_grad.decompose
def _(
    g: Tensor, x: Tensor, centre: Tensor, scale: Tensor, *gamma: Tensor, axes: Axes
) -> list[Tensor]:
    centred = sub(x, centre)
    small = all(varying(t.spec, x.spec).isdisjoint(axes) for t in gamma)
    factor = scale
    inner = g
    if gamma:
        factor, inner = (mul(scale, *gamma), g) if small else (scale, mul(g, *gamma))
    size = count(x, axes, x.spec.dtype)
    total = sum(inner, axes=axes, keepdims=True)
    moment = sum(mul(inner, centred), axes=axes, keepdims=True)
    pull = div(mul(moment, mul(scale, scale)), size)
    dx = mul(sub(sub(inner, div(total, size)), mul(centred, pull)), factor)
    if not gamma:
        return [dx]
    if small:
        by_gamma, by_beta = mul(moment, scale), total
    else:
        by_gamma, by_beta = mul(g, mul(centred, scale)), g
    return [dx, sum_to_like(by_gamma, gamma[0], x), sum_to_like(by_beta, gamma[0], x)]


through_decomposition(normalize_grad)


def is_vector(t: Spec) -> bool:
    """Whether a tensor varies along its last axis alone, whose size is known."""
    return t.ndim > 0 and t.shape[-1] is not None and {1}.issuperset(t.shape[:-1])


def _is_by_vectors(x: Spec, *vectors: Spec, epsilon: float) -> bool:
    alike = all(is_vector(t) and t.dtype == x.dtype for t in vectors)
    return alike and x.ndim > 1 and not is_vector(x) and epsilon >= 0


@primitive(
    memory=Memory.FRESH,
    axes=like_first,
    fused=Fused(
        operands=(5,),
        numbers=["epsilon"],
        neutral={"gamma": 1, "beta": 0, "epsilon": 0},
        fits=_is_by_vectors,
    ),
)
def normalize_by(
    x: Spec, mean: Spec, variance: Spec, gamma: Spec, beta: Spec, *, epsilon: float
) -> Spec:
    """(x − mean) / √(variance + ε) · gamma + beta. `compile.passes` puts it in the place of these
    operations.
    """
    check_dtype("normalize_by", "x", x.dtype, FLOAT)
    return x


@normalize_by.decompose
def _(
    x: Tensor, mean: Tensor, variance: Tensor, gamma: Tensor, beta: Tensor, *, epsilon: float
) -> Tensor:
    return add(mul(sub(x, mean), mul(_scale(variance, epsilon), gamma)), beta)


def _is_by_rows(x: Spec, gamma: Spec, *, axes: Axes, epsilon: float) -> bool:
    last = axes == (x.ndim - 1,) and gamma.shape == x.shape[-1:]
    return last and gamma.dtype == x.dtype and epsilon > 0


@primitive(
    memory=Memory.FRESH,
    axes=like_first,
    fused=Fused(operands=(2,), numbers=["epsilon"], fits=_is_by_rows),
)
def rms_normalize(x: Spec, gamma: Spec, *, axes: Axes, epsilon: float) -> Spec:
    """The product of gamma and x / √(the mean of x² + ε), with the mean over the last axis.
    `compile.passes` puts it in the place of these operations.
    """
    check_dtype("rms_normalize", "x", x.dtype, FLOAT)
    return x


@rms_normalize.decompose
def _(x: Tensor, gamma: Tensor, *, axes: Axes, epsilon: float) -> Tensor:
    square = mean(mul(x, x), axes=axes, keepdims=True)
    return mul(mul(x, _scale(square, epsilon)), gamma)


@normalize.vjp
def _(
    g: Cotangents, y: Sequence[Tensor], x: Tensor, *parameters: Tensor, axes: Axes, epsilon: float
) -> Cotangents:
    found: Cotangents = [None, *[None for _ in parameters]]
    if g[0] is not None:
        found = [*normalize_grad(g[0], x, y[1], y[3], *parameters[:1], axes=axes)]
        if parameters and parameters[1].spec.shape != parameters[0].spec.shape:
            found[2] = sum_to_like(g[0], parameters[1], x)
    if any(t is not None for t in g[1:]):
        given = identity(x)
        reached = zip(_moments(given, axes, epsilon)[1:], g[1:], strict=True)
        pairs = [(t, c) for t, c in reached if c is not None]
        (more,) = gradients([t for t, _ in pairs], [given], [c for _, c in pairs], stop=[given])
        found[0] = more if found[0] is None or more is None else add(found[0], more)
    return found


# --- attention ------------------------------------------------------------------------------------


HIDDEN = -1000
"""Scores of places that a mask hides are smaller."""


def _hides(*specs: Spec, scale: float, hidden: float | None) -> bool:
    return not any(t.sparse for t in specs) and (hidden is None or hidden < HIDDEN)


@primitive(
    memory=Memory.FRESH,
    axes=lambda node, axis: [(node.inputs[2 if axis == node.ndim - 1 else 0], axis)],
    fused=Fused(
        options=({"hidden": None}, {}),
        operands=(4, 5),
        numbers=["scale", "hidden"],
        rest=3,
        fits=_hides,
    ),
)
def attention(
    q: Spec, k: Spec, v: Spec, *bias_mask: Spec, scale: float, hidden: float | None
) -> Spec:
    """softmax(scale · q · kᵀ + bias) · v over the last two axes, with or without a bias. With a
    number `hidden`, the last operand is a mask, and scores where it is false are that number.
    `compile.passes` puts it in the place of these operations.
    """
    check_dtype("attention", "q", q.dtype, FLOAT)
    scores = matmul.infer_rule(q, k, transpose_x=False, transpose_y=True)
    for t in bias_mask:
        scores = Spec(shapes.broadcast(scores.shape, t.shape), q.dtype)
    result: Spec = matmul.infer_rule(scores, v, transpose_x=False, transpose_y=False)
    return result


@attention.decompose
def _(
    q: Tensor, k: Tensor, v: Tensor, *bias_mask: Tensor, scale: float, hidden: float | None
) -> Tensor:
    dtype = q.spec.dtype
    bias, mask = (bias_mask, ()) if hidden is None else (bias_mask[:-1], bias_mask[-1:])
    scores = mul(matmul(q, k, transpose_x=False, transpose_y=True), as_scalar(scale, dtype))
    for t in bias:
        scores = add(scores, t)
    for t in mask:
        assert hidden is not None
        scores = ew.where(t, scores, as_scalar(hidden, dtype))
    return times(softmax(scores, axis=scores.ndim - 1), v)
