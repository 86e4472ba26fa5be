"""Rectifiers: piecewise linear activations, and the gradients that libraries have kernels for."""

from __future__ import annotations

from collections.abc import Callable

from backplane.core import shapes
from backplane.core.graph import Tensor
from backplane.core.spec import FLOAT, Spec, check_dtype
from backplane.core.traits import like_first
from backplane.ops.creation import scalar
from backplane.ops.elementwise import (
    Op,
    elementwise_op,
    less,
    less_equal,
    logical_or,
    minimum,
    mul,
    relu,
    stacked_alike,
    where,
    zero,
)
from backplane.ops.shaping import zeros_like


def _clipped_relu_spec(x: Spec, *, high: float) -> Spec:
    """max(x, 0), but `high`, which is positive, at most. The slope at 0 and at `high` is 0."""
    check_dtype("clipped_relu", "x", x.dtype, FLOAT)
    return x


def _clipped_relu_grad_spec(g: Spec, y: Spec, *, high: float) -> Spec:
    """The gradient of `clipped_relu` from its result y: 0 where y ≤ 0 or y ≥ high, else g."""
    return _like_both("clipped_relu_grad", g, y)


def _leaky_relu_spec(x: Spec, *, slope: float) -> Spec:
    """The operand x where x > 0, else slope · x."""
    check_dtype("leaky_relu", "x", x.dtype, FLOAT)
    return x


def _leaky_relu_grad_spec(g: Spec, x: Spec, *, slope: float) -> Spec:
    """The gradient of `leaky_relu`: g where x > 0, else slope · g."""
    return _like_both("leaky_relu_grad", g, x)


def _like_both(name: str, g: Spec, y: Spec) -> Spec:
    if g.dtype != y.dtype:
        raise TypeError(f"{name}: g has dtype {g.dtype} and y {y.dtype}; cast one of them")
    return g if g.shape == y.shape else Spec(shapes.broadcast(g.shape, y.shape), g.dtype)


def _gradient(rule: Callable[..., Spec], name: str) -> Op:
    """A primitive of a cotangent and what tells on which piece an element is."""
    op = elementwise_op(rule, name, axes=like_first, linear=(0,), stacks=stacked_alike)
    op.vjps(lambda c, z, g, y, **params: op(c, y, **params), lambda c, z, g, y, **_: zeros_like(y))
    return op


clipped_relu = elementwise_op(_clipped_relu_spec, "clipped_relu", axes=like_first)
clipped_relu_grad = _gradient(_clipped_relu_grad_spec, "clipped_relu_grad")
clipped_relu.vjps(lambda g, y, x, *, high: clipped_relu_grad(g, y, high=high))

leaky_relu = elementwise_op(_leaky_relu_spec, "leaky_relu", axes=like_first)
leaky_relu_grad = _gradient(_leaky_relu_grad_spec, "leaky_relu_grad")
# With a positive slope y tells the piece as well as x, which need not be kept then.
leaky_relu.vjps(lambda g, y, x, *, slope: leaky_relu_grad(g, y if slope > 0 else x, slope=slope))


@clipped_relu.decompose
def _(x: Tensor, *, high: float) -> Tensor:
    return minimum(scalar(high, x.spec.dtype), relu(x))


@clipped_relu_grad.decompose
def _(g: Tensor, y: Tensor, *, high: float) -> Tensor:
    outside = logical_or(less_equal(y, zero(y)), less_equal(scalar(high, y.spec.dtype), y))
    return where(outside, zero(g), g)


@leaky_relu.decompose
def _(x: Tensor, *, slope: float) -> Tensor:
    return where(less(zero(x), x), x, mul(x, scalar(slope, x.spec.dtype)))


@leaky_relu_grad.decompose
def _(g: Tensor, x: Tensor, *, slope: float) -> Tensor:
    return where(less(zero(x), x), g, mul(g, scalar(slope, g.spec.dtype)))
