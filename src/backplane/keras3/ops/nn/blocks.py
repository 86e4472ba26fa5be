"""Windows and blocks of images as axes of their own: unfold, fold, depth and space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from backplane import backend as K
from backplane.core.graph import Tensor
from backplane.core.windows import Ints
from backplane.keras3.call import op
from backplane.keras3.operands import tensor_of
from backplane.ops import windows as win
from backplane.ops.axes import merge_axes, permuted
from backplane.ops.creation import shaped, size_at
from backplane.ops.shaping import reshape

Sizes = int | Sequence[int]


def _pair(value: Sizes) -> Ints:
    return (value, value) if isinstance(value, int) else tuple(value)


def _layout(
    sizes: Sequence[Any], kernel_size: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes
) -> win.Layout:
    around = tuple((n, n) for n in _pair(padding))
    return win.layout(sizes, _pair(kernel_size), _pair(stride), around, _pair(dilation))


@op
def unfold(
    input: Any, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
) -> Tensor:
    """The windows of images (samples, channels, rows, columns): (samples, channels · elements of a
    window, windows).
    """
    x = permuted(tensor_of(input), (0, 2, 3, 1))
    laid = _layout(win.spatial_sizes(x), kernel_size, dilation, padding, stride)
    found = win.patches(laid.pad(x, 0), laid.windows)
    channels = size_at(x, 3)
    sizes = [size_at(found, i) for i in range(3)]
    y = shaped(reshape, [*sizes, laid.elements, channels], found)
    return merge_axes(permuted(y, (0, 4, 3, 1, 2)), [[0], [1, 2], [3, 4]])


@op
def fold(
    x: Any,
    output_size: Sizes,
    kernel_size: Sizes,
    dilation: Sizes = 1,
    padding: Sizes = 0,
    stride: Sizes = 1,
) -> Tensor:
    """The images (samples, channels, rows, columns) whose windows are given, as `unfold` gives
    them. Where windows overlap, their elements are added up.
    """
    x = tensor_of(x)
    sizes = _pair(output_size)
    laid = _layout(sizes, kernel_size, dilation, padding, stride)
    counts = [w.count(n) for n, w in zip(sizes, laid.windows, strict=True)]
    channels = (x.spec.shape[1] or 0) // laid.elements
    y = shaped(reshape, [size_at(x, 0), channels, laid.elements, *counts], x)
    y = merge_axes(permuted(y, (0, 3, 4, 2, 1)), [[0], [1], [2], [3, 4]])
    whole = laid.crop(win.fold(y, laid, channels), [size_at(x, 0), *sizes, channels])
    return permuted(whole, (0, 3, 1, 2))


@op
def depth_to_space(x: Any, block_size: int, data_format: str = "channels_last") -> Tensor:
    """Channels moved into blocks of `block_size` × `block_size` pixels."""
    x = tensor_of(x)
    if data_format == "channels_first":
        batch, channels, rows, columns = [size_at(x, i) for i in range(4)]
        inner = channels // block_size**2
        y = K.reshape(x, [batch, inner, block_size, block_size, rows, columns])
        return merge_axes(permuted(y, (0, 1, 4, 2, 5, 3)), [[0], [1], [2, 3], [4, 5]])
    batch, rows, columns, channels = [size_at(x, i) for i in range(4)]
    inner = channels // block_size**2
    y = K.reshape(x, [batch, rows, columns, block_size, block_size, inner])
    return merge_axes(permuted(y, (0, 1, 3, 2, 4, 5)), [[0], [1, 2], [3, 4], [5]])


@op
def space_to_depth(x: Any, block_size: int, data_format: str = "channels_last") -> Tensor:
    """Blocks of `block_size` × `block_size` pixels moved into channels."""
    x = tensor_of(x)
    if data_format == "channels_first":
        batch, channels, rows, columns = [size_at(x, i) for i in range(4)]
        blocks = [rows // block_size, block_size, columns // block_size, block_size]
        y = K.reshape(x, [batch, channels, *blocks])
        return merge_axes(permuted(y, (0, 1, 3, 5, 2, 4)), [[0], [1, 2, 3], [4], [5]])
    batch, rows, columns, channels = [size_at(x, i) for i in range(4)]
    y = K.reshape(
        x, [batch, rows // block_size, block_size, columns // block_size, block_size, channels]
    )
    return merge_axes(permuted(y, (0, 1, 3, 2, 4, 5)), [[0], [1], [2], [3, 4, 5]])
