"""Windows along spatial axes: checks and padding, and how to read and write windows by slices.

Tensors here have the axes (batch, *spatial, channels). On an engine without kernels for convolution
or pooling, windows are read axis by axis. The elements at one offset in every window are one
strided slice, so a window of 3 × 3 takes 6 slices. One matrix product does the arithmetic.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from math import prod

from backplane.core.graph import Tensor
from backplane.core.shapes import Size, Sizes
from backplane.core.spec import Spec
from backplane.core.windows import Ints, Padding, Slice, windows
from backplane.core.windows import Window as Window
from backplane.ops.creation import dim, full, scalar
from backplane.ops.effects import check_windows
from backplane.ops.elementwise import add, maximum
from backplane.ops.indexing import ALL, dynamic_slice, pad, slice, slice_grad
from backplane.ops.lift import promoted
from backplane.ops.shaping import concat, stack

Amount = int | Tensor
"""A number of elements: an int where it is known, else a scalar tensor."""
Pads = Sequence[tuple[Amount, Amount]]
Windows = Sequence[Window]


def windows_of(
    name: str, size: Ints, strides: Ints, dilation: Ints, padding: Padding
) -> list[Window]:
    """One `Window` per spatial axis; errors name the primitive and its parameter."""
    count = len(size)
    for what, values in (("strides", strides), ("dilation", dilation)):
        if len(values) != count or any(v < 1 for v in values):
            raise ValueError(f"{name}: {what} must be {count} ints, each at least 1, got {values}")
    if any(k < 1 for k in size):
        raise ValueError(
            f"{name}: windows must have at least 1 element along each axis, got {size}"
        )
    if isinstance(padding, str):
        if padding not in ("valid", "same"):
            raise ValueError(
                f'{name}: padding must be "valid", "same" or {count} pairs, got {padding!r}'
            )
    elif len(padding) != count or any(min(pair) < 0 for pair in padding):
        raise ValueError(
            f"{name}: padding must be {count} (before, after) pairs, none negative, got {padding}"
        )
    return windows(size, strides, padding, dilation)


def output_sizes(name: str, sizes: Sizes, windows: Windows) -> Sizes:
    """How many windows there are along each axis; ValueError if not a single one fits."""
    found = tuple([w.count(n) for n, w in zip(sizes, windows, strict=True)])
    for axis, (n, count, w) in enumerate(zip(sizes, found, windows, strict=True)):
        if count == 0 and w.padding != "same":
            raise ValueError(
                f"{name}: the window does not fit: it spans {w.span} elements along spatial axis "
                f"{axis}, which has {n} (padding {w.padding!r})"
            )
    return found


def fitting(x: Tensor, size: Ints, dilation: Ints, padding: Padding) -> Tensor:
    """`x`, with a check at run time along the spatial axes whose sizes are unknown. Without it,
    engines answer windows that do not fit with no result, an error, or the end of the process.
    """
    if padding == "same":
        return x
    slid = zip(x.spec.shape[1:-1], windows(size, (1,) * len(size), padding, dilation), strict=True)
    needed = [0 if n is not None else max(w.span - sum(w.ends(n)), 0) for n, w in slid]
    return check_windows(x, sizes=(0, *needed, 0)) if any(needed) else x


def check_output(name: str, what: str, given: Spec, wanted: Sequence[Size]) -> None:
    """ValueError if the operand `what` does not have the shape `wanted`."""
    fits = len(given.shape) == len(wanted) and all(
        a is None or b is None or a == b for a, b in zip(given.shape, wanted, strict=True)
    )
    if not fits:
        raise ValueError(f"{name}: {what} has shape {given.shape}, wanted {tuple(wanted)}")


# --- padding --------------------------------------------------------------------------------------


def amounts(shape: Sequence[Size], dims: Sequence[Tensor]) -> list[Amount]:
    """The sizes of `shape`, with each None filled by one of `dims`."""
    given = iter(dims)
    return [next(given) if n is None else n for n in shape]


def spatial_sizes(x: Tensor) -> list[Amount]:
    """The sizes of the spatial axes of `x`."""
    inner = enumerate(x.spec.shape[1:-1], 1)
    return [dim(x, axis=i) if n is None else n for i, n in inner]


def pairs_of(sizes: Sequence[Amount], windows: Windows) -> Pads:
    """The padding (before, after) of each axis: numbers wherever they follow from what is known."""
    return [
        w.ends(n, max if isinstance(n, int) else _maximum)
        for n, w in zip(sizes, windows, strict=True)
    ]


def _maximum(x: Tensor, y: int) -> Tensor:
    return maximum(*promoted(x, y))


def is_padded(pairs: Pads) -> bool:
    """Whether padding adds anything, or may do so."""
    return any(isinstance(n, Tensor) or n > 0 for pair in pairs for n in pair)


def pad_ends(x: Tensor, pairs: Pads, value: float) -> Tensor:
    """`x` with padding of `value` before and after along its spatial axes."""
    fixed = [(a, b) if isinstance(a, int) and isinstance(b, int) else (0, 0) for a, b in pairs]
    if any(map(any, fixed)):
        x = pad(x, padding=((0, 0), *fixed, (0, 0)), value=value)
    for axis, (before, after) in enumerate(pairs, 1):
        if isinstance(before, Tensor) and isinstance(after, Tensor):
            ends = [_border(x, axis, amount, value) for amount in (before, after)]
            x = concat(ends[0], x, ends[1], axis=axis)
    return x


def _border(x: Tensor, axis: int, amount: Tensor, value: float) -> Tensor:
    dims, shape = _sized(x, {axis: amount})
    return full(*dims, shape=shape, value=value, dtype=x.spec.dtype)


def _sized(x: Tensor, sizes: Mapping[int, Amount]) -> tuple[list[Tensor], Sizes]:
    """The shape of `x`, but with other sizes for some axes, as `(dims, shape)`."""
    dims: list[Tensor] = []
    shape: list[int | None] = []
    for axis, n in enumerate(x.spec.shape):
        size = sizes.get(axis, n)
        if isinstance(size, int):
            shape.append(size)
        else:
            shape.append(None)
            dims.append(dim(x, axis=axis) if size is None else size)
    return dims, tuple(shape)


def crop_ends(x: Tensor, pairs: Pads, dims: Sequence[Tensor], shape: Sizes) -> Tensor:
    """The padded `x` without its padding. The result has `shape`, filled with `dims`."""
    if not is_padded(pairs):
        return x
    fixed = [(a, b) for a, b in pairs if isinstance(a, int) and isinstance(b, int)]
    if len(fixed) == len(pairs):
        return slice(x, slices=(ALL, *[(a or None, -b or None, 1) for a, b in fixed], ALL))
    zero = scalar(0, "int32")
    starts = stack([zero, *[promoted(a, zero)[0] for a, _ in pairs], zero], 0)
    return dynamic_slice(x, starts, *dims, shape=shape)


def padded_sizes(sizes: Sequence[Amount], pairs: Pads) -> list[Amount]:
    """The sizes of the spatial axes, padding included."""
    return [n + a + b for n, (a, b) in zip(sizes, pairs, strict=True)]


# --- reading and writing --------------------------------------------------------------------------

Place = tuple[int, Window, int]
"""An axis, the windows along it, and the offset of an element in each of them."""


def offsets(windows: Windows) -> Iterator[Ints]:
    """The offsets of the elements of a window along each axis, in row-major order."""
    return itertools.product(*(range(w.size) for w in windows))


def places(windows: Windows, at: Ints) -> list[Place]:
    """One element of every window."""
    return [(axis, w, offset) for axis, (w, offset) in enumerate(zip(windows, at, strict=True), 1)]


def _parts(x: Tensor, where: Sequence[Place]) -> list[Slice]:
    parts: list[Slice] = [ALL] * x.ndim
    for axis, w, offset in where:
        parts[axis] = w.part(offset)
    return parts


def read(x: Tensor, *where: Place) -> Tensor:
    """The elements of a padded `x` that are at these places in their windows."""
    parts = tuple(_parts(x, where))
    return x if all(part == ALL for part in parts) else slice(x, slices=parts)


def write(x: Tensor, sizes: Sequence[Amount], *where: Place) -> Tensor:
    """The transpose of `read`: zeros, with the elements of `x` at these places in their windows.

    The axes that the places name get the spatial sizes `sizes`.
    """
    parts = tuple(_parts(x, where))
    if all(part == ALL for part in parts):
        return x
    if all(step == 1 for _, _, step in parts):
        return pad(
            x, padding=tuple((start or 0, -(stop or 0)) for start, stop, _ in parts), value=0
        )
    filled = {axis: sizes[axis - 1] for axis, _, _ in where}
    dims, shape = _sized(x, filled)
    return slice_grad(x, *dims, shape=shape, slices=parts)


def patches(x: Tensor, windows: Windows) -> Tensor:
    """The windows of a padded `x`. Each is laid out in row-major order along the last axis.

    The axes of the result are (batch, *count, elements of a window × channels).
    """
    last = x.ndim - 1
    for axis in reversed(range(1, last)):
        w = windows[axis - 1]
        parts = [read(x, (axis, w, offset)) for offset in range(w.size)]
        x = concat(*parts, axis=last) if w.size > 1 else parts[0]
    return x


def fold(x: Tensor, windows: Windows, sizes: Sequence[Amount], channels: int) -> Tensor:
    """The transpose of `patches`: overlapping windows are added up, over spatial axes of `sizes`
    elements.
    """
    last = x.ndim - 1
    width = channels * prod(w.size for w in windows)
    for axis, w in enumerate(windows, 1):
        width //= w.size
        starts = range(0, w.size * width, width)
        chunks = [slice(x, slices=(*[ALL] * last, (i, i + width, 1))) for i in starts]
        parts = [write(part, sizes, (axis, w, offset)) for offset, part in enumerate(chunks)]
        x = reduce(add, parts)
    return x
