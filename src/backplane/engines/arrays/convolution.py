"""Convolution and its two gradients by im2col: windows gathered into rows, multiplied by BLAS.

The rows are gathered block by block, so that they are still in the cache when they are multiplied.
A group of channels is a convolution of its own; where each group has one input channel (depthwise),
the taps are multiplied and added instead, in blocks too: that takes 0.4 to 0.9 of the time that
whole arrays take, and as long where images are tiny.
"""

from __future__ import annotations

import math
from typing import Unpack

import numpy as np

from backplane.core.shapes import Sizes
from backplane.core.windows import Ints, Sliding
from backplane.engines.arrays.windows import Windows, in_blas_dtype, split
from backplane.engines.table import Table, Value, host_shape

TABLE = Table()


@TABLE.add("conv")
def _conv(x: Value, kernel: Value, *, groups: int, **at: Unpack[Sliding]) -> Value:
    windows = Windows.of(x.shape[1:-1], kernel.shape[:-2], **at)
    dtype = x.dtype
    x, kernel = in_blas_dtype(windows.pad(x)), in_blas_dtype(kernel)
    if groups == 1:
        y = _correlate(x, kernel, windows)
    elif kernel.shape[-2] == 1:
        y = _correlate_depthwise(x, kernel, windows)
    else:
        parts = zip(split(x, groups), split(kernel, groups), strict=True)
        y = np.concatenate([_correlate(a, k, windows) for a, k in parts], -1)
    return y.astype(dtype, copy=False)


def _correlate(x: Value, kernel: Value, windows: Windows) -> Value:
    outputs = kernel.shape[-1]
    depth = math.prod(kernel.shape[:-1])
    matrix = kernel.reshape(depth, outputs)
    view = windows.view(x)
    y = np.empty((len(x), *windows.counts, outputs), x.dtype)
    for block in windows.blocks(len(x), depth, x.itemsize):
        part = y[block]
        count = math.prod(part.shape[:-1])
        np.dot(_rows(view[block], count, depth), matrix, out=part.reshape(count, outputs))
    return y


def _rows(view: Value, count: int, depth: int) -> Value:
    """A matrix of `count` windows of `depth` elements.

    Windows over one channel are gathered tap by tap, which copies whole rows of images; to gather
    single elements takes up to 2.5 times as long.
    """
    if view.shape[-1] > 1:
        return view.reshape(count, depth)
    rank = view.ndim // 2 - 1
    places, window = range(rank + 1), range(rank + 1, 2 * rank + 1)
    return view.transpose(*window, *places, view.ndim - 1).reshape(depth, count).T


def _correlate_depthwise(x: Value, kernel: Value, windows: Windows) -> Value:
    """Products of the taps, which are added up in the result block by block."""
    outputs = kernel.shape[-1]
    (first, weight), *others = _weighted(_repeated(x, outputs), kernel, windows)
    y = np.empty((len(x), *windows.counts, outputs), x.dtype)
    for block, part, product in windows.parts(y, 3 * outputs):
        np.multiply(first[block], weight, out=part)
        for tap, weights in others:
            part += np.multiply(tap[block], weights, out=product)
    return y


def _weighted(x: Value, kernel: Value, windows: Windows) -> list[tuple[Value, Value]]:
    """For each tap, its view of the padded `x` and its weights, one for each channel. They are
    repeated along the last spatial axis, so that NumPy's loops run over whole rows of an image.
    """
    rows = kernel.reshape(-1, 1, kernel.shape[-1]).repeat(windows.counts[-1], 1)
    return list(zip(windows.taps(x), rows, strict=True))


def _repeated(x: Value, outputs: int) -> Value:
    """Each channel of `x` as often as a depthwise convolution to `outputs` channels reads it."""
    times = outputs // x.shape[-1]
    return x if times == 1 else np.repeat(x, times, -1)


