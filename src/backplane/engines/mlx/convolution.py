"""Lowerings: convolution and its gradients. MLX's layout is Backplane's, but for kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import mlx.core as mx

from backplane.core.shapes import Sizes
from backplane.core.spec import Spec, is_float
from backplane.core.windows import Ints, Sliding, WindowGrid
from backplane.engines.table import Table, Value, host_shape

TABLE = Table()


def _refused(specs: Sequence[Spec], *, groups: int, **window: Any) -> bool:
    """Whether MLX lacks a kernel: integers, groups over three axes, float64 (run in float32)."""
    spec = specs[0]
    return not is_float(spec.dtype) or spec.dtype == "float64" or (groups > 1 and spec.ndim > 4)


@TABLE.add("conv", unless=_refused)
def conv(x: Value, kernel: Value, *, groups: int, **at: Unpack[Sliding]) -> Value:
    """`mx.conv_general`, whose kernels are (out, *spatial, in)."""
    grid = WindowGrid.of(x.shape[1:-1], kernel.shape[:-2], **at)
    if not (x.size and kernel.size) or 0 in grid.counts:
        return mx.zeros((x.shape[0], *grid.counts, kernel.shape[-1]), x.dtype)
    before, after = zip(*grid.pairs, strict=True)
    return mx.conv_general(
        x,
        mx.moveaxis(kernel, -1, 0),
        stride=at["strides"],
        padding=(before, after),
        kernel_dilation=at["dilation"],
        groups=groups,
    )


@TABLE.add("conv_input_grad", unless=_refused)
def conv_input_grad(
    g: Value, kernel: Value, *dims: Value, shape: Sizes, groups: int, **at: Unpack[Sliding]
) -> Value:
    """The convolution of `g`, spread by the strides, with the kernel turned round."""
    sizes = host_shape(shape, dims)
    if not (g.size and kernel.size):
        return mx.zeros(sizes, g.dtype)
    grid = WindowGrid.of(sizes[1:-1], kernel.shape[:-2], **at)
    before, after = zip(*grid.gradient_pairs, strict=True)
    # Not by `flip=True`, which CUDA forgets where all strides are 1 (MLX 0.32).
    turned = kernel[(slice(None, None, -1),) * len(grid.counts)]
    return mx.conv_general(
        g,
        _turned(turned, groups),
        padding=(before, after),
        kernel_dilation=at["dilation"],
        input_dilation=at["strides"],
        groups=groups,
    )


def _turned(kernel: Value, groups: int) -> Value:
    """(*spatial, in / groups, out) as (in, *spatial, out / groups)."""
    *window, inputs, outputs = kernel.shape
    split = mx.reshape(kernel, (*window, inputs, groups, outputs // groups))
    ordered = mx.moveaxis(mx.moveaxis(split, -2, 0), -2, 1)
    return mx.reshape(ordered, (groups * inputs, *window, outputs // groups))


@TABLE.add("conv_kernel_grad", unless=lambda specs, **at: at["groups"] > 1 or _refused(specs, **at))
def conv_kernel_grad(
    x: Value, g: Value, *, kernel_shape: Ints, groups: int, **at: Unpack[Sliding]
) -> Value:
    """The convolution of `x` with `g`, samples taken for channels; strides and dilation swapped."""
    if not (x.size and g.size):
        return mx.zeros(kernel_shape, x.dtype)
    window = kernel_shape[:-2]
    grid = WindowGrid.of(x.shape[1:-1], window, **at)
    before, after = zip(*grid.pairs, strict=True)
    gradient = mx.conv_general(
        mx.swapaxes(x, 0, -1),
        mx.swapaxes(g, 0, -1),
        stride=at["dilation"],
        padding=(before, after),
        kernel_dilation=at["strides"],
    )
    # What no window reaches makes the result larger than the kernel.
    return mx.moveaxis(gradient[(slice(None), *map(slice, window))], 0, -2)
