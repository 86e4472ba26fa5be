"""Reshaping and repeating tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from backplane.backend._args import (
    as_axis,
    as_count,
    as_entries,
    as_items,
    as_new_axis,
    as_shape,
    entries_of,
)
from backplane.backend._call import api
from backplane.backend.types import Axis, Shape, Size, TensorLike
from backplane.core import spec
from backplane.core.graph import Tensor
from backplane.ops import shaping as sh
from backplane.ops.axes import merge_axes, permuted, repeated
from backplane.ops.creation import shaped, size_at
from backplane.ops.lift import as_tensor

__all__ = [
    "batch_flatten", "expand_dims", "flatten", "permute_dimensions", "repeat",
    "repeat_elements", "reshape", "squeeze", "tile",
]  # fmt: skip


@api
def reshape(x: TensorLike, shape: Shape) -> Tensor:
    """Arrange the elements of a tensor, row by row, in another shape.

    Args:
        x: Tensor.
        shape: Sizes: ints and scalar integer tensors, or an integer vector such as `K.shape(y)`.
            One size may be -1; it follows from the others. So does one unknown size of `y.shape`.

    Returns:
        A tensor.

    Raises:
        ValueError: if known sizes do not fit, or if there is more than one -1.
        TypeError: if a size is neither an int nor an integer tensor.

    Example:
        >>> from backplane import backend as K
        >>> K.int_shape(K.reshape(K.placeholder(shape=(None, 4)), (-1, 2, 2)))
        (None, 2, 2)
    """
    x = as_tensor(x)
    dims, sizes = as_shape(_told_by_tensor(shape))
    if any(n is not None and n < -1 for n in sizes):
        raise ValueError(f"sizes must be 0 or more, or -1, got shape {sizes}")
    return sh.reshape(x, *dims, shape=sizes)


def _told_by_tensor(shape: Any) -> Any:
    """The shape that is asked for; that of a tensor may have one unknown size."""
    entries = entries_of(shape, "shape")
    if not isinstance(entries, list | tuple) or (
        entries is shape and not isinstance(shape, spec.Shape)
    ):
        return entries
    unknown = entries.count(None) == 1 and -1 not in entries
    return [-1 if n is None else n for n in entries] if unknown else entries


@api
def permute_dimensions(x: TensorLike, pattern: Sequence[Axis]) -> Tensor:
    """Put the axes of a tensor in another order.

    Args:
        x: Tensor.
        pattern: For each axis of the result, the axis of `x` that takes this place, such as (0, 2,
            1).

    Returns:
        A tensor.

    Raises:
        ValueError: if `pattern` does not name each axis once.

    Example:
        >>> from backplane import backend as K
        >>> K.int_shape(K.permute_dimensions(K.zeros((2, 3, 4)), (0, 2, 1)))
        (2, 4, 3)
    """
    x = as_tensor(x)
    entries = as_items(entries_of(pattern, "pattern"), "pattern", "a list of ints")
    order = [as_axis(axis, x, "pattern") for axis in entries]
    if sorted(order) != list(range(x.ndim)):
        raise ValueError(f"pattern must name each of the {x.ndim} axes of x once, got {pattern}")
    return permuted(x, order)


@api
def repeat_elements(x: TensorLike, rep: int, axis: Axis) -> Tensor:
    """Repeat the elements of a tensor along an axis, as `numpy.repeat` does.

    Args:
        x: Tensor.
        rep: Number of times, an int.
        axis: Int in [-ndim, ndim).

    Returns:
        A tensor of the shape of `x`, with `axis` `rep` times as long.

    Raises:
        ValueError: if `axis` is out of range or `rep` is negative.
        TypeError: if `rep` is not an int.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.repeat_elements(K.constant([[1.0, 2.0]]), 2, axis=1))
        array([[1., 1., 2., 2.]], dtype=float32)
    """
    x = as_tensor(x)
    axis, times = as_axis(axis, x), as_count(rep, "rep")
    return x if times == 1 else repeated(x, {axis: times})


def _counts(values: Shape, what: str) -> list[int | Tensor]:
    """One or several numbers of repetitions: ints, and scalar tensors for unknown ones."""
    counts = as_entries(values, what)
    if any(isinstance(n, int) and n < 0 for n in counts):
        raise ValueError(f"{what} must be 0 or more, got {values}")
    return counts


@api
def repeat(x: TensorLike, n: Size) -> Tensor:
    """Repeat a matrix along a new axis between its two axes.

    Args:
        x: Tensor of shape (samples, dim).
        n: Number of times: an int or a scalar integer tensor.

    Returns:
        A tensor of shape (samples, n, dim).

    Raises:
        ValueError: if `x` does not have two axes or `n` is negative.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.repeat(K.constant([[1.0, 2.0]]), 2))
        array([[[1., 2.],
                [1., 2.]]], dtype=float32)
    """
    x = as_tensor(x)
    if x.ndim != 2:
        raise ValueError(f"x must have 2 axes, got shape {x.spec.shape}")
    (count,) = _counts([n], "n")
    sizes = [size_at(x, 0), count, size_at(x, 1)]
    return shaped(sh.broadcast_to, sizes, sh.expand_dims(x, axes=(1,)))


@api
def tile(x: TensorLike, n: Shape) -> Tensor:
    """Repeat a tensor as a whole along its axes, as `numpy.tile` does.

    Args:
        x: Tensor.
        n: Numbers of times, one per axis: ints and scalar integer tensors, or an integer vector.
            Fewer numbers, or a single int, are for the last axes. More numbers add axes in front.

    Returns:
        A tensor.

    Raises:
        ValueError: if a number is negative.
        TypeError: if a number is neither an int nor an integer tensor.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.tile(K.constant([[1.0, 2.0]]), [2, 2]))
        array([[1., 2., 1., 2.],
               [1., 2., 1., 2.]], dtype=float32)
    """
    tiled = as_tensor(x)
    times = _counts(n, "n")
    extra = len(times) - tiled.ndim
    if extra > 0:
        tiled = sh.expand_dims(tiled, axes=tuple(range(extra)))
    # One axis after another, because TensorFlow broadcasts only a few at once.
    for i, count in enumerate([*[1] * -extra, *times]):
        if isinstance(count, Tensor) or count != 1:
            tiled = repeated(tiled, {i: count}, whole=True)
    return tiled


@api
def flatten(x: TensorLike) -> Tensor:
    """Arrange the elements of a tensor, row by row, in a vector.

    Args:
        x: Tensor.

    Returns:
        A tensor of one axis.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.flatten(K.constant([[1.0, 2.0], [3.0, 4.0]])))
        array([1., 2., 3., 4.], dtype=float32)
    """
    x = as_tensor(x)
    return merge_axes(x, [range(x.ndim)])


@api
def batch_flatten(x: TensorLike) -> Tensor:
    """Arrange the elements of each sample of a batch in a vector.

    Args:
        x: Tensor with at least one axis.

    Returns:
        A tensor of two axes, of which the first is that of `x`.

    Raises:
        ValueError: if `x` is a scalar.

    Example:
        >>> from backplane import backend as K
        >>> K.int_shape(K.batch_flatten(K.placeholder(shape=(None, 3, 4))))
        (None, 12)
    """
    x = as_tensor(x)
    if not x.ndim:
        raise ValueError("x must have at least one axis, got a scalar")
    return merge_axes(x, [[0], range(1, x.ndim)])


@api
def expand_dims(x: TensorLike, axis: Axis = -1) -> Tensor:
    """Add an axis of size 1.

    Args:
        x: Tensor.
        axis: Its place in the result, in [-ndim - 1, ndim].

    Returns:
        A tensor.

    Raises:
        ValueError: if `axis` is out of range.

    Example:
        >>> from backplane import backend as K
        >>> K.int_shape(K.expand_dims(K.zeros((2, 3)), 1))
        (2, 1, 3)
    """
    x = as_tensor(x)
    return sh.expand_dims(x, axes=(as_new_axis(axis, x),))


@api
def squeeze(x: TensorLike, axis: Axis) -> Tensor:
    """Remove an axis of size 1.

    Args:
        x: Tensor.
        axis: Int in [-ndim, ndim).

    Returns:
        A tensor.

    Raises:
        ValueError: if `axis` is out of range or known to have another size.

    Example:
        >>> from backplane import backend as K
        >>> K.int_shape(K.squeeze(K.zeros((2, 1, 3)), 1))
        (2, 3)
    """
    x = as_tensor(x)
    return sh.squeeze(x, axes=(as_axis(axis, x),))
