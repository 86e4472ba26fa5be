"""Activation functions."""

from __future__ import annotations

from typing import TypeGuard

import numpy as np

from backplane import config
from backplane.backend._args import as_axis
from backplane.backend._call import api
from backplane.backend.types import Axis, TensorLike
from backplane.core.graph import Tensor
from backplane.core.spec import is_float
from backplane.ops import elementwise as ew
from backplane.ops import reduction as red
from backplane.ops.creation import scalar
from backplane.ops.lift import as_tensor, cast_to
from backplane.ops.rectifiers import clipped_relu, leaky_relu

__all__ = ["elu", "hard_sigmoid", "relu", "sigmoid", "softmax", "softplus", "softsign", "tanh"]


def float_tensor(x: TensorLike) -> Tensor:
    """`x` as a float tensor: integers and bools become `floatx()`."""
    x = as_tensor(x)
    return x if is_float(x.spec.dtype) else cast_to(x, config.floatx())


def is_number(value: object) -> TypeGuard[float]:
    """Whether `value` is a number of Python or NumPy, not a tensor, array or list."""
    return isinstance(value, int | float | np.number)


@api
def relu(
    x: TensorLike,
    alpha: TensorLike = 0.0,
    max_value: TensorLike | None = None,
    threshold: TensorLike = 0.0,
) -> Tensor:
    """Rectified linear unit.

    f(x) is max_value for x >= max_value, x for threshold <= x < max_value, and alpha * (x -
    threshold) below. With the defaults that is max(x, 0). The derivative at 0 is `alpha`, and at
    `max_value` it is 0. NaN stays NaN.

    Args:
        x: Tensor.
        alpha: Slope below the threshold: a number or a tensor that broadcasts.
        max_value: Number at which the function saturates, or None.
        threshold: Number below which the slope is `alpha`.

    Returns:
        A tensor of the shape of `x`.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.relu(K.constant([-2.0, 1.0, 9.0]), alpha=0.5, max_value=6.0))
        array([-1.,  1.,  6.], dtype=float32)
    """
    x = as_tensor(x)
    dtype = x.spec.dtype if is_float(x.spec.dtype) else None
    edge, factor = as_tensor(threshold, dtype), as_tensor(alpha, dtype)
    limit = None if max_value is None else as_tensor(max_value, dtype)
    slope = ew.number(factor) if ew.number(edge) == 0 else None
    if slope == 0 and limit is None:
        return ew.relu(x)
    x = float_tensor(x)
    high = None if limit is None else ew.number(limit)
    if slope == 0 and high is not None and high > 0:
        return clipped_relu(x, high=high)
    if slope is not None and limit is None:
        return leaky_relu(x, slope=slope)
    return _general_relu(x, factor, limit, edge)


def _general_relu(x: Tensor, alpha: Tensor, limit: Tensor | None, edge: Tensor) -> Tensor:
    dtype = x.spec.dtype
    # The limit comes first, because the first operand wins a tie.
    above = x if limit is None else ew.minimum(cast_to(limit, dtype), x)
    below = scalar(0, dtype) if ew.number(alpha) == 0 else cast_to((x - edge) * alpha, dtype)
    # At an edge of 0 the slope is alpha, because the derivative of max(x, 0) is 0. Comparisons with
    # NaN are false, so NaN is above.
    return ew.where(x <= edge if ew.number(edge) == 0 else x < edge, below, above)


@api
def elu(x: TensorLike, alpha: TensorLike = 1.0) -> Tensor:
    """Exponential linear unit: x for x > 0, alpha * (exp(x) - 1) otherwise.

    Args:
        x: Tensor.
        alpha: Scale of the negative part.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.elu(K.constant([0.0, 3.0])))
        array([0., 3.], dtype=float32)
    """
    x = float_tensor(x)
    dtype = x.spec.dtype
    zero, factor = scalar(0, dtype), cast_to(as_tensor(alpha, dtype), dtype)
    # Exponentials of positive elements are not needed, and might overflow.
    return ew.where(x > zero, x, ew.expm1(ew.minimum(x, zero)) * factor)


@api
def softmax(x: TensorLike, axis: Axis = -1) -> Tensor:
    """Softmax: exponentials along an axis, scaled to sum to 1.

    Args:
        x: Tensor with at least one axis.
        axis: Axis along which to scale.

    Raises:
        ValueError: if `x` is a scalar or `axis` is out of range.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.softmax(K.constant([1000.0, 1000.0])))
        array([0.5, 0.5], dtype=float32)
    """
    x = float_tensor(x)
    if x.ndim == 0:
        raise ValueError("x must have at least one axis, got a scalar")
    return red.softmax(x, axis=as_axis(axis, x))


@api
def softplus(x: TensorLike) -> Tensor:
    """log(1 + exp(x)), without overflow.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.softplus(K.constant([1000.0])))
        array([1000.], dtype=float32)
    """
    return ew.softplus(float_tensor(x))


@api
def softsign(x: TensorLike) -> Tensor:
    """`x / (1 + |x|)`: similar to `K.tanh`, but it approaches -1 and 1 slowly.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.softsign(K.constant([-1.0, 1.0])))
        array([-0.5,  0.5], dtype=float32)
    """
    return ew.softsign(float_tensor(x))


@api
def sigmoid(x: TensorLike) -> Tensor:
    """1 / (1 + exp(-x)), without overflow.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.sigmoid(K.constant([0.0])))
        array([0.5], dtype=float32)
    """
    return ew.sigmoid(float_tensor(x))


@api
def hard_sigmoid(x: TensorLike) -> Tensor:
    """0.2 * x + 0.5, clipped to [0, 1].

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.hard_sigmoid(K.constant([-3.0, 0.0, 3.0])))
        array([0. , 0.5, 1. ], dtype=float32)
    """
    x = float_tensor(x)
    # x * 0.2 + 0.5 would cancel near -2.5.
    low, high = ew.zero(x), ew.one(x)
    return ew.minimum(ew.maximum((x + 2.5) * 0.2, low), high)


@api
def tanh(x: TensorLike) -> Tensor:
    """Hyperbolic tangent.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.tanh(K.constant([0.0])))
        array([0.], dtype=float32)
    """
    return ew.tanh(float_tensor(x))
