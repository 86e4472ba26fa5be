"""Shapes, repetition, joining and picking of elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from backplane import config
from backplane.backend._args import as_axes, as_axis, as_int, as_shape
from backplane.backend._call import api
from backplane.backend._nodes import apply, merge_axes, permuted
from backplane.core.graph import Tensor
from backplane.core.shapes import normalize_axis
from backplane.core.spec import bits, is_integer
from backplane.ops import shaping as ops
from backplane.ops.lift import as_tensor, cast_to, fill_dims, promoted


@api
def reshape(x: Any, shape: Any) -> Tensor:
    """The elements of a tensor, row by row, in another shape.

    Args:
        x: Tensor.
        shape: Sizes: ints, scalar integer tensors, or an integer vector such as `K.shape(y)`; one
            may be -1, which is found from the others.

    Returns:
        A tensor.

    Raises:
        ValueError: if known sizes do not fit, or there are several -1.
        TypeError: if a size is neither an int nor an integer tensor.

    Example:
        >>> from backplane import backend as K
        >>> K.int_shape(K.reshape(K.placeholder(shape=(None, 4)), (-1, 2, 2)))
        (None, 2, 2)
    """
    x = as_tensor(x)
    dims, sizes = as_shape(shape)
    if any(n is not None and n < -1 for n in sizes):
        raise ValueError(f"K.reshape: sizes must be 0 or more, or -1, got shape {sizes}")
    return apply("reshape", x, *dims, shape=sizes)


@api
def permute_dimensions(x: Any, pattern: Any) -> Tensor:
    """A tensor with its axes in another order.

    Args:
        x: Tensor.
        pattern: For each axis of the result the axis of `x` it is, such as (0, 2, 1).

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
    order = [as_axis(axis, x, "pattern") for axis in pattern]
    if sorted(order) != list(range(x.ndim)):
        raise ValueError(
            f"K.permute_dimensions: pattern must name each of the {x.ndim} axes of x once, "
            f"got {pattern}"
        )
    return permuted(x, order)


def _broadcast(x: Tensor, counts: Sequence[int | Tensor | None]) -> Tensor:
    """`x` broadcast to the given sizes; None stands for its own."""
    dims: list[Tensor] = []
    sizes: list[int | None] = []
    for i, n in enumerate(counts):
        size = x.spec.shape[i] if n is None else n
        if isinstance(size, int):
            sizes.append(size)
        else:
            sizes.append(None)
            dims.append(apply("dim", x, axis=i) if size is None else size)
    return apply("broadcast_to", x, *dims, shape=tuple(sizes))


def _repeated(x: Tensor, axis: int, n: int | Tensor, whole: bool) -> Tensor:
    """`x` repeated along an axis: as a `whole`, or element by element."""
    if isinstance(n, int) and n == 1:
        return x
    beside = axis if whole else axis + 1
    wide = apply("expand_dims", x, axes=(beside,))
    wide = _broadcast(wide, [n if i == beside else None for i in range(wide.ndim)])
    places = [[i] for i in range(wide.ndim)]
    return merge_axes(wide, [*places[:axis], [axis, axis + 1], *places[axis + 2 :]])


@api
def repeat_elements(x: Any, rep: int, axis: int) -> Tensor:
    """Repeat the elements of a tensor along an axis, as `numpy.repeat`.

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
    return _repeated(x, as_axis(axis, x), _count(rep, "rep"), whole=False)


def _count(value: Any, what: str) -> int:
    count = as_int(value, what)
    if count < 0:
        raise ValueError(f"{what} must be 0 or more, got {value}")
    return count


def _entries(values: Any, what: str) -> list[int | Tensor]:
    """Numbers given like a shape: ints, and scalar tensors for those that are not known yet."""
    dims, sizes = as_shape(values, what)
    given = iter(dims)
    return [next(given) if n is None else n for n in sizes]


def _counts(values: Any, what: str) -> list[int | Tensor]:
    """The same for numbers of times."""
    counts = _entries(values, what)
    if any(isinstance(n, int) and n < 0 for n in counts):
        raise ValueError(f"{what} must be 0 or more, got {values}")
    return counts


@api
def repeat(x: Any, n: Any) -> Tensor:
    """Repeat a matrix along a new axis between its two.

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
        raise ValueError(f"K.repeat: x must have 2 axes, got shape {tuple(x.spec.shape)}")
    (count,) = _counts([n], "n")
    return _broadcast(apply("expand_dims", x, axes=(1,)), [None, count, None])


