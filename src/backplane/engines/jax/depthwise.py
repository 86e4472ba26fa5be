"""Convolution of each channel by itself, on a CPU: sums of products.

XLA's own convolution takes thirty times as long. As loops that it joins with what stands before
and behind them, sums of products are not quick either: whatever makes `x` is computed anew for
each place of the kernel, and the sum for each operation that reads it. So barriers surround them
(`cpu.convolution_options`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Unpack

import jax.numpy as jnp
import numpy as np
from jax import lax

from backplane.core.windows import Placement, Sliding
from backplane.engines.jax.windows import Pairs, zero
from backplane.engines.table import Ints, Value


def conv(x: Value, kernel: Value, *, groups: int, **window: Unpack[Sliding]) -> Value:
    """Cross-correlation."""
    at = Placement.of(x.shape[1:-1], kernel.shape[:-2], **window)
    x = _padded(_repeated(x, kernel.shape[-1] // groups), at.pairs)
    return _sum_of_products(windows_of(x, at), kernel)


def input_grad(
    g: Value, kernel: Value, *, shape: Ints, groups: int, **window: Unpack[Sliding]
) -> Value:
    """The same over `g`, with zeros between its elements where there are strides, and with the
    kernel turned around.
    """
    size, filters = kernel.shape[:-2], kernel.shape[-1]
    if 0 in g.shape:
        return lax.full(shape, 0, g.dtype)
    at, strides = Placement.of(shape[1:-1], size, **window), window["strides"]
    spread = [(n - 1) * s + 1 for n, s in zip(g.shape[1:-1], strides, strict=True)]
    axes = zip(at.windows, at.pairs, at.sizes, spread, strict=True)
    pairs = [(w.span - 1 - before, n - m + before) for w, (before, _), n, m in axes]
    g = _padded(g, pairs, strides)
    # Over `g` windows are one step apart, and there are as many as `x` has elements.
    apart = Placement.of(g.shape[1:-1], size, (1,) * len(size), "valid", window["dilation"])
    turned = lax.rev(kernel, range(len(size)))
    found = _sum_of_products(windows_of(g, apart), turned)
    if filters == groups:
        return found
    return lax.reduce(
        lax.reshape(found, (*shape, filters // groups)), zero(g), lax.add, (len(shape),)
    )


def kernel_grad(
    x: Value, g: Value, *, kernel_shape: Ints, groups: int, **window: Unpack[Sliding]
) -> Value:
    """A sum over all windows for each place of the kernel."""
    at = Placement.of(x.shape[1:-1], kernel_shape[:-2], **window)
    x = _padded(_repeated(x, kernel_shape[-1] // groups), at.pairs)
    g = lax.optimization_barrier(g)
    parts = windows_of(x, at)
    axes = range(x.ndim - 1)
    sums = [lax.reduce(lax.mul(part, g), zero(g), lax.add, tuple(axes)) for part in parts]
    return lax.reshape(lax.concatenate(sums, 0), kernel_shape)


def _padded(x: Value, pairs: Pairs, steps: Ints | None = None) -> Value:
    """`x` in memory of its own, with zeros around it, and between its elements."""
    steps = steps or (1,) * len(pairs)
    inner = [(*pair, step - 1) for pair, step in zip(pairs, steps, strict=True)]
    return lax.optimization_barrier(lax.pad(x, zero(x), [(0, 0, 0), *inner, (0, 0, 0)]))


def _repeated(x: Value, multiplier: int) -> Value:
    """Each channel `multiplier` times in a row."""
    return x if multiplier == 1 else jnp.repeat(x, multiplier, x.ndim - 1)


def windows_of(x: Value, at: Placement) -> Iterator[Value]:
    """For each place of a kernel, what is there in all windows over the padded `x`."""
    strides = [w.stride for w in at.windows]
    for place in np.ndindex(*[w.size for w in at.windows]):
        starts = [i * w.dilation for i, w in zip(place, at.windows, strict=True)]
        ends = zip(starts, at.counts, strides, strict=True)
        stops = [i + (n - 1) * s + 1 for i, n, s in ends]
        whole = (0, *starts, 0), (x.shape[0], *stops, x.shape[-1]), (1, *strides, 1)
        yield lax.slice(x, *whole)


def _sum_of_products(parts: Iterator[Value], kernel: Value) -> Value:
    rows = lax.reshape(kernel, (kernel.size // kernel.shape[-1], kernel.shape[-1]))
    terms = [part * rows[i] for i, part in enumerate(parts)]
    return lax.optimization_barrier(reduce(lax.add, terms))
