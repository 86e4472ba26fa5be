"""Lowerings: max-pooling and its gradients. Means are decomposed.

MLX has no kernels for windows. One place in all windows is a strided slice, so that a window of
3 × 3 takes nine slices. For the gradient the places of the maxima are kept, numbered in row-major
order.
"""

from __future__ import annotations

from typing import Unpack

import mlx.core as mx

from backplane.core.spec import neutral
from backplane.core.windows import Ints, Pooling, WindowGrid
from backplane.engines.mlx.elementwise import masked
from backplane.engines.mlx.values import NAMES
from backplane.engines.table import Table, Value

TABLE = Table()


def _placed(sizes: Ints, at: Pooling) -> WindowGrid:
    return WindowGrid.of(sizes, at["pool"], at["strides"], at["padding"])


def _padded(x: Value, grid: WindowGrid, value: float) -> Value:
    if not grid.is_padded:
        return x
    constant = mx.array(value, x.dtype)
    return mx.pad(x, grid.around, constant_values=constant)


@TABLE.add("max_pool", wanted=True)
def max_pool(x: Value, *, wanted: tuple[bool, ...], **at: Unpack[Pooling]) -> list[Value]:
    """The maxima, and at which place of its window each of them is, if anybody asks."""
    grid = _placed(x.shape[1:-1], at)
    if 0 in grid.counts:
        y = mx.zeros((x.shape[0], *grid.counts, x.shape[-1]), x.dtype)
        return [y, mx.zeros(y.shape, mx.uint16)]
    x = _padded(x, grid, neutral(NAMES[x.dtype], "max"))
    if not wanted[1]:
        return [_maxima(x, grid), None]
    y, *parts = [x[index] for index in grid.indices]
    positions = mx.zeros(y.shape, mx.uint16)
    for i, part in enumerate(parts, 1):
        # A later place has a larger number. This is five times as fast as `mx.where`.
        positions = mx.maximum(positions, (part > y).astype(mx.uint16) * i)
        y = mx.maximum(y, part)
    return [y, positions]


def _maxima(x: Value, grid: WindowGrid) -> Value:
    """The maxima of a padded tensor, axis by axis."""
    for axis, w in enumerate(grid.windows, 1):
        before = (slice(None),) * axis
        first, *others = [x[(*before, slice(*w.part(i)))] for i in range(w.size)]
        for part in others:
            first = mx.maximum(first, part)
        x = first
    return x


@TABLE.add("max_pool_grad", reads=(0, 1, 3))
def max_pool_grad(g: Value, x: Value, _y: None, positions: Value, **at: Unpack[Pooling]) -> Value:
    """`g` added at the places of the maxima."""
    grid = _placed(x.shape[1:-1], at)
    total = mx.zeros((x.shape[0], *grid.padded, x.shape[-1]), g.dtype)
    if g.size:
        for i, key in enumerate(grid.indices):
            total[key] = total[key] + masked(g, positions == i)
    return total[grid.inside]


@TABLE.add("max_pool_take", reads=(0, 3))
def max_pool_take(v: Value, _x: None, _y: None, positions: Value, **at: Unpack[Pooling]) -> Value:
    """`v` read at the places of the maxima."""
    grid = _placed(v.shape[1:-1], at)
    v = _padded(v, grid, 0)
    taken = mx.zeros(positions.shape, v.dtype)
    for i, key in enumerate(grid.indices):
        taken = taken + masked(v[key], positions == i)
    return taken