@api
def tile(x: Any, n: Any) -> Tensor:
    """Repeat a tensor as a whole along its axes, as `numpy.tile`.

    Args:
        x: Tensor.
        n: Numbers of times, one per axis: ints, scalar integer tensors, or an integer vector. Fewer
            of them, or a single int, count for the last axes; more of them add axes in front.

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
    x = as_tensor(x)
    times = _counts(n, "n")
    extra = len(times) - x.ndim
    if extra > 0:
        x = apply("expand_dims", x, axes=tuple(range(extra)))
    # One axis after another: an axis beside each of several would be more than TensorFlow broadcasts.
    for i, count in enumerate([*[1] * -extra, *times]):
        x = _repeated(x, i, count, whole=True)
    return x


@api
def flatten(x: Any) -> Tensor:
    """The elements of a tensor, row by row, as a vector.

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
def batch_flatten(x: Any) -> Tensor:
    """Each sample of a batch as a vector.

    Args:
        x: Tensor with at least one axis.

    Returns:
        A tensor of two axes, the first that of `x`.

    Raises:
        ValueError: if `x` is a scalar.

    Example:
        >>> from backplane import backend as K
        >>> K.int_shape(K.batch_flatten(K.placeholder(shape=(None, 3, 4))))
        (None, 12)
    """
    x = as_tensor(x)
    if not x.ndim:
        raise ValueError("K.batch_flatten: x must have at least one axis, got a scalar")
    return merge_axes(x, [[0], range(1, x.ndim)])


@api
def expand_dims(x: Any, axis: int = -1) -> Tensor:
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
    return apply("expand_dims", x, axes=(_new_axis(axis, x),))


def _new_axis(axis: Any, x: Tensor) -> int:
    """The place of an axis to be added to tensors such as `x`."""
    return normalize_axis(as_int(axis, "axis"), x.ndim + 1)


@api
def squeeze(x: Any, axis: int) -> Tensor:
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
    return apply("squeeze", x, axes=(as_axis(axis, x),))


@api
def stack(x: Any, axis: int = 0) -> Tensor:
    """Join tensors of one shape along a new axis.

    Args:
        x: List of tensors.
        axis: Place of the new axis, in [-ndim - 1, ndim].

    Returns:
        A tensor with one axis more.

    Raises:
        ValueError: if there are no tensors, known sizes differ, or `axis` is out of range.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.stack([K.constant([1.0, 2.0]), K.constant([3.0, 4.0])], axis=1))
        array([[1., 3.],
               [2., 4.]], dtype=float32)
    """
    if not isinstance(x, list | tuple):
        return as_tensor(x)
    if not x:
        raise ValueError("K.stack: x must hold at least one tensor, got an empty list")
    parts = promoted(*x)
    for part in parts[1:]:
        a, b = parts[0].spec.shape, part.spec.shape
        if len(a) != len(b) or any(
            None not in (m, n) and m != n for m, n in zip(a, b, strict=True)
        ):
            raise ValueError(
                f"K.stack: x must hold tensors of one shape, got {tuple(a)} and {tuple(b)}"
            )
    return ops.stack(parts, _new_axis(axis, parts[0]))


@api
def concatenate(tensors: Any, axis: int = -1) -> Tensor:
    """Join tensors along an axis.

    Args:
        tensors: List of tensors with equal sizes along all other axes.
        axis: Int in [-ndim, ndim).

    Returns:
        A tensor.

    Raises:
        ValueError: if there are no tensors, known sizes differ, or `axis` is out of range.
        TypeError: if `tensors` is no list.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.concatenate([K.constant([[1.0, 2.0]]), K.constant([[3.0]])]))
        array([[1., 2., 3.]], dtype=float32)
    """
    if not isinstance(tensors, list | tuple):
        raise TypeError(f"K.concatenate: tensors must be a list, got {type(tensors).__name__}")
    if not tensors:
        raise ValueError("K.concatenate: tensors must hold at least one tensor, got an empty list")
    parts = promoted(*tensors)
    return apply("concat", *parts, axis=as_axis(axis, parts[0]))


@api
def one_hot(indices: Any, num_classes: int) -> Tensor:
    """Vectors that are 1 at an index and 0 elsewhere.

    Args:
        indices: Integer tensor of any shape.
        num_classes: Length of the vectors.

    Returns:
        A tensor of dtype `K.floatx()` with one axis more, the last; an index outside of
        [0, num_classes) gives zeros.

    Raises:
        TypeError: if `indices` does not hold integers.
        ValueError: if `num_classes` is negative.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.one_hot(K.constant([0, 2], dtype="int32"), 3))
        array([[1., 0., 0.],
               [0., 0., 1.]], dtype=float32)
    """
    indices = _integers(indices, "indices")
    count = _count(num_classes, "num_classes")
    if bits(indices.spec.dtype) < 32:
        indices = cast_to(indices, "int32")
    classes = as_tensor(np.arange(count, dtype=indices.spec.dtype))
    wide = apply("expand_dims", indices, axes=(indices.ndim,))
    return cast_to(apply("equal", wide, classes), config.floatx())


