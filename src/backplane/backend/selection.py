"""Joining tensors, and taking parts of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from backplane import config
from backplane.backend._args import as_axes, as_axis, as_count, as_entries, as_integers, as_new_axis
from backplane.backend._call import api
from backplane.backend._errors import described
from backplane.backend.types import Axes, Axis, Shape, Size, TensorLike
from backplane.core.graph import Tensor, is_array
from backplane.core.spec import bits
from backplane.ops import indexing as ix
from backplane.ops import shaping as sh
from backplane.ops.creation import numbers, shaped, size_at
from backplane.ops.effects import to_sparse
from backplane.ops.elementwise import equal
from backplane.ops.elementwise import where as chosen
from backplane.ops.lift import as_tensor, cast_to, promoted

__all__ = ["concatenate", "gather", "one_hot", "reverse", "slice", "stack", "where"]


@api
def stack(x: Sequence[TensorLike] | TensorLike, axis: Axis = 0) -> Tensor:
    """Join tensors of one shape along a new axis.

    Args:
        x: List of tensors.
        axis: Place of the new axis, in [-ndim - 1, ndim].

    Returns:
        A tensor with one axis more.

    Raises:
        ValueError: if there are no tensors, if known sizes differ, or if `axis` is out of range.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.stack([K.constant([1.0, 2.0]), K.constant([3.0, 4.0])], axis=1))
        array([[1., 3.],
               [2., 4.]], dtype=float32)
    """
    if not isinstance(x, list | tuple):
        return as_tensor(x)
    if not x:
        raise ValueError("x must hold at least one tensor, got an empty list")
    parts = promoted(*x)
    for part in parts[1:]:
        if not parts[0].spec.accepts(part.spec):
            a, b = parts[0].spec.shape, part.spec.shape
            raise ValueError(f"x must hold tensors of one shape, got {a} and {b}")
    return sh.stack(parts, as_new_axis(axis, parts[0]))


@api
def concatenate(tensors: Sequence[TensorLike], axis: Axis = -1) -> Tensor:
    """Join tensors along an axis.

    Args:
        tensors: List of tensors with equal sizes along all other axes.
        axis: Int in [-ndim, ndim).

    Returns:
        A tensor, which is sparse if all of `tensors` are.

    Raises:
        ValueError: if there are no tensors, if known sizes differ, or if `axis` is out of range.
        TypeError: if `tensors` is not a list.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.concatenate([K.constant([[1.0, 2.0]]), K.constant([[3.0]])]))
        array([[1., 2., 3.]], dtype=float32)
    """
    if not isinstance(tensors, list | tuple):
        raise TypeError(f"tensors must be a list, got {described(tensors)}")
    if not tensors:
        raise ValueError("tensors must hold at least one tensor, got an empty list")
    parts = promoted(*tensors)
    joined = sh.concat(*parts, axis=as_axis(axis, parts[0]))
    sparse = all(isinstance(t, Tensor) and t.spec.sparse for t in tensors)
    return to_sparse(joined) if sparse else joined


@api
def one_hot(indices: TensorLike, num_classes: Size) -> Tensor:
    """One-hot vectors: 1 at an index, and 0 elsewhere.

    Args:
        indices: Integer tensor of any shape.
        num_classes: Length of the vectors: an int, or a scalar integer tensor.

    Returns:
        A tensor of dtype `K.floatx()` with an additional last axis. An index outside of [0,
        num_classes) gives zeros.

    Raises:
        TypeError: if `indices` does not hold integers.
        ValueError: if `num_classes` is negative.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.one_hot(K.constant([0, 2], dtype="int32"), 3))
        array([[1., 0., 0.],
               [0., 0., 1.]], dtype=float32)
    """
    indices = as_integers(indices, "indices")
    if bits(indices.spec.dtype) < 32:
        indices = cast_to(indices, "int32")
    classes = _count_up(num_classes, indices.spec.dtype)
    wide = sh.expand_dims(indices, axes=(indices.ndim,))
    return cast_to(equal(wide, classes), config.floatx())


def _count_up(num_classes: Size, dtype: str) -> Tensor:
    """The vector 0, 1, … before `num_classes`."""
    if not isinstance(num_classes, Tensor):
        count = as_count(num_classes, "num_classes")
        if count >= 2**31:
            raise ValueError(f"num_classes must be below 2**31, got {count}")
        return as_tensor(np.arange(count, dtype=dtype))
    (stop,) = as_entries([num_classes], "num_classes")
    return numbers(cast_to(as_tensor(stop), dtype), dtype)


@api
def reverse(x: TensorLike, axes: Axes) -> Tensor:
    """Reverse the order of elements along axes.

    Args:
        x: Tensor.
        axes: Int or iterable of ints in [-ndim, ndim).

    Returns:
        A tensor of the shape of `x`.

    Raises:
        ValueError: if an axis is out of range or named twice.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.reverse(K.constant([1.0, 2.0, 3.0]), 0))
        array([3., 2., 1.], dtype=float32)
    """
    x = as_tensor(x)
    reversed_axes = as_axes(axes, x, "axes")
    return ix.flip(x, axes=reversed_axes) if reversed_axes else x


@api
def slice(x: TensorLike, start: Shape, size: Shape) -> Tensor:
    """A part of a tensor: `x[start[0]:start[0] + size[0], ...]`.

    Args:
        x: Tensor.
        start: The first index along each axis: ints, scalar integer tensors, or an integer vector.
        size: The number of elements along each axis, likewise. -1 takes all elements up to the end.

    Returns:
        A tensor.

    Raises:
        ValueError: if there is not one number per axis, if one is negative, or if the part is known
            to reach beyond the tensor. (A start that is a tensor is moved so that the part lies
            inside.)

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.slice(K.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), [0, 1], [2, -1]))
        array([[2., 3.],
               [5., 6.]], dtype=float32)
    """
    x = as_tensor(x)
    starts, sizes = as_entries(start, "start"), as_entries(size, "size")
    if not len(starts) == len(sizes) == x.ndim:
        raise ValueError(
            f"start and size must have one number for each of the {x.ndim} axes of x, "
            f"got {len(starts)} and {len(sizes)}"
        )
    given = [n for n in (*starts, *sizes) if isinstance(n, int)]
    if len(given) < 2 * x.ndim:
        lengths = [size_at(x, i) - starts[i] if n == -1 else n for i, n in enumerate(sizes)]
        return shaped(ix.dynamic_slice, lengths, x, as_tensor(starts))
    pairs = list(zip(given[: x.ndim], given[x.ndim :], strict=True))
    part = ix.slice(x, slices=tuple(_part(x, i, *pair) for i, pair in enumerate(pairs)))
    # Along an axis of unknown size, fewer elements may be read than were asked for. The reshape
    # refuses them.
    read = part.spec.shape
    known = [n if m is None and n != -1 else m for m, (_, n) in zip(read, pairs, strict=True)]
    if tuple(known) == read:
        return part
    return shaped(
        sh.reshape, [size_at(part, i) if n is None else n for i, n in enumerate(known)], part
    )


def _part(x: Tensor, axis: int, start: int, size: int) -> tuple[int | None, int | None, int]:
    """The Python slice for one axis, checked as far as its size is known."""
    whole = x.spec.shape[axis]
    stop = whole if size == -1 else start + size
    inside = whole is None or stop is None or start <= stop <= whole
    if start < 0 or size < -1 or not inside:
        raise ValueError(
            f"start {start} and size {size} along axis {axis} do not lie inside a tensor "
            f"of shape {x.spec.shape}"
        )
    return (start or None, None if size == -1 else stop, 1)


@api
def gather(reference: TensorLike, indices: TensorLike) -> Tensor:
    """Take the parts of a tensor along its first axis that indices name.

    Args:
        reference: Tensor with at least one axis.
        indices: Integer tensor, array or list of any shape. Each index must be less than the size
            of the first axis. Negative indices count from the end, as in the documents' NumPy
            implementation. An index out of range is an IndexError, except where the engine cannot
            stop for one: there the result is NaN, or the lowest number of an integer type.

    Returns:
        A tensor of the dtype of `reference`. Its axes are those of `indices`, then the other axes
        of `reference`. In the gradient, parts at repeated indices add up.

    Raises:
        ValueError: if `reference` is a scalar, or a given index needs more than 32 bits.
        TypeError: if `indices` does not hold integers.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.gather(K.constant([[1.0, 2.0], [3.0, 4.0]]), [1, 1]))
        array([[3., 4.],
               [3., 4.]], dtype=float32)
    """
    x = as_tensor(reference)
    if not x.ndim:
        raise ValueError("reference must have at least one axis, got a scalar")
    return ix.gather(x, _in_reach(as_integers(indices, "indices"), x.spec.shape[0]), axis=0)


def _in_reach(indices: Tensor, size: int | None) -> Tensor:
    """The indices. Known ones must fit into 32 bits, or into the axis if it is longer: some engines
    cannot tell larger ones from smaller ones.
    """
    if is_array(indices):
        most = max(2**31, size or 0)
        for n in (indices.value.min(), indices.value.max()) if indices.value.size else ():
            if not -most <= int(n) < most:
                raise ValueError(f"indices must lie between {-most} and {most - 1}, got {n}")
    return indices


@api
def where(condition: TensorLike, x: TensorLike, y: TensorLike) -> Tensor:
    """Choose between two tensors, element by element.

    An addition of Backplane: the documents of the Keras backend API do not have it. `K.switch` asks
    for shapes that fit, and can leave a branch uncomputed.

    Args:
        condition: Tensor of bools; numbers count as true if they are not 0.
        x: Tensor or number, for the places where the condition holds.
        y: Tensor or number, for all other places.

    Returns:
        A tensor of the shape to which all three are broadcast.

    Raises:
        ValueError: if the shapes do not broadcast.

    Example:
        >>> from backplane import backend as K
        >>> x = K.constant([-1.0, 2.0])
        >>> K.eval(K.where(K.greater(x, 0.0), x, 0.0))
        array([0., 2.], dtype=float32)
    """
    return chosen(cast_to(as_tensor(condition), "bool"), *promoted(x, y))
