"""Convolution of each channel by itself, on a CPU: sums of products.

XLA's own convolution takes thirty times as long. As loops that it joins with what stands before
and behind them, sums of products are not quick either: whatever makes `x` is computed anew for
each place of the kernel, and the sum for each operation that reads it. So barriers surround them
(`cpu.convolution_options`).
"""

from __future__ import annotations

from functools import reduce
from typing import Unpack

import jax.numpy as jnp
from jax import lax

from backplane.core.windows import Sliding, WindowGrid
from backplane.engines.jax.windows import Pairs, pad_spatial, zero
from backplane.engines.table import Ints, Value


def conv(x: Value, kernel: Value, *, groups: int, **window: Unpack[Sliding]) -> Value:
    """Cross-correlation."""
    at = WindowGrid.of(x.shape[1:-1], kernel.shape[:-2], **window)
    x = _padded(_repeated(x, kernel.shape[-1] // groups), at.pairs)
    return _sum_of_products(x, at, kernel)


def input_grad(
    g: Value, kernel: Value, *, shape: Ints, groups: int, **window: Unpack[Sliding]
) -> Value:
    """The same over `g`, spread by strides, with the kernel turned around."""
    size, filters = kernel.shape[:-2], kernel.shape[-1]
    if 0 in g.shape:
        return lax.full(shape, 0, g.dtype)
    at = WindowGrid.of(shape[1:-1], size, **window)
    g = _padded(g, at.gradient_pairs, window["strides"])
    # Over `g` windows are one step apart, and there are as many as `x` has elements.
    apart = WindowGrid.of(g.shape[1:-1], size, (1,) * len(size), "valid", window["dilation"])
    turned = lax.rev(kernel, range(len(size)))
    gradient = _sum_of_products(g, apart, turned)
    if filters == groups:
        return gradient
    return lax.reduce(
        lax.reshape(gradient, (*shape, filters // groups)), zero(g), lax.add, (len(shape),)
    )


def kernel_grad(
    x: Value, g: Value, *, kernel_shape: Ints, groups: int, **window: Unpack[Sliding]
) -> Value:
    """A sum over all windows for each place of the kernel."""
    at = WindowGrid.of(x.shape[1:-1], kernel_shape[:-2], **window)
    x = _padded(_repeated(x, kernel_shape[-1] // groups), at.pairs)
    g = lax.optimization_barrier(g)
    axes = tuple(range(x.ndim - 1))
    sums = [lax.reduce(lax.mul(x[index], g), zero(g), lax.add, axes) for index in at.indices]
    return lax.reshape(lax.concatenate(sums, 0), kernel_shape)


def _padded(x: Value, pairs: Pairs, steps: Ints | None = None) -> Value:
    """`x` in memory of its own, with zeros around it, and between its elements."""
    return lax.optimization_barrier(pad_spatial(x, zero(x), pairs, steps))


def _repeated(x: Value, multiplier: int) -> Value:
    """Each channel `multiplier` times in a row."""
    return x if multiplier == 1 else jnp.repeat(x, multiplier, x.ndim - 1)


def _sum_of_products(x: Value, at: WindowGrid, kernel: Value) -> Value:
    """The sum of products of a window and the weights, for all windows over the padded `x`."""
    rows = lax.reshape(kernel, (kernel.size // kernel.shape[-1], kernel.shape[-1]))
    terms = [x[index] * rows[i] for i, index in enumerate(at.indices)]
    return lax.optimization_barrier(reduce(lax.add, terms))
