"""Windows over the spatial axes of (batch, *spatial, channels), as slices and as tiles."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
from jax import lax

from backplane.core.windows import Padding, WindowGrid, windows
from backplane.engines.table import Ints, Value

Pairs = Sequence[tuple[int, int]]


def pad_spatial(
    x: Value, value: Value, pairs: Pairs, strides: Sequence[int] | None = None
) -> Value:
    """Pad the spatial axes, and with `strides` between the elements too. Negative amounts cut."""
    steps = strides or (1,) * len(pairs)
    inner = [(*pair, step - 1) for pair, step in zip(pairs, steps, strict=True)]
    return lax.pad(x, value, [(0, 0, 0), *inner, (0, 0, 0)])


def zero(x: Value) -> Value:
    """The number 0 in the dtype of `x`."""
    return np.zeros((), x.dtype)


class Windows(WindowGrid):
    """The positions of the windows of one call.

    Attributes:
        window: Their sizes.
        strides: Their steps. Where an axis has a single window, any step would do. It is the size
            of the window then, so that the window counts as a tile.
        tiled: Whether the windows neither overlap nor leave gaps.
    """

    def __init__(self, shape: Ints, pool: Ints, strides: Ints, padding: Padding) -> None:
        super().__init__(shape[1:-1], tuple(windows(pool, strides, padding)))
        self.window = pool
        spans = zip(self.windows, self.counts, strict=True)
        self.strides = tuple([w.span if n == 1 else w.stride for w, n in spans])
        self.tiled = self.strides == pool

    def pad(self, x: Value, value: Value) -> Value:
        """`x` with the padding."""
        return pad_spatial(x, value, self.pairs)

    def crop(self, x: Value) -> Value:
        """`x` without the padding."""
        return x[self.inside]

    # --- as slices: the elements of all windows that are at one place -----------------------------

    def along(self, x: Value, axis: int) -> list[Value]:
        """For each place along one axis of the padded `x`, the elements there."""
        n, k, s = self.counts[axis], self.window[axis], self.strides[axis]
        return [lax.slice_in_dim(x, i, i + (n - 1) * s + 1, s, axis + 1) for i in range(k)]

    def put(self, v: Value, place: Ints) -> Value:
        """Zeros of the padded sizes with `v` at `place` of all windows."""
        ends = zip(place, self.padded, self.counts, self.strides, strict=True)
        pairs = [(i, size - i - (n - 1) * s - 1) for i, size, n, s in ends]
        return pad_spatial(v, zero(v), pairs, self.strides)

    # --- as tiles: (batch, *(window, place) per axis, channels) -----------------------------------

    @property
    def inner(self) -> Ints:
        """The axes of places."""
        return tuple(range(2, 2 + 2 * len(self.window), 2))

    def tiles(self, x: Value, value: Value) -> Value:
        """`x` with its padding, as tiles."""
        covered = self._covered()
        ends = zip(self.sizes, self.pairs, covered, strict=True)
        pairs = [(a, total - n - a) for n, (a, _), total in ends]
        return lax.reshape(pad_spatial(x, value, pairs), self._tiles_of(x))

    def untile(self, tiles: Value) -> Value:
        """Tiles put together to the shape of `x`, with zeros where no tile is."""
        covered = self._covered()
        x = lax.reshape(tiles, (tiles.shape[0], *covered, tiles.shape[-1]))
        ends = zip(self.sizes, self.pairs, covered, strict=True)
        return pad_spatial(x, zero(x), [(-a, n + a - total) for n, (a, _), total in ends])

    def spread(self, y: Value) -> Value:
        """One value per window, at all places of its tile."""
        axes = [i for i in range(len(self._tiles_of(y))) if i not in self.inner]
        return lax.broadcast_in_dim(y, self._tiles_of(y), axes)

    def numbered(self, dtype: np.dtype) -> Value:
        """The places of a tile, numbered in row-major order; to be broadcast over tiles."""
        shape = list(chain.from_iterable((1, k) for k in self.window))
        return np.arange(self.elements).reshape(1, *shape, 1).astype(dtype)

    def _covered(self) -> list[int]:
        return [n * k for n, k in zip(self.counts, self.window, strict=True)]

    def _tiles_of(self, x: Value) -> Ints:
        split = chain.from_iterable(zip(self.counts, self.window, strict=True))
        return (x.shape[0], *split, x.shape[-1])
