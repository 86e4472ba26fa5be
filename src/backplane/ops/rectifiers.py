"""Rectifiers: piecewise linear activations, and the gradients that libraries have kernels for."""

from __future__ import annotations

from functools import partial

from backplane.core.graph import Tensor
from backplane.core.spec import FLOAT, Spec, check_dtype
from backplane.core.traits import like_first
from backplane.ops import elementwise as ew
from backplane.ops.creation import like
from backplane.ops.elementwise_families import elementwise_op
from backplane.ops.shaping import zeros_like

_rectifier = partial(elementwise_op, axes=like_first)


@_rectifier
def clipped_relu(x: Spec, *, high: float) -> Spec:
    """max(x, 0), but `high`, which is positive, at most. The slope at 0 and at `high` is 0."""
    check_dtype("clipped_relu", "x", x.dtype, FLOAT)
    return x


@ew.gradient_op
def clipped_relu_grad(g: Spec, y: Spec, *, high: float) -> Spec:
    """The gradient of `clipped_relu` from its result y: 0 where y ≤ 0 or y ≥ high, else g."""
    return ew.like_both("clipped_relu_grad", g, y)


@_rectifier
def leaky_relu(x: Spec, *, slope: float) -> Spec:
    """The operand x where x > 0, else slope · x."""
    check_dtype("leaky_relu", "x", x.dtype, FLOAT)
    return x


@ew.gradient_op
def leaky_relu_grad(g: Spec, x: Spec, *, slope: float) -> Spec:
    """The gradient of `leaky_relu`: g where x > 0, else slope · g."""
    return ew.like_both("leaky_relu_grad", g, x)


clipped_relu.vjps(lambda g, y, x, *, high: clipped_relu_grad(g, y, high=high))
clipped_relu_grad.vjps(
    lambda c, z, g, y, *, high: clipped_relu_grad(c, y, high=high),
    lambda c, z, g, y, *, high: zeros_like(y),
)
# With a positive slope y tells the piece as well as x, which need not be kept then.
leaky_relu.vjps(lambda g, y, x, *, slope: leaky_relu_grad(g, y if slope > 0 else x, slope=slope))
leaky_relu_grad.vjps(
    lambda c, z, g, x, *, slope: leaky_relu_grad(c, x, slope=slope),
    lambda c, z, g, x, *, slope: zeros_like(x),
)


clipped_relu.decompose(lambda x, *, high: ew.minimum(like(high, x), ew.relu(x)))


@clipped_relu_grad.decompose
def _(g: Tensor, y: Tensor, *, high: float) -> Tensor:
    below, above = ew.less_equal(y, ew.zero(y)), ew.less_equal(like(high, y), y)
    return ew.where(ew.logical_or(below, above), ew.zero(g), g)


@leaky_relu.decompose
def _(x: Tensor, *, slope: float) -> Tensor:
    return ew.where(ew.less(ew.zero(x), x), x, ew.mul(x, like(slope, x)))


@leaky_relu_grad.decompose
def _(g: Tensor, x: Tensor, *, slope: float) -> Tensor:
    return ew.where(ew.less(ew.zero(x), x), g, ew.mul(g, like(slope, g)))
