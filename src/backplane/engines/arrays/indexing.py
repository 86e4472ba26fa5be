"""Indexing: by slices, and by values."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from importlib.util import find_spec
from operator import itemgetter

import numpy as np

from backplane.core.spec import Spec
from backplane.engines.arrays.elementwise import in_wide
from backplane.engines.table import (
    Lowering,
    Shape,
    Slices,
    Table,
    Value,
    host_shape,
    index_of,
    window_at,
)

TABLE = Table()


TABLE.build("slice", view=True)(lambda specs, *, slices: itemgetter(index_of(slices)))


@TABLE.build("slice_grad")
def _slice_grad(specs: Sequence[Spec], *, shape: Shape, slices: Slices) -> Lowering:
    index = index_of(slices)

    def slice_grad(g: Value, *dims: Value) -> Value:
        x = np.zeros(host_shape(shape, dims), g.dtype)
        x[index] = g
        return x

    return slice_grad


def signed(indices: Value) -> Value:
    """Indices in a type that NumPy casts to its own."""
    return indices.astype(np.int64) if indices.dtype == np.uint64 else indices


def checked_rows(indices: Value, size: int) -> Value:
    """The indices of rows in one line, none of them negative. IndexError if one has no row."""
    rows = signed(np.asarray(indices)).reshape(-1).astype(np.intp)
    wrong = rows[(rows < -size) | (rows >= size)]
    if wrong.size:
        raise IndexError(f"index {wrong[0]} is out of bounds for axis 0 with size {size}")
    return np.where(rows < 0, rows + size, rows)


@TABLE.build("gather")
def _gather(specs: Sequence[Spec], *, axis: int) -> Lowering:
    if specs[1].dtype == "uint64":
        return lambda x, indices: x.take(signed(indices), axis)
    return lambda x, indices: x.take(indices, axis)


@TABLE.build("head")
def _head(specs: Sequence[Spec], *, axis: int) -> Lowering:
    before = (slice(None),) * axis
    return lambda x, length: x[(*before, slice(length))]


@TABLE.add("scatter_add")
def _scatter_add(g: Value, indices: Value, *dims: Value, shape: Shape, axis: int) -> Value:
    sizes = host_shape(shape, dims)
    wide = axis == 0 and g.dtype.name in ("float32", "float64") and math.prod(sizes[1:]) > 1
    if wide and g.size >= LARGE and has_scipy():
        return _added_by_scipy(g, checked_rows(indices, sizes[0]), sizes)
    # `np.add.at` is 1.2 to 4 times as fast on one axis of single elements as on an axis of rows.
    blocks, rows, width = math.prod(sizes[:axis]), sizes[axis], math.prod(sizes[axis + 1 :])
    block = np.arange(blocks) * (rows * width)
    row = (np.arange(rows) * width).take(signed(np.asarray(indices)))  # raises out of bounds
    positions = block[:, None, None] + row.reshape(-1, 1) + np.arange(width)
    x = np.zeros(math.prod(sizes), in_wide(g.dtype))
    np.add.at(x, positions.reshape(-1), g.reshape(-1))
    return x.astype(g.dtype, copy=False).reshape(sizes)


LARGE = 4096
"""Elements from which on SciPy adds rows. 50,000 rows of 64 take it a sixth of the time."""


@functools.cache
def has_scipy() -> bool:
    """Whether SciPy is installed, which is no dependency."""
    return find_spec("scipy") is not None


def _added_by_scipy(g: Value, rows: Value, sizes: Sequence[int]) -> Value:
    """The product with a matrix that has a 1 in each column, in the row that `rows` names."""
    from scipy.sparse import csc_array  # Here: importing it takes a fifth of a second.

    parts = np.ones(len(rows), g.dtype), rows, np.arange(len(rows) + 1)
    matrix = csc_array(parts, shape=(sizes[0], len(rows)))
    return (matrix @ np.ascontiguousarray(g).reshape(len(rows), -1)).reshape(sizes)


_COMBINED = {"max": np.maximum, "min": np.minimum, "product": np.multiply}


@TABLE.add("scatter")
def _scatter(x: Value, indices: Value, updates: Value, *, by: str) -> Value:
    y = x.astype(in_wide(x.dtype))
    rows = checked_rows(indices, len(x))
    _COMBINED[by].at(y, rows, updates.reshape(-1, *x.shape[1:]).astype(y.dtype, copy=False))
    return y.astype(x.dtype, copy=False)


@TABLE.add("dynamic_slice")
def _dynamic_slice(x: Value, starts: Value, *dims: Value, shape: Shape) -> Value:
    return x[window_at(starts.tolist(), x.shape, host_shape(shape, dims))]


@TABLE.add("dynamic_slice_grad")
def _dynamic_slice_grad(g: Value, starts: Value, *dims: Value, shape: Shape) -> Value:
    x = np.zeros(host_shape(shape, dims), g.dtype)
    x[window_at(starts.tolist(), x.shape, g.shape)] = g
    return x