def _integers(x: Any, what: str) -> Tensor:
    tensor = as_tensor(x)
    if not is_integer(tensor.spec.dtype):
        raise TypeError(f"{what} must hold integers, got dtype {tensor.spec.dtype}; cast it")
    return tensor


@api
def reverse(x: Any, axes: Any) -> Tensor:
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
    found = as_axes(axes, x, "axes")
    return apply("flip", x, axes=found) if found else x


@api
def slice(x: Any, start: Any, size: Any) -> Tensor:
    """A part of a tensor: `x[start[0]:start[0] + size[0], ...]`.

    Args:
        x: Tensor.
        start: The first index along each axis: ints, scalar integer tensors, or an integer vector.
        size: The number of elements along each axis, likewise; -1 for all up to the end.

    Returns:
        A tensor.

    Raises:
        ValueError: if there is not one number per axis, one is negative, or the part is known to
            reach beyond the tensor. (Starts that are tensors are moved so that it lies inside.)

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.slice(K.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), [0, 1], [2, -1]))
        array([[2., 3.],
               [5., 6.]], dtype=float32)
    """
    x = as_tensor(x)
    starts, sizes = _entries(start, "start"), _entries(size, "size")
    if not len(starts) == len(sizes) == x.ndim:
        raise ValueError(
            f"K.slice: start and size must have one number for each of the {x.ndim} axes of x, "
            f"got {len(starts)} and {len(sizes)}"
        )
    if any(isinstance(n, Tensor) for n in (*starts, *sizes)):
        ends = [_size_to_end(x, i, a) if n == -1 else n for i, (a, n) in _pairs(starts, sizes)]
        dims = [n for n in ends if isinstance(n, Tensor)]
        shape = tuple(n if isinstance(n, int) else None for n in ends)
        return apply("dynamic_slice", x, as_tensor(starts), *dims, shape=shape)
    found = apply(
        "slice", x, slices=tuple(_part(x, i, a, n) for i, (a, n) in _pairs(starts, sizes))
    )
    # What is read along an axis of unknown size may be shorter than it should: the reshape refuses.
    wanted = [n if isinstance(n, int) and n >= 0 else None for n in sizes]
    if all(n in (None, m) for m, n in zip(found.spec.shape, wanted, strict=True)):
        return found
    known = [n if m is None else m for m, n in zip(found.spec.shape, wanted, strict=True)]
    dims, shape = fill_dims(found, known)
    return apply("reshape", found, *dims, shape=shape)


def _pairs(starts: Any, sizes: Any) -> Any:
    return enumerate(zip(starts, sizes, strict=True))


def _part(x: Tensor, axis: int, start: int, size: int) -> tuple[int | None, int | None, int]:
    """The Python slice of one axis, checked as far as its size is known."""
    whole = x.spec.shape[axis]
    stop = whole if size == -1 else start + size
    if (
        start < 0
        or size < -1
        or (whole is not None and stop is not None and not start <= stop <= whole)
    ):
        raise ValueError(
            f"K.slice: start {start} and size {size} along axis {axis} do not lie inside a tensor "
            f"of shape {tuple(x.spec.shape)}"
        )
    return (start or None, None if size == -1 else stop, 1)


def _size_to_end(x: Tensor, axis: int, start: int | Tensor) -> int | Tensor:
    size = x.spec.shape[axis]
    left: int | Tensor = (apply("dim", x, axis=axis) if size is None else size) - start
    return left


@api
def gather(reference: Any, indices: Any) -> Tensor:
    """The parts of a tensor along its first axis that indices name.

    Args:
        reference: Tensor with at least one axis.
        indices: Integer tensor, array or list of any shape; each index lies in [0, size of the
            first axis). Negative ones count from the end, as in the documents' NumPy
            implementation; what lies outside is not checked, and its result is the engine's.

    Returns:
        A tensor of the dtype of `reference`. Its axes are those of `indices`, then the others of
        `reference`. In the gradient indices that occur repeatedly add up.

    Raises:
        ValueError: if `reference` is a scalar.
        TypeError: if `indices` does not hold integers.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.gather(K.constant([[1.0, 2.0], [3.0, 4.0]]), [1, 1]))
        array([[3., 4.],
               [3., 4.]], dtype=float32)
    """
    x = as_tensor(reference)
    if not x.ndim:
        raise ValueError("K.gather: reference must have at least one axis, got a scalar")
    return apply("gather", x, _integers(indices, "indices"), axis=0)
