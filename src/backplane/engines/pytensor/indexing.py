"""Slices, and elements at positions that a program computes."""

from __future__ import annotations

import pytensor.tensor as pt

from backplane.engines.pytensor.library import zeros
from backplane.engines.table import Shape, Slices, Table, Value, index_of

TABLE = Table(
    slice=lambda x, *, slices: x[index_of(slices)],
    head=lambda x, length, *, axis: x[(slice(None),) * axis + (slice(length),)],
)


@TABLE.add("slice_grad")
def slice_grad(g: Value, *dims: Value, shape: Shape, slices: Slices) -> Value:
    """Zeros with `g` where the slices read."""
    return pt.set_subtensor(zeros(shape, dims, g.dtype)[index_of(slices)], g)


@TABLE.add("gather")
def gather(x: Value, indices: Value, *, axis: int) -> Value:
    """The slices of `x` along an axis that `indices` name."""
    if indices.dtype == "uint64":
        indices = pt.cast(indices, "int64")
    return x[(slice(None),) * axis + (indices,)]
