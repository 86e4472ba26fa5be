"""Windows over the spatial axes of (batch, *spatial, channels) arrays, for convolution and pooling.

A *tap* is one position inside the window; its view has one element for each window.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.lib.stride_tricks import as_strided

from backplane.core.windows import WindowGrid
from backplane.engines.arrays.elementwise import in_wide
from backplane.engines.arrays.shaping import pad
from backplane.engines.table import Value

CACHE = 1 << 20
"""Bytes of scratch per block: a megabyte stays in the second-level cache, or nearly so. On one
processor blocks of 128 KB to 1 MB took the same time, on another half a megabyte took 1.05 of a
whole one; a whole batch at once took up to 1.6 times as much."""


Block = tuple[slice, slice]
"""An index of samples, and of rows of their images."""


class Windows(WindowGrid):
    """Windows with their views of arrays."""

    def pad(self, x: Value, value: float = 0) -> Value:
        """`x` with its padding."""
        if not self.is_padded:
            return x
        return pad(x, padding=self.around, value=value)

    def crop(self, x: Value) -> Value:
        """The inverse of `pad`."""
        return x[self.inside] if self.is_padded else x

    def taps(self, x: Value) -> Iterator[Value]:
        """For each tap, in row-major order, its view of the padded array `x`."""
        for index in self.indices:
            yield x[index]

    def view(self, x: Value) -> Value:
        """The padded array `x` as (batch, *counts, *window, channels), without a copy."""
        batch, *steps, channel = x.strides
        shape = (len(x), *self.counts, *[w.size for w in self.windows], x.shape[-1])
        between = [step * w.stride for step, w in zip(steps, self.windows, strict=True)]
        within = [step * w.dilation for step, w in zip(steps, self.windows, strict=True)]
        return as_strided(x, shape, (batch, *between, *within, channel), writeable=False)

    def blocks(self, batch: int, elements: int, itemsize: int) -> Iterator[Block]:
        """Indices of (batch, counts[0]) that cut a result into blocks.

        Scratch of `elements` at each window of a block stays within `CACHE`: a block is several
        samples, or some rows of one.
        """
        first, *rest = self.counts
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

    def parts(self, whole: Value, elements: int) -> Iterator[tuple[Block, Value, Value]]:
        """The blocks of an array: index, part, and scratch memory that all share."""
        scratch = None
        for block in self.blocks(len(whole), elements, whole.itemsize):
            part = whole[block]
            if scratch is None or scratch.shape != part.shape:
                scratch = np.empty(part.shape, whole.dtype)
            yield block, part, scratch


def in_blas_dtype(x: Value) -> Value:
    """`x`, as float32 if it is in half precision."""
    return x.astype(in_wide(x.dtype), copy=False)


def split(x: Value, groups: int) -> Sequence[Value]:
    """Views of `x` for each group of channels."""
    return np.split(x, groups, -1)
