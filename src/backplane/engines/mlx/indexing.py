"""Lowerings: slices, and indexing by values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from operator import itemgetter
from typing import Any

import mlx.core as mx
import numpy as np

from backplane.core.spec import Spec, is_float, neutral
from backplane.engines.mlx.elementwise import masked
from backplane.engines.mlx.values import from_numpy, scalar
from backplane.engines.table import Lowering, Shape, Slices, Table, Value, host_shape, index_of

TABLE = Table()


TABLE.build("slice")(lambda specs, *, slices: itemgetter(index_of(slices)))


@TABLE.build("slice_grad")
def slice_grad(specs: Sequence[Spec], *, shape: Shape, slices: Slices) -> Lowering:
    """Zeros with a slice replaced: MLX's tape follows such an assignment."""
    key = index_of(slices)

    def lowering(g: Value, *dims: Value) -> Value:
        x = mx.zeros(host_shape(shape, dims), g.dtype)
        x[key] = g
        return x

    return lowering


def _clamped(starts: Value, sizes: Sequence[int], part: Sequence[int]) -> Value:
    """Starts such that `part` elements from there lie inside `sizes`."""
    last = from_numpy(np.subtract(sizes, part), "int64")
    return mx.clip(starts.astype(mx.int64), 0, last).astype(mx.int32)


@TABLE.add("dynamic_slice")
def dynamic_slice(x: Value, starts: Value, *dims: Value, shape: Shape) -> Value:
    """`mx.slice`, which does not check where it reads: the starts are moved before."""
    sizes = host_shape(shape, dims)
    if not sizes:
        return x
    return mx.slice(x, _clamped(starts, x.shape, sizes), tuple(range(x.ndim)), sizes)


@TABLE.add("dynamic_slice_grad")
def dynamic_slice_grad(g: Value, starts: Value, *dims: Value, shape: Shape) -> Value:
    """`mx.slice_update`."""
    sizes = host_shape(shape, dims)
    if not sizes:
        return g
    zeros = mx.zeros(sizes, g.dtype)
    return mx.slice_update(zeros, g, _clamped(starts, sizes, g.shape), tuple(range(g.ndim)))


def _inside(indices: Value, size: int) -> tuple[Value, Value]:
    """The mask of indices that lie inside of an axis, and the indices with 0 for the others."""
    valid = (indices < size) if indices.dtype in UNSIGNED else (indices < size) & (indices >= -size)
    return valid, mx.where(valid, indices, mx.zeros_like(indices))


UNSIGNED = (mx.uint8, mx.uint16, mx.uint32, mx.uint64)


@TABLE.build("gather")
def gather(specs: Sequence[Spec], *, axis: int) -> Lowering:
    """`mx.take`, but NaN or the least integer at wrong indices, where it reads any memory."""
    dtype = specs[0].dtype
    missing = scalar(_missing(dtype), dtype)
    # It changes no float that it is added to, and a sum takes a fifth of the time of `mx.where`.
    nothing = scalar(-0.0, dtype)

    def lowering(x: Value, indices: Value) -> Value:
        size = x.shape[axis]
        if not size:
            shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
            return mx.full(shape, missing, x.dtype)
        valid, safe = _inside(indices, size)
        taken = mx.take(x, safe, axis)
        if is_float(dtype):
            return taken + _along(mx.where(valid, nothing, missing), taken.ndim, axis)
        return mx.where(_along(valid, taken.ndim, axis), taken, missing)

    return lowering


def _missing(dtype: str) -> float:
    if is_float(dtype):
        return math.nan
    return 0 if dtype == "bool" else int(np.iinfo(dtype).min)


def _along(valid: Value, rank: int, axis: int) -> Value:
    """`valid` with axes for what is indexed by it."""
    return mx.reshape(valid, (*valid.shape, *[1] * (rank - axis - valid.ndim)))


@TABLE.add("scatter_add")
def scatter_add(g: Value, indices: Value, *dims: Value, shape: Shape, axis: int) -> Value:
    """`array.at[…].add`, which writes to any memory at an index out of range: 0 is added
    elsewhere. It ends the process if there is no element.
    """
    return _added(mx.zeros(host_shape(shape, dims), g.dtype), g, indices, axis)


@TABLE.add("rows_add")
def rows_add(x: Value, g: Value, indices: Value) -> Value:
    """The same on `x` in the place of zeros."""
    return _added(x, g, indices, 0)


def _added(x: Value, g: Value, indices: Value, axis: int) -> Value:
    if not x.size or not g.size:
        return x
    valid, safe = _inside(indices, x.shape[axis])
    given = masked(g, _along(valid, g.ndim, axis))
    with _scattering(x):
        return x.at[(*[slice(None)] * axis, safe)].add(given)


def _scattering(x: Value) -> AbstractContextManager[Any]:
    """The device on which elements of `x` are written: GPUs have no such kernels of 64 bits."""
    return mx.stream(mx.cpu) if x.dtype.size == 8 else nullcontext()


@TABLE.add("rows_set")
def rows_set(x: Value, rows: Value, indices: Value) -> Value:
    """An assignment to a copy, which leaves indices out of range away."""
    if not x.size or not rows.size:
        return x
    valid, safe = _inside(indices, x.shape[0])
    y = mx.array(x)
    with _scattering(x):
        y[safe] = mx.where(_along(valid, rows.ndim, 0), rows, mx.take(x, safe, 0))
    return y


@TABLE.build("scatter")
def scatter(specs: Sequence[Spec], *, by: str) -> Lowering:
    """`array.at[…].maximum`, `minimum` or `multiply`. At an index out of range they would write to
    any memory: what changes nothing goes to the first row instead.
    """
    name = {"max": "maximum", "min": "minimum", "product": "multiply"}[by]
    nothing = scalar(neutral(specs[0].dtype, by), specs[0].dtype)

    def lowering(x: Value, indices: Value, updates: Value) -> Value:
        if not x.size or not updates.size:
            return x * mx.ones((), x.dtype)  # in memory of its own
        valid, safe = _inside(indices, x.shape[0])
        given = mx.where(_along(valid, updates.ndim, 0), updates, nothing)
        with _scattering(x):
            return getattr(x.at[safe], name)(given)

    return lowering
