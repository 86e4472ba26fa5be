"""Other shapes of the same elements, and elements repeated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from backplane import backend as K
from backplane.backend._args import as_axes, as_axis, as_entries
from backplane.core.graph import Tensor
from backplane.core.shapes import normalize_axes
from backplane.keras3.call import op
from backplane.keras3.operands import tensor_of
from backplane.keras3.ops.numpy.operands import flat, length, listed
from backplane.ops import elementwise as ew
from backplane.ops.axes import permuted
from backplane.ops.creation import scalar, shaped
from backplane.ops.indexing import flip as flipped
from backplane.ops.indexing import gather
from backplane.ops.ragged import positions
from backplane.ops.reduction import count
from backplane.ops.shaping import broadcast_to as broadcast
from backplane.ops.shaping import concat, reshape_like
from backplane.ops.shaping import expand_dims as expanded
from backplane.ops.shaping import squeeze as squeezed

__all__ = [
    "broadcast_to", "expand_dims", "flip", "fliplr", "flipud", "moveaxis", "ndim", "ravel",
    "repeat", "reshape", "roll", "rot90", "size", "squeeze", "swapaxes", "tile", "transpose",
]  # fmt: skip


@op
def ndim(x: Any) -> int:
    """The number of axes."""
    return tensor_of(x).ndim


@op
def size(x: Any) -> Any:
    """The number of elements: an int if it is known, or else a scalar tensor."""
    x = tensor_of(x)
    if x.spec.is_static:
        return int(np.prod(x.spec.shape, dtype=np.int64))
    return count(x, range(x.ndim), "int32")


# --- shapes ---------------------------------------------------------------------------------------


@op(static=("newshape",))
def reshape(x: Any, newshape: Any) -> Tensor:
    """The same elements, row by row, in another shape. One size may be -1, or None: it follows from
    the others.
    """
    return K.reshape(tensor_of(x), [-1 if n is None else n for n in listed(newshape)])


@op
def ravel(x: Any) -> Tensor:
    """The elements, row by row, as a vector."""
    return flat(tensor_of(x))


@op(static=("shape",))
def broadcast_to(x: Any, shape: Any) -> Tensor:
    """The elements repeated along new axes in front and along axes of size 1."""
    return shaped(broadcast, as_entries(shape, "shape"), tensor_of(x))


@op(static=("axis",))
def expand_dims(x: Any, axis: Any) -> Tensor:
    """The same elements with new axes of size 1, at the places `axis` of the result."""
    x = tensor_of(x)
    axes = listed(axis)
    return expanded(x, axes=normalize_axes(axes, x.ndim + len(axes))) if axes else x


@op(static=("axis",))
def squeeze(x: Any, axis: Any = None) -> Tensor:
    """The same elements without the axes `axis`, which have size 1; without all of size 1 if
    None.
    """
    x = tensor_of(x)
    ones = [i for i, n in enumerate(x.spec.shape) if n == 1]
    axes = as_axes(ones if axis is None else axis, x)
    return squeezed(x, axes=axes) if axes else x


# --- order of axes --------------------------------------------------------------------------------


def _reordered(x: Any, order: Callable[..., np.ndarray], *axes: Any) -> Tensor:
    """`x` with its axes in the order into which a function of NumPy brings those of an array."""
    x = tensor_of(x)
    array = np.empty(range(x.ndim))  # The size of each axis is its number.
    return permuted(x, order(array, *axes).shape)


@op(static=("axes",))
def transpose(x: Any, axes: Any = None) -> Tensor:
    """The axes in the order `axes`, or in reverse order."""
    return _reordered(x, np.transpose, axes)


@op
def moveaxis(x: Any, source: Any, destination: Any) -> Tensor:
    """The axes `source` at the places `destination`; the others keep their order."""
    return _reordered(x, np.moveaxis, source, destination)


@op
def swapaxes(x: Any, axis1: int, axis2: int) -> Tensor:
    """Two axes, each at the place of the other one."""
    return _reordered(x, np.swapaxes, axis1, axis2)


# --- order of elements ----------------------------------------------------------------------------


@op
def flip(x: Any, axis: Any = None) -> Tensor:
    """The elements in reverse order along `axis`."""
    x = tensor_of(x)
    axes = as_axes(axis, x)
    return flipped(x, axes=axes) if axes else x


@op
def fliplr(x: Any) -> Tensor:
    """The columns in reverse order."""
    return flip(x, 1)


@op
def flipud(x: Any) -> Tensor:
    """The rows in reverse order."""
    return flip(x, 0)


@op
def rot90(array: Any, k: int = 1, axes: Any = (0, 1)) -> Tensor:
    """The elements rotated by `k` right angles, in the plane of two axes, from the first one toward
    the second one.

    Raises:
        ValueError: if there are fewer than two axes, or `axes` are not two different ones.
    """
    x = tensor_of(array)
    if x.ndim < 2:
        raise ValueError(
            f"Input array must have at least 2 dimensions. Received: array.ndim={x.ndim}"
        )
    if len(axes) != 2 or axes[0] == axes[1]:
        raise ValueError(f"Invalid axes: {axes}. Axes must be a tuple of two different dimensions.")
    first, second = axes
    if k % 4 == 2:
        return flip(x, [first, second])
    if k % 4 == 1:
        return swapaxes(flip(x, second), first, second)
    return flip(swapaxes(x, first, second), second) if k % 4 else x


@op(static=("axis",))
def roll(x: Any, shift: Any, axis: Any = None) -> Tensor:
    """The elements moved on by `shift` places along `axis`. What leaves at the end comes in at the
    front.
    """
    x = tensor_of(x)
    if axis is None:
        return reshape_like(_rolled(flat(x), shift, 0), x)
    axes = listed(axis)
    shifts = listed(shift) if isinstance(shift, list | tuple) else [shift] * len(axes)
    for by, at in zip(shifts, axes, strict=True):
        x = _rolled(x, by, as_axis(at, x))
    return x


def _rolled(x: Tensor, by: Any, axis: int) -> Tensor:
    n = x.spec.shape[axis]
    if n is not None and isinstance(by, int):
        first = -by % n if n else 0
        lead = (slice(None),) * axis
        parts = [x[(*lead, slice(first, None))], x[(*lead, slice(None, first))]]
        return concat(*parts, axis=axis) if first else x
    by = tensor_of(by, "int32")
    from_ = ew.mod(ew.sub(positions(x, axis), by), ew.maximum(length(x, axis), scalar(1, "int32")))
    return gather(x, from_, axis=axis)


# --- repetition -----------------------------------------------------------------------------------


@op(static=("repeats",))
def tile(x: Any, repeats: Any) -> Tensor:
    """The whole tensor, repeated so many times along each axis. Fewer numbers are for the last
    axes; more numbers make new axes in front.
    """
    return K.tile(tensor_of(x), repeats)


@op(static=("repeats",))
def repeat(x: Any, repeats: Any, axis: int | None = None) -> Tensor:
    """Each element repeated along `axis`, so many times, or each as many times as the vector
    `repeats` says.
    """
    x = tensor_of(x)
    if axis is None:
        x, axis = flat(x), 0
    times = listed(repeats)
    if len(times) == 1:
        return K.repeat_elements(x, times[0], axis)
    at = as_axis(axis, x)
    if len(times) != x.spec.shape[at]:
        raise ValueError(
            f"repeat: repeats has {len(times)} numbers for axis {at} of a tensor of shape "
            f"{x.spec.shape}"
        )
    return gather(x, tensor_of(np.repeat(np.arange(len(times)), times), "int32"), axis=at)
