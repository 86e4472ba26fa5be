"""Windows along spatial axes: checks and padding, and how to read and write windows by slices.

Tensors here have the axes (batch, *spatial, channels). On an engine without kernels for convolution
or pooling, windows are read axis by axis. The elements at one offset in every window are one
strided slice, so a window of 3 × 3 takes 6 slices. One matrix product does the arithmetic.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import reduce
from math import prod
from typing import NamedTuple

from backplane.core.graph import Tensor
from backplane.core.shapes import Sizes
from backplane.core.windows import Ints, Padding, Slice, windows
from backplane.core.windows import Window as Window
from backplane.ops.creation import Amount, full, scalar, shaped, size_at
from backplane.ops.effects import check_windows
from backplane.ops.elementwise import add, maximum
from backplane.ops.indexing import ALL, dynamic_slice, pad, part, slice, slice_grad
from backplane.ops.lift import promoted
from backplane.ops.shaping import concat, stack

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
    """The number of windows along each axis; ValueError if not a single one fits."""
    counts = tuple([w.count(n) for n, w in zip(sizes, windows, strict=True)])
    for axis, (n, count, w) in enumerate(zip(sizes, counts, windows, strict=True)):
        if count == 0 and w.padding != "same":
            raise ValueError(
                f"{name}: the window does not fit: it spans {w.span} elements along spatial axis "
                f"{axis}, which has {n} (padding {w.padding!r})"
            )
    return counts


def fitting(x: Tensor, size: Ints, dilation: Ints, padding: Padding) -> Tensor:
    """`x`, with a check at run time along the spatial axes whose sizes are unknown. Without it,
    engines answer windows that do not fit with no result, an error, or the end of the process.
    """
    if padding == "same":
        return x
    slid = zip(x.spec.shape[1:-1], windows(size, (1,) * len(size), padding, dilation), strict=True)
    needed = [0 if n is not None else max(w.span - sum(w.ends(n)), 0) for n, w in slid]
    return check_windows(x, sizes=(0, *needed, 0)) if any(needed) else x


def check_rank(name: str, x: Sizes) -> None:
    """ValueError unless a tensor of this shape can have windows."""
    if not 3 <= len(x) <= 5:
        raise ValueError(
            f"{name}: x must have 3 to 5 axes (batch, 1 to 3 spatial, channels), got {x}"
        )


# --- windows over a tensor ------------------------------------------------------------------------


class Layout(NamedTuple):
    """Windows over the spatial axes of a tensor whose sizes may be unknown."""

    windows: Windows
    sizes: Sequence[Amount]
    """The spatial sizes without padding."""
    pairs: Sequence[tuple[Amount, Amount]]
    """The padding (before, after) of each axis: numbers wherever they follow from what is known."""

    @property
    def elements(self) -> int:
        """The elements of a window."""
        return prod(w.size for w in self.windows)

    @property
    def padded(self) -> list[Amount]:
        """The spatial sizes, padding included."""
        return [n + a + b for n, (a, b) in zip(self.sizes, self.pairs, strict=True)]

    @property
    def is_padded(self) -> bool:
        """Whether padding adds anything, or may do so."""
        return any(isinstance(n, Tensor) or n > 0 for pair in self.pairs for n in pair)

    def pad(self, x: Tensor, value: float) -> Tensor:
        """`x` with padding of `value` before and after along its spatial axes."""
        return padded(x, [(0, 0), *self.pairs, (0, 0)], value) if self.is_padded else x

    def crop(self, x: Tensor, sizes: Sequence[Amount]) -> Tensor:
        """The padded `x` without its padding. The result has `sizes`."""
        if not self.is_padded:
            return x
        if not any(isinstance(n, Tensor) for pair in self.pairs for n in pair):
            inner = [(before or None, -after or None, 1) for before, after in self.pairs]
            return slice(x, slices=(ALL, *inner, ALL))
        zero = scalar(0, "int32")
        starts = stack([zero, *[promoted(a, zero)[0] for a, _ in self.pairs], zero], 0)
        return shaped(dynamic_slice, sizes, x, starts)

    def offsets(self) -> Iterator[Ints]:
        """The offsets of the elements of a window along each axis, in row-major order."""
        return itertools.product(*(range(w.size) for w in self.windows))

    def read(self, x: Tensor, at: Ints) -> Tensor:
        """The element at the offsets `at` of every window of the padded `x`."""
        return read(x, *_places(self.windows, at))

    def write(self, x: Tensor, at: Ints) -> Tensor:
        """`read` transposed: zeros of the padded sizes with the elements of `x`."""
        return write(x, self.padded, *_places(self.windows, at))


def layout(
    sizes: Sequence[Amount],
    size: Sequence[int],
    strides: Ints,
    padding: Padding,
    dilation: Ints | None = None,
) -> Layout:
    """Windows of `size` elements over spatial axes of `sizes` elements."""
    laid = windows(size, strides, padding, dilation)
    pairs = [
        w.ends(n, max if isinstance(n, int) else _maximum) for n, w in zip(sizes, laid, strict=True)
    ]
    return Layout(laid, sizes, pairs)


def _maximum(x: Tensor, y: int) -> Tensor:
    return maximum(*promoted(x, y))


def padded(x: Tensor, pairs: Sequence[tuple[Amount, Amount]], value: float) -> Tensor:
    """`x` with so many elements of `value` before and after it along each axis."""
    unknown = [axis for axis, pair in enumerate(pairs) if any(isinstance(n, Tensor) for n in pair)]
    known = [(0, 0) if axis in unknown else pair for axis, pair in enumerate(pairs)]
    if not unknown or any(map(any, known)):
        x = pad(x, padding=tuple(known), value=value)
    for axis in unknown:
        dtype = x.spec.dtype
        before, after = [
            shaped(full, _with(x, {axis: n}), value=value, dtype=dtype) for n in pairs[axis]
        ]
        x = concat(before, x, after, axis=axis)
    return x


def spatial_sizes(x: Tensor) -> list[Amount]:
    """The sizes of the spatial axes of `x`."""
    return [size_at(x, axis) for axis in range(1, x.ndim - 1)]


def _with(x: Tensor, sizes: dict[int, Amount]) -> list[Amount]:
    """The sizes of `x` with others for some axes."""
    return [sizes[i] if i in sizes else size_at(x, i) for i in range(x.ndim)]


# --- reading and writing --------------------------------------------------------------------------

Place = tuple[int, Window, int]
"""An axis, the windows along it, and the offset of an element in each of them."""


def _places(windows: Windows, at: Ints) -> list[Place]:
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
        ends = tuple((start or 0, -(stop or 0)) for start, stop, _ in parts)
        return pad(x, padding=ends, value=0)
    whole = _with(x, {axis: sizes[axis - 1] for axis, _, _ in where})
    return shaped(slice_grad, whole, x, slices=parts)


def patches(x: Tensor, windows: Windows) -> Tensor:
    """The windows of a padded `x` (im2col), each in row-major order along the last axis.

    The axes of the result are (batch, *count, elements of a window × channels).
    """
    last = x.ndim - 1
    for axis in reversed(range(1, last)):
        w = windows[axis - 1]
        parts = [read(x, (axis, w, offset)) for offset in range(w.size)]
        x = concat(*parts, axis=last) if w.size > 1 else parts[0]
    return x


def fold(x: Tensor, laid: Layout, channels: int) -> Tensor:
    """The transpose of `patches` (col2im): adds up overlapping windows over padded axes."""
    last = x.ndim - 1
    width = channels * laid.elements
    for axis, w in enumerate(laid.windows, 1):
        width //= w.size
        starts = range(0, w.size * width, width)
        chunks = [part(x, last, i, i + width) for i in starts]
        parts = [write(chunk, laid.padded, (axis, w, i)) for i, chunk in enumerate(chunks)]
        x = reduce(add, parts)
    return x
