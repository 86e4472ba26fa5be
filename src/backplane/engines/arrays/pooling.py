"""Pooling: one vectorised step for each tap of the window, on blocks of samples that stay in the
cache from one tap to the next.

The positions of `max_pool` are the numbers of the winning taps, in the smallest type that fits.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Unpack

import numpy as np

from backplane.core.spec import neutral
from backplane.core.windows import Ints, Pooling
from backplane.engines.arrays.elementwise import masked
from backplane.engines.arrays.windows import CACHE, Windows
from backplane.engines.table import Table, Value

TABLE = Table()


def _windows(shape: Ints, at: Pooling) -> Windows:
    return Windows.of(shape[1:-1], at["pool"], at["strides"], at["padding"])


@TABLE.add("max_pool", wanted=True)
def _max_pool(
    x: Value, *, wanted: tuple[bool, ...] = (True, True), **at: Unpack[Pooling]
) -> list[Value]:
    windows = _windows(x.shape, at)
    first, *taps = windows.taps(windows.pad(x, neutral(x.dtype.name, "max")))
    y = np.empty(first.shape, x.dtype)
    number = np.min_scalar_type(windows.elements).type
    positions = np.empty(y.shape, number) if wanted[1] else None
    start = _first_inside(windows)[..., None] if windows.is_padded else number(0)
    for block in _samples(y):
        part = y[block]
        part[...] = first[block]
        if positions is None:
            for tap in taps:
                np.maximum(part, tap[block], out=part)
            continue
        winners = positions[block]
        winners[...] = start
        for i, tap in enumerate(taps, 1):
            # A later tap has the higher number and takes over only where it is truly greater.
            greater = (tap[block] > part).view(np.uint8)
            np.maximum(winners, greater * number(i), out=winners)
            np.maximum(part, tap[block], out=part)
    return [y, positions]


def _samples(y: Value) -> Iterator[slice]:
    """Slices of the batch of a result, such that some arrays of their size stay in the cache."""
    step = max(CACHE // 4 * len(y) // max(y.nbytes, 1), 1)
    for start in range(0, len(y), step):
        yield slice(start, start + step)


@lru_cache
def _first_inside(windows: Windows) -> Value:
    """For each place, the first tap that reads no padding: the winner where all are -inf."""
    inside = windows.pad(np.ones((1, *windows.sizes, 1), np.bool_))
    taps = np.stack(list(windows.taps(inside)))
    return taps.argmax(0)[..., 0]


@TABLE.add("max_pool_grad", reads=(0, 1, 3))
def _max_pool_grad(g: Value, x: Value, y: Value, positions: Value, **at: Unpack[Pooling]) -> Value:
    windows = _windows(x.shape, at)
    axes = list(zip(windows.windows, windows.counts, windows.padded, strict=True))
    apart = all(w.size <= w.stride for w, _, _ in axes)
    shape = (len(x), *windows.padded, x.shape[-1])
    covered = all(w.size * count == n for w, count, n in axes)
    result = np.empty(shape, g.dtype) if apart and covered else np.zeros(shape, g.dtype)
    taps = list(windows.taps(result))
    for block in _samples(g):
        part, winners = g[block], positions[block]
        for i, tap in enumerate(taps):
            if apart:  # no place is in two windows
                masked(winners == i, part, tap[block])
            else:
                tap[block] += masked(winners == i, part)
    return windows.crop(result)


@TABLE.add("max_pool_take", reads=(0, 3))
def _max_pool_take(v: Value, x: Value, y: Value, positions: Value, **at: Unpack[Pooling]) -> Value:
    windows = _windows(v.shape, at)
    result = np.zeros(positions.shape, v.dtype)
    taps = list(windows.taps(windows.pad(v)))
    for block in _samples(result):
        for i, tap in enumerate(taps):
            result[block] += masked(positions[block] == i, tap[block])
    return result
