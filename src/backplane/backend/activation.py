"""Activation functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from backplane import config
from backplane.backend._args import as_axis
from backplane.backend._call import api
from backplane.core.graph import Tensor, constant
from backplane.core.registry import primitive
from backplane.core.spec import is_float
from backplane.ops.lift import as_tensor, cast_to, promoted

__all__ = ["elu", "hard_sigmoid", "relu", "sigmoid", "softmax", "softplus", "softsign", "tanh"]


def float_tensor(x: Any) -> Tensor:
    """`x` as a float tensor: integers and bools become `floatx()`."""
    x = as_tensor(x)
    return x if is_float(x.spec.dtype) else cast_to(x, config.floatx())


def _apply(name: str, x: Any) -> Tensor:
    result: Tensor = primitive(name)(float_tensor(x))
    return result


@api
def relu(x: Any, alpha: Any = 0.0, max_value: Any = None, threshold: Any = 0.0) -> Tensor:
    """Rectified linear unit.

    f(x) = max_value for x >= max_value, x for threshold <= x < max_value, and
    alpha * (x - threshold) below; with the defaults max(x, 0). Its derivative at 0 is `alpha`.

    Args:
        x: Tensor.
        alpha: Slope below the threshold: a number or a tensor that broadcasts.
        max_value: Number at which it saturates, or None.
        threshold: Number below which `alpha` rules.

    Returns:
        A tensor of the shape of `x`.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.relu(K.constant([-2.0, 1.0, 9.0]), alpha=0.5, max_value=6.0))
        array([-1.,  1.,  6.], dtype=float32)
    """
    x = as_tensor(x)
    plain = not isinstance(alpha, Tensor) and alpha == 0
    if plain and max_value is None and not isinstance(threshold, Tensor) and threshold == 0:
        result: Tensor = primitive("relu")(x)
        return result
    x = float_tensor(x)
    dtype = x.spec.dtype
    edge = as_tensor(threshold, dtype)
    above = x
    if max_value is not None:
        above = primitive("minimum")(x, cast_to(as_tensor(max_value, dtype), dtype))
    below = x * 0.0 if plain else (x - edge) * alpha
    # x > 0 and not x >= 0: at an edge of 0 the slope is alpha, as the derivative of max(x, 0) is 0.
    at_zero = not isinstance(threshold, Tensor) and threshold == 0
    kept = x > edge if at_zero else x >= edge
    zero = constant(np.zeros(()), dtype)
    found: Tensor = primitive("where")(*_three(kept, above, zero if plain else below))
    return found


def _three(condition: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return condition, a, cast_to(b, a.spec.dtype)


@api
def elu(x: Any, alpha: Any = 1.0) -> Tensor:
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
    zero = constant(0, x.spec.dtype)
    # The exponential of what is not negative is not wanted, and might overflow.
    below = primitive("expm1")(primitive("minimum")(x, zero)) * alpha
    result: Tensor = primitive("where")(x > zero, x, below)
    return result


@api
def softmax(x: Any, axis: int = -1) -> Tensor:
    """Exponentials along an axis, scaled to sum to 1.

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
        raise ValueError("K.softmax: x must have at least one axis, got a scalar")
    result: Tensor = primitive("softmax")(x, axis=as_axis(axis, x, "K.softmax: axis"))
    return result


@api
def softplus(x: Any) -> Tensor:
    """log(1 + exp(x)), without overflow.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.softplus(K.constant([1000.0])))
        array([1000.], dtype=float32)
    """
    return _apply("softplus", x)


@api
def softsign(x: Any) -> Tensor:
    """X / (1 + |x|).

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.softsign(K.constant([-1.0, 1.0])))
        array([-0.5,  0.5], dtype=float32)
    """
    x = float_tensor(x)
    result: Tensor = x / (primitive("abs")(x) + 1.0)
    return result


@api
def sigmoid(x: Any) -> Tensor:
    """1 / (1 + exp(-x)), without overflow.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.sigmoid(K.constant([0.0])))
        array([0.5], dtype=float32)
    """
    return _apply("sigmoid", x)


@api
def hard_sigmoid(x: Any) -> Tensor:
    """0.2 * x + 0.5, clipped to [0, 1].

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.hard_sigmoid(K.constant([-3.0, 0.0, 3.0])))
        array([0. , 0.5, 1. ], dtype=float32)
    """
    x = float_tensor(x)
    low, line, high = promoted(0.0, x * 0.2 + 0.5, 1.0)
    result: Tensor = primitive("minimum")(primitive("maximum")(line, low), high)
    return result


@api
def tanh(x: Any) -> Tensor:
    """Hyperbolic tangent.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.tanh(K.constant([0.0])))
        array([0.], dtype=float32)
    """
    return _apply("tanh", x)
