"""Batch normalization."""

from __future__ import annotations

from typing import Any

from backplane.backend._args import as_axes, as_axis, as_float
from backplane.backend._call import api
from backplane.backend.activation import float_tensor
from backplane.core.graph import Tensor
from backplane.core.registry import primitive
from backplane.ops.lift import as_tensor, cast_to

__all__ = ["batch_normalization", "normalize_batch_in_training"]


@api
def batch_normalization(
    x: Any, mean: Any, var: Any, beta: Any, gamma: Any, axis: int = -1, epsilon: Any = 1e-3
) -> Tensor:
    """(x - mean) / sqrt(var + epsilon) * gamma + beta.

    Args:
        x: Float tensor.
        mean: Mean: a vector along `axis`, or a tensor that broadcasts with `x`.
        var: Variance, likewise.
        beta: Shift, likewise, or None for 0.
        gamma: Scale, likewise, or None for 1.
        axis: Axis of the features, along which vectors lie.
        epsilon: Number added to the variance.

    Returns:
        A tensor of the shape of `x`.

    Raises:
        ValueError: if `axis` is out of range or a shape does not broadcast.

    Example:
        >>> from backplane import backend as K
        >>> x = K.constant([[1.0, 2.0], [3.0, 4.0]])
        >>> K.eval(K.batch_normalization(x, [2.0, 3.0], [1.0, 1.0], None, None, epsilon=0.0))
        array([[-1., -1.],
               [ 1.,  1.]], dtype=float32)
    """
    x = float_tensor(x)
    along = as_axis(axis, x, "K.batch_normalization: axis")
    mean, var, beta, gamma = (_parameter(p, x, along) for p in (mean, var, beta, gamma))
    if mean is None or var is None:
        raise TypeError("K.batch_normalization: mean and var must be given, got None")
    # One factor and one shift for the parameters, which are small, and two passes over x.
    scale = 1.0 / primitive("sqrt")(var + epsilon)
    if gamma is not None:
        scale = scale * gamma
    result: Tensor = (x - mean) * scale
    return result if beta is None else result + beta


def _parameter(value: Any, x: Tensor, axis: int) -> Tensor | None:
    """A vector laid along `axis` of `x`; tensors of other ranks as they are."""
    if value is None:
        return None
    t = cast_to(as_tensor(value), x.spec.dtype)
    if t.ndim == 1 and axis != x.ndim - 1:
        others = tuple(range(1, x.ndim - axis))
        t = primitive("expand_dims")(t, axes=others)
    return t


@api
def normalize_batch_in_training(
    x: Any, gamma: Any, beta: Any, reduction_axes: Any, epsilon: Any = 1e-3
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalize a batch by its own mean and variance.

    Args:
        x: Float tensor.
        gamma: Scale with the sizes of the axes that are kept, or None for 1.
        beta: Shift, likewise, or None for 0.
        reduction_axes: Axes over which mean and variance are taken.
        epsilon: Number added to the variance.

    Returns:
        `(normalized, mean, variance)`; the variance is that of the population (divided by n), and
        both have the axes that are kept.

    Raises:
        ValueError: if an axis is out of range.

    Example:
        >>> from backplane import backend as K
        >>> y, mean, var = K.normalize_batch_in_training(
        ...     K.constant([[1.0], [3.0]]), None, None, [0], epsilon=0.0
        ... )
        >>> K.eval(y).ravel(), K.eval(mean), K.eval(var)
        (array([-1.,  1.], dtype=float32), array([2.], dtype=float32), array([1.], dtype=float32))
    """
    x = float_tensor(x)
    axes = as_axes(reduction_axes, x, "K.normalize_batch_in_training: reduction_axes")
    epsilon = epsilon if isinstance(epsilon, Tensor) else as_float(epsilon, "epsilon")
    wide_mean = primitive("mean")(x, axes=axes, keepdims=True)
    centered = x - wide_mean
    wide_var = primitive("mean")(centered * centered, axes=axes, keepdims=True)
    scale = 1.0 / primitive("sqrt")(wide_var + epsilon)
    if gamma is not None:
        scale = scale * _kept(gamma, x, axes)
    normed = centered * scale
    if beta is not None:
        normed = normed + _kept(beta, x, axes)
    squeeze = primitive("squeeze")
    return normed, squeeze(wide_mean, axes=axes), squeeze(wide_var, axes=axes)


def _kept(value: Any, x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """A parameter over the kept axes, made to broadcast with `x`."""
    t = cast_to(as_tensor(value), x.spec.dtype)
    if t.ndim == x.ndim:
        return t
    result: Tensor = primitive("expand_dims")(t, axes=axes)
    return result
