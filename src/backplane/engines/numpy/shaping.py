"""Shaping, indexing and creation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter, methodcaller
from typing import Any

import numpy as np

from backplane.core.spec import Spec
from backplane.engines.base import Lowering, Table, Value, host_shape, merge

TABLE = Table()

Sizes = tuple[int | None, ...]
Slices = tuple[tuple[int | None, int | None, int | None], ...]

# Scalar operands may be sizes, which are Python ints on this engine: those lowerings that can meet
# one use NumPy's functions for it, which take any number. Methods are three times as fast to call.


@TABLE.add("dim")
def _dim(x: Value, *, axis: int) -> int:
    size: int = x.shape[axis]
    return size


@TABLE.build("reshape")
def _reshape(specs: Sequence[Spec], *, shape: Sizes) -> Lowering:
    if specs[0].ndim == 0:
        return lambda x, *dims: np.reshape(x, host_shape(shape, dims))
    if None not in shape:
        return methodcaller("reshape", shape)
    return lambda x, *dims: x.reshape(merge(shape, dims))


@TABLE.build("broadcast_to")
def _broadcast_to(specs: Sequence[Spec], *, shape: Sizes) -> Lowering:
    return lambda x, *dims: np.broadcast_to(x, host_shape(shape, dims))


@TABLE.build("transpose")
def _transpose(specs: Sequence[Spec], *, perm: tuple[int, ...]) -> Lowering:
    return methodcaller("transpose", perm)


@TABLE.build("expand_dims")
def _expand_dims(specs: Sequence[Spec], *, axes: tuple[int, ...]) -> Lowering:
    if specs[0].ndim == 0:
        return partial(np.expand_dims, axis=axes)
    rank = specs[0].ndim + len(axes)
    return itemgetter(tuple([None if i in axes else slice(None) for i in range(rank)]))


@TABLE.build("squeeze")
def _squeeze(specs: Sequence[Spec], *, axes: tuple[int, ...]) -> Lowering:
    return methodcaller("squeeze", axes)


@TABLE.build("concat")
def _concat(specs: Sequence[Spec], *, axis: int) -> Lowering:
    return lambda *xs: np.concatenate(xs, axis)


def _index(slices: Slices) -> tuple[slice, ...]:
    return tuple([slice(*s) for s in slices])


@TABLE.build("slice")
def _slice(specs: Sequence[Spec], *, slices: Slices) -> Lowering:
    return itemgetter(_index(slices))


@TABLE.build("slice_grad")
def _slice_grad(specs: Sequence[Spec], *, shape: Sizes, slices: Slices) -> Lowering:
    index = _index(slices)

    def slice_grad(g: Value, *dims: Value) -> Value:
        x = np.zeros(host_shape(shape, dims), g.dtype)
        x[index] = g
        return x

    return slice_grad


@TABLE.build("flip")
def _flip(specs: Sequence[Spec], *, axes: tuple[int, ...]) -> Lowering:
    back, whole = slice(None, None, -1), slice(None)
    return itemgetter(tuple([back if i in axes else whole for i in range(specs[0].ndim)]))


@TABLE.add("pad")
def pad(x: Value, *, padding: Sequence[tuple[int, int]], value: float) -> Value:
    """`x` between (before, after) elements of `value` per axis. `np.pad` takes 20 µs a call."""
    shape = [before + n + after for n, (before, after) in zip(x.shape, padding, strict=True)]
    y = _filled(shape, value, x.dtype)
    inner = [slice(before, before + n) for n, (before, _) in zip(x.shape, padding, strict=True)]
    y[tuple(inner)] = x
    return y


# --- indexing by values --------------------------------------------------------------------------


def _signed(indices: Value) -> Value:
    """Indices in a type that NumPy casts to its own."""
    return indices.astype(np.int64) if indices.dtype == np.uint64 else indices


@TABLE.build("gather")
def _gather(specs: Sequence[Spec], *, axis: int) -> Lowering:
    if specs[1].dtype == "uint64":
        return lambda x, indices: x.take(_signed(indices), axis)
    return lambda x, indices: x.take(indices, axis)


@TABLE.add("scatter_add")
def _scatter_add(g: Value, indices: Value, *dims: Value, shape: Sizes, axis: int) -> Value:
    # `np.add.at` is 1.2 to 4 times as fast on one axis of single elements as on an axis of rows.
    sizes = host_shape(shape, dims)
    blocks, rows, width = math.prod(sizes[:axis]), sizes[axis], math.prod(sizes[axis + 1 :])
    block = np.arange(blocks) * (rows * width)
    row = (np.arange(rows) * width).take(_signed(np.asarray(indices)))  # raises out of bounds
    positions = block[:, None, None] + row.reshape(-1, 1) + np.arange(width)
    x = np.zeros(math.prod(sizes), np.float32 if g.dtype == np.float16 else g.dtype)
    np.add.at(x, positions.reshape(-1), g.reshape(-1))
    return x.astype(g.dtype, copy=False).reshape(sizes)


def _window(sizes: Sequence[int], starts: Value, shape: Sequence[int]) -> tuple[slice, ...]:
    """Slices of lengths `shape` from `starts` on, moved to lie inside `sizes`."""
    firsts = [min(max(s, 0), n - m) for s, n, m in zip(starts.tolist(), sizes, shape, strict=True)]
    return tuple([slice(s, s + m) for s, m in zip(firsts, shape, strict=True)])


@TABLE.add("dynamic_slice")
def _dynamic_slice(x: Value, starts: Value, *dims: Value, shape: Sizes) -> Value:
    return x[_window(x.shape, starts, host_shape(shape, dims))]


@TABLE.add("dynamic_slice_grad")
def _dynamic_slice_grad(g: Value, starts: Value, *dims: Value, shape: Sizes) -> Value:
    x = np.zeros(host_shape(shape, dims), g.dtype)
    x[_window(x.shape, starts, g.shape)] = g
    return x


# --- creation ------------------------------------------------------------------------------------


def _filled(shape: Sequence[int], value: float, dtype: Any) -> Value:
    """`np.full`, which takes twice as long for few elements; memory often comes zeroed."""
    if value == 0:
        return np.zeros(shape, dtype)
    y = np.empty(shape, dtype)
    y.fill(value)
    return y


@TABLE.build("full")
def _full(specs: Sequence[Spec], *, shape: Sizes, value: float, dtype: str) -> Lowering:
    kind = np.dtype(dtype)
    if shape == ():
        scalar = kind.type(value)
        return lambda: scalar
    make: Callable[..., Value] = (
        partial(np.zeros, dtype=kind) if value == 0 else partial(_filled, value=value, dtype=kind)
    )
    return lambda *dims: make(host_shape(shape, dims))


@TABLE.add("arange")
def _arange(start: Value, stop: Value, step: Value, *, dtype: str) -> Value:
    return np.arange(start, stop, step, dtype=dtype)
