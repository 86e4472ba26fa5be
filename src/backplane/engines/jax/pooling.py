"""Pooling by slices: the elements of all windows that are at one place, one place after the other.

On a CPU this is up to six times as fast as `lax.reduce_window`, and the gradient up to forty times
as fast as `lax.select_and_scatter_add`, which JAX makes of the gradient of a maximum over windows:
0.4 instead of 14 ms for 2 × 2 windows of (32, 24, 24, 64) on one core.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from backplane.core.spec import neutral
from backplane.engines.jax.compiled import compiled, sized
from backplane.engines.jax.reductions import extreme
from backplane.engines.jax.windows import Windows, zero
from backplane.engines.table import Ints, Table, Value, check_windows

TABLE = Table(check_windows=check_windows)

_GIVEN = ("pool", "strides", "padding")

_largest = extreme(jnp.max)

LARGE = 64
"""Tiles of more elements than this are reduced as axes of their own, if positions are wanted. By
slices, maxima alone take a quarter to a half of the time."""


@TABLE.add("max_pool", wanted=True)
@compiled(*_GIVEN, "wanted")
def _max_pool(x: Value, *, wanted: tuple[bool, bool], **given: Any) -> list[Value | None]:
    """The maximum and its place in the window, numbered in row-major order. NaN is the largest."""
    windows = Windows(x.shape, **given)
    dtype = np.min_scalar_type(windows.elements - 1)
    if 0 in windows.counts:
        shape = (x.shape[0], *windows.counts, x.shape[-1])
        return [lax.full(shape, 0, x.dtype), lax.full(shape, 0, dtype)]
    tiles = wanted[1] and windows.tiled and windows.elements > LARGE
    find = _of_tiles if tiles else _of_slices
    y, positions = find(x, windows, dtype)
    return [y, positions if wanted[1] else None]


def _lowest(x: Value) -> Value:
    return np.asarray(neutral(x.dtype.name, "max"), x.dtype)


def _of_slices(x: Value, windows: Windows, dtype: np.dtype) -> tuple[Value, Value]:
    """Axis after axis, the last first: each row's first maximum, then the first such row."""
    y = windows.pad(x, _lowest(x))
    positions = jnp.zeros(y.shape, dtype)
    step = 1
    for axis in reversed(range(len(windows.window))):
        values, places = windows.along(y, axis), windows.along(positions, axis)
        y, positions = values[0], places[0]
        for i, (value, place) in enumerate(zip(values[1:], places[1:], strict=True), 1):
            larger = (value > y) | (value != value)
            y = jnp.where(larger, value, y)
            positions = jnp.where(larger, place + dtype.type(i * step), positions)
        step *= windows.window[axis]
    return y, positions


def _of_tiles(x: Value, windows: Windows, dtype: np.dtype) -> tuple[Value, Value]:
    tiles = windows.tiles(x, _lowest(x))
    y = _largest(tiles, axes=windows.inner, keepdims=False)
    is_largest = (tiles == windows.spread(y)) | (tiles != tiles)
    numbers = jnp.where(is_largest, windows.numbered(dtype), dtype.type(windows.elements - 1))
    return y, jnp.min(numbers, axis=windows.inner)


JOINED = range(9, 16)
"""Elements of windows that overlap strides apart for which XLA's sum of as many parts is slow on
processors: it computes each part anew for each element. 3 × 3 by 2 over (8, 55, 55, 64) took 46 ms,
decomposed 6; 2 × 3 takes half of the time decomposed, 4 × 4 a seventh (jaxlib 0.10.2)."""


def _is_slow(specs: Any, *, pool: Ints, strides: Ints, **given: Any) -> bool:
    overlap = any(size > step > 1 for size, step in zip(pool, strides, strict=True))
    return overlap and math.prod(pool) in JOINED and jax.default_backend() == "cpu"


@TABLE.add("max_pool_grad", reads=(0, 1, 3), unless=_is_slow)
@compiled(*_GIVEN)
def _max_pool_grad(g: Value, x: Value, y: None, positions: Value, **given: Any) -> Value:
    """`g` at the positions, zeros elsewhere. Only the shape of `x` is used."""
    windows = Windows(x.shape, **given)
    if 0 in windows.counts:
        return lax.full(x.shape, 0, g.dtype)
    if windows.tiled:
        here = windows.spread(positions) == windows.numbered(positions.dtype)
        return windows.untile(jnp.where(here, windows.spread(g), 0))
    parts = [
        windows.put(jnp.where(positions == i, g, 0), place)
        for i, place in enumerate(np.ndindex(windows.window))
    ]
    return windows.crop(reduce(lax.add, parts))


@TABLE.add("max_pool_take", reads=(0, 3))
@compiled(*_GIVEN)
def _max_pool_take(v: Value, x: None, y: None, positions: Value, **given: Any) -> Value:
    """The elements of `v` at the positions."""
    windows = Windows(v.shape, **given)
    if 0 in windows.counts:
        return lax.full(positions.shape, 0, v.dtype)
    if windows.tiled and windows.elements > LARGE:
        here = windows.spread(positions) == windows.numbered(positions.dtype)
        taken = jnp.where(here, windows.tiles(v, zero(v)), 0)
        return jnp.sum(taken, axis=windows.inner, dtype=v.dtype)
    v = windows.pad(v, zero(v))
    parts = [jnp.where(positions == i, v[index], 0) for i, index in enumerate(windows.indices)]
    return reduce(lax.add, parts)


def _has_tiles(shape: Any, given: Any) -> bool:
    """Whether windows lie side by side, without padding."""
    windows = None if None in shape[1:-1] else Windows(shape, **given)
    return windows is not None and windows.tiled and not windows.is_padded


# Other means take as long decomposed; those of large tiles up to five times as long.


@TABLE.add("avg_pool", unless=lambda specs, **given: not _has_tiles(specs[0].shape, given))
@compiled(*_GIVEN)
def _avg_pool(x: Value, **given: Any) -> Value:
    """The mean of the axes of a tile."""
    windows = Windows(x.shape, **given)
    return jnp.mean(windows.tiles(x, zero(x)), axis=windows.inner)


@TABLE.add("avg_pool_grad", unless=lambda specs, *, shape, **given: not _has_tiles(shape, given))
@sized(1, *_GIVEN)
def _avg_pool_grad(g: Value, *, shape: Ints, **given: Any) -> Value:
    """Each element of a window gets its share of `g`."""
    windows = Windows(shape, **given)
    return windows.untile(windows.spread(g / windows.elements))
