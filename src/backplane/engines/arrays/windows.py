"""Windows over the spatial axes of (batch, *spatial, channels) arrays, for convolution and pooling.

A *tap* is one position inside the window; its view has one element for each place of the window.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache

import numpy as np
from numpy.lib.stride_tricks import as_strided

from backplane.engines.arrays.creation import pad
from backplane.engines.base import Padding, Value, resolve_padding

CACHE = 1 << 20
"""Bytes of scratch per block: a megabyte stays in the second-level cache, or nearly so. On one
processor blocks of 128 KB to 1 MB took the same time, on another half a megabyte took 1.05 of a
whole one; a whole batch at once took up to 1.6 times as much."""

Ints = tuple[int, ...]


class Windows:
    """Where a window goes over an array of `sizes` spatial elements."""

    def __init__(
        self,
        sizes: Ints,
        window: Ints,
        strides: Ints,
        dilation: Ints,
        padding: tuple[tuple[int, int], ...],
    ) -> None:
        self.sizes = sizes
        self.window = window
        self.strides = strides
        self.dilation = dilation
        self.padding = padding

    @staticmethod
    @lru_cache(maxsize=1024)
    def over(
        sizes: Ints,
        window: Ints,
        strides: Ints,
        padding: Padding,
        dilation: Ints | None = None,
    ) -> Windows:
        """With the padding resolved. Kept: working it out takes as long as a small product."""
        dilation = dilation or (1,) * len(sizes)
        pairs = resolve_padding(padding, sizes, window, strides, dilation)
        return Windows(sizes, window, strides, dilation, pairs)

    @cached_property
    def padded(self) -> Ints:
        """Spatial sizes with the padding."""
        return tuple([n + a + b for n, (a, b) in zip(self.sizes, self.padding, strict=True)])

    @cached_property
    def places(self) -> Ints:
        """How often the window fits along each axis: the spatial sizes of the result."""
        found = []
        for n, k, s, d in zip(self.padded, self.window, self.strides, self.dilation, strict=True):
            found.append(max((n - (k - 1) * d - 1) // s + 1, 0))
        return tuple(found)

    @cached_property
    def indices(self) -> list[tuple[slice, ...]]:
        """For each tap, in row-major order, what it reads of the padded array."""
        axes = zip(self.window, self.strides, self.dilation, self.places, strict=True)
        starts = [[slice(i * d, i * d + s * o, s) for i in range(k)] for k, s, d, o in axes]
        return [(slice(None), *index) for index in itertools.product(*starts)]

    def pad(self, x: Value, value: float = 0) -> Value:
        """`x` with its padding."""
        if not any(a or b for a, b in self.padding):
            return x
        return pad(x, padding=((0, 0), *self.padding, (0, 0)), value=value)

    def crop(self, x: Value) -> Value:
        """The inverse of `pad`."""
        if not any(a or b for a, b in self.padding):
            return x
        inner = [slice(a, a + n) for n, (a, _) in zip(self.sizes, self.padding, strict=True)]
        return x[(slice(None), *inner)]

    def taps(self, x: Value) -> Iterator[Value]:
        """For each tap, in row-major order, its view of the padded array `x`."""
        for index in self.indices:
            yield x[index]

    def view(self, x: Value) -> Value:
        """The padded array `x` as (batch, *places, *window, channels), without a copy."""
        batch, *steps, channel = x.strides
        shape = (len(x), *self.places, *self.window, x.shape[-1])
        between = [step * s for step, s in zip(steps, self.strides, strict=True)]
        within = [step * d for step, d in zip(steps, self.dilation, strict=True)]
        return as_strided(x, shape, (batch, *between, *within, channel), writeable=False)

    def blocks(self, batch: int, elements: int, itemsize: int) -> Iterator[tuple[slice, slice]]:
        """Indices of (batch, places[0]) that cut a result into blocks.

        Scratch of `elements` at each place of a block stays within `CACHE`: a block is several
        samples, or some rows of one.
        """
        first, *rest = self.places
        row = elements * itemsize * math.prod(rest)
        samples = CACHE // max(row * first, 1)
        if samples:
            for start in range(0, batch, samples):
                yield slice(start, start + samples), slice(None)
            return
        rows = max(CACHE // row, 1)
        for sample in range(batch):
            for start in range(0, first, rows):
                yield slice(sample, sample + 1), slice(start, start + rows)


def in_blas_dtype(x: Value) -> Value:
    """`x`, as float32 if it is float16, which BLAS does not know."""
    return x.astype(np.float32) if x.dtype == np.float16 else x


def split(x: Value, groups: int) -> Sequence[Value]:
    """Views of `x` for each group of channels."""
    return np.split(x, groups, -1)
