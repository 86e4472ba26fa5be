"""Batch normalization."""

from __future__ import annotations

from backplane.backend._args import as_axes, as_axis, as_float
from backplane.backend._call import api
from backplane.backend.activation import float_tensor
from backplane.backend.types import Axes, Axis, TensorLike
from backplane.core.graph import Tensor
from backplane.ops.elementwise import sqrt
from backplane.ops.lift import as_tensor, cast_to
from backplane.ops.reduction import mean as mean_of
from backplane.ops.shaping import expand_dims, squeeze

__all__ = ["batch_normalization", "normalize_batch_in_training"]


@api
def batch_normalization(
    x: TensorLike,
    mean: TensorLike,
    var: TensorLike,
    beta: TensorLike | None,
    gamma: TensorLike | None,
    axis: Axis = -1,
    epsilon: float | Tensor = 1e-3,
) -> Tensor:
    """(x - mean) / sqrt(var + epsilon) * gamma + beta.

    Args:
        x: Float tensor.
        mean: Mean: a vector along `axis`, or a tensor that broadcasts to the shape of `x`.
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
    along = as_axis(axis, x)
    # The parameters are small, so they are combined to one factor first. That leaves two passes
    # over x.
    scale = 1.0 / sqrt(_along(var, x, along) + epsilon)
    if gamma is not None:
        scale = scale * _along(gamma, x, along)
    normed = (x - _along(mean, x, along)) * scale
    return normed if beta is None else normed + _along(beta, x, along)


def _along(value: TensorLike, x: Tensor, axis: int) -> Tensor:
    """A vector, laid along `axis` of `x`. Tensors of other ranks stay as they are."""
    t = cast_to(as_tensor(value), x.spec.dtype)
    if t.ndim == 1 and axis != x.ndim - 1:
        return expand_dims(t, axes=tuple(range(1, x.ndim - axis)))
    return t


@api
def normalize_batch_in_training(
    x: TensorLike,
    gamma: TensorLike | None,
    beta: TensorLike | None,
    reduction_axes: Axes,
    epsilon: float | Tensor = 1e-3,
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalize a batch by its own mean and variance.

    Args:
        x: Float tensor.
        gamma: Scale, with the sizes of the axes that are kept, or None for 1.
        beta: Shift, likewise, or None for 0.
        reduction_axes: Axes over which mean and variance are taken.
        epsilon: Number added to the variance.

    Returns:
        `(normalized, mean, variance)`. The variance is that of the population (divided by n). Mean
        and variance have the axes that are kept.

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
    axes = as_axes(reduction_axes, x, "reduction_axes")
    epsilon = epsilon if isinstance(epsilon, Tensor) else as_float(epsilon, "epsilon")
    wide_mean = mean_of(x, axes=axes, keepdims=True)
    centered = x - wide_mean
    wide_var = mean_of(centered * centered, axes=axes, keepdims=True)
    scale = 1.0 / sqrt(wide_var + epsilon)
    if gamma is not None:
        scale = scale * _kept(gamma, x, axes)
    normed = centered * scale
    if beta is not None:
        normed = normed + _kept(beta, x, axes)
    return normed, squeeze(wide_mean, axes=axes), squeeze(wide_var, axes=axes)


def _kept(value: TensorLike, x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """A parameter over the kept axes, in a shape that broadcasts with `x`."""
    t = cast_to(as_tensor(value), x.spec.dtype)
    return t if t.ndim == x.ndim else expand_dims(t, axes=axes)