@TABLE.add("conv_input_grad")
def _conv_input_grad(
    g: Value, kernel: Value, *dims: Value, shape: Sizes, groups: int, **at: Unpack[Sliding]
) -> Value:
    sizes = host_shape(shape, dims)
    windows = Windows.of(sizes[1:-1], kernel.shape[:-2], **at)
    dtype = g.dtype
    g, kernel = in_blas_dtype(g), in_blas_dtype(kernel)
    x = np.zeros((sizes[0], *windows.padded, sizes[-1]), g.dtype)
    if groups == 1:
        _add_input_grad(x, g, kernel, windows)
    elif kernel.shape[-2] == 1:
        _add_input_grad_depthwise(x, g, kernel, windows)
    else:
        grouped = zip(split(x, groups), split(g, groups), split(kernel, groups), strict=True)
        for parts in grouped:
            _add_input_grad(*parts, windows)
    return windows.crop(x).astype(dtype, copy=False)


def _add_input_grad(x: Value, g: Value, kernel: Value, windows: Windows) -> None:
    """For each tap, add the product of `g` and the tap's part of the kernel to what it read."""
    inputs, outputs = kernel.shape[-2:]
    weights = kernel.reshape(windows.elements, inputs, outputs).swapaxes(1, 2)
    taps = list(zip(windows.taps(x), weights, strict=True))
    for block in windows.blocks(len(g), inputs + outputs, g.itemsize):
        *place, _ = g[block].shape
        rows = g[block].reshape(math.prod(place), outputs)
        product = np.empty((len(rows), inputs), g.dtype)
        for tap, weight in taps:
            np.dot(rows, weight, out=product)
            target = tap[block]
            target += product.reshape(*place, inputs)


def _add_input_grad_depthwise(x: Value, g: Value, kernel: Value, windows: Windows) -> None:
    times = g.shape[-1] // x.shape[-1]
    taps = _weighted(x, kernel, windows)
    for block, part, product in windows.parts(g, 3 * g.shape[-1]):
        for tap, weights in taps:
            np.multiply(part, weights, out=product)
            target = tap[block]
            target += product if times == 1 else product.reshape(*target.shape, times).sum(-1)


@TABLE.add("conv_kernel_grad")
def _conv_kernel_grad(
    x: Value, g: Value, *, kernel_shape: Ints, groups: int, **at: Unpack[Sliding]
) -> Value:
    windows = Windows.of(x.shape[1:-1], kernel_shape[:-2], **at)
    dtype = g.dtype
    x, g = in_blas_dtype(windows.pad(x)), in_blas_dtype(g)
    if groups == 1:
        kernel = _kernel_grad(x, g, windows)
    elif kernel_shape[-2] == 1:
        kernel = _kernel_grad_depthwise(x, g, kernel_shape, windows)
    else:
        parts = zip(split(x, groups), split(g, groups), strict=True)
        kernel = np.concatenate([_kernel_grad(a, b, windows) for a, b in parts], -1)
    return kernel.reshape(kernel_shape).astype(dtype, copy=False)


def _kernel_grad(x: Value, g: Value, windows: Windows) -> Value:
    """As a matrix of (taps and input channels, output channels)."""
    depth, outputs = windows.elements * x.shape[-1], g.shape[-1]
    view = windows.view(x)
    kernel = np.zeros((depth, outputs), g.dtype)
    for block in windows.blocks(len(x), depth, x.itemsize):
        part = g[block]
        count = math.prod(part.shape[:-1])
        kernel += np.dot(_rows(view[block], count, depth).T, part.reshape(count, outputs))
    return kernel


def _kernel_grad_depthwise(x: Value, g: Value, shape: Ints, windows: Windows) -> Value:
    outputs = shape[-1]
    taps = list(windows.taps(_repeated(x, outputs)))
    kernel = np.zeros((len(taps), outputs), g.dtype)
    for block, part, product in windows.parts(g, 3 * outputs):
        rows = product.reshape(-1, outputs)
        ones = np.ones(len(rows), g.dtype)
        for row, tap in zip(kernel, taps, strict=True):
            np.multiply(tap[block], part, out=product)
            row += np.dot(ones, rows)
    return kernel
