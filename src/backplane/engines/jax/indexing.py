"""Slices, and elements and windows at positions that a program computes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from backplane.engines.jax import memory
from backplane.engines.jax.compiled import compiled, sized
from backplane.engines.jax.fast import sorting
from backplane.engines.table import Ints, Shape, Slices, Table, Value, host_shape

TABLE = Table()


@TABLE.add("slice")
def _slice(x: Value, *, slices: Slices) -> Value:
    """`lax.slice`."""
    spans = [slice(*s).indices(n) for s, n in zip(slices, x.shape, strict=True)]
    starts, stops, steps = zip(*spans, strict=True) if spans else ((), (), ())
    return lax.slice(x, starts, [max(a, b) for a, b in zip(starts, stops, strict=True)], steps)


@TABLE.add("slice_grad")
def _slice_grad(g: Value, *dims: Value, shape: Shape, slices: Slices) -> Value:
    """`lax.pad`: zeros before, after and, for the steps, between."""
    config = []
    for s, n, size in zip(slices, host_shape(shape, dims), g.shape, strict=True):
        start, _, step = slice(*s).indices(n)
        end = start + (size - 1) * step + 1 if size else start
        config.append((start, n - end, step - 1))
    return lax.pad(g, np.zeros((), g.dtype), config)


@TABLE.add("gather")
def _gather(x: Value, indices: Value, *, axis: int) -> Value:
    """`jnp.take`. An index out of range gives NaN, or the extreme value of an integer type.
    `_with_nan` does so faster for floats.

    JAX cuts indices to 32 bits, so 2**40 would become 0. They are clipped before.
    """
    if indices.dtype.itemsize > 4 or indices.dtype.name == "uint32":
        least = 0 if indices.dtype.kind == "u" else -(2**31)
        indices = jnp.clip(indices, least, 2**31 - 1).astype("int32")
    if not indices.size:  # of an empty axis `take` gives another shape
        return lax.full((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]), 0, x.dtype)
    floats = jnp.issubdtype(x.dtype, jnp.floating)
    return _with_nan(x, indices, axis) if floats else jnp.take(x, indices, axis=axis)


@partial(jax.custom_jvp, nondiff_argnums=(2,))
def _with_nan(x: Value, indices: Value, axis: int) -> Value:
    """`jnp.take`, in which a row that does not exist gets the bits of NaN."""
    size = x.shape[axis]
    places = jnp.where(indices < 0, indices + size, indices)
    nan = np.array(np.nan, x.dtype).view(f"uint{x.dtype.itemsize * 8}")
    bits = jnp.where((places >= 0) & (places < size), np.zeros_like(nan), nan)
    bits = bits.reshape(*indices.shape, *[1] * (x.ndim - 1 - axis))
    rows = jnp.take(x, places, axis=axis, mode="clip")
    return lax.bitcast_convert_type(lax.bitcast_convert_type(rows, nan.dtype) | bits, x.dtype)


@_with_nan.defjvp
def _with_nan_tangent(axis: int, primals: Sequence[Value], tangents: Sequence[Value]) -> Value:
    """The derivative by `x`: a row that does not exist has none."""
    x, indices = primals
    slope = jnp.take(tangents[0], indices, axis=axis, mode="fill", fill_value=0)
    return _with_nan(x, indices, axis), slope


@TABLE.add("scatter_add")
@sized(2, "axis")
def _scatter_add(g: Value, indices: Value, *, shape: Ints, axis: int) -> Value:
    """`x.at[…].add`, which leaves indices out of range away."""
    return lax.full(shape, 0, g.dtype).at[(slice(None),) * axis + (indices,)].add(g)


@TABLE.add("rows_add")
def _rows_add(x: Value, g: Value, indices: Value) -> Value:
    """`x.at[…].add`. If `x` is a variable that the program replaces, XLA writes to its memory."""
    return x.at[indices].add(g)


@TABLE.add("merged_rows")
def _merged_rows(g: Value, indices: Value, *, size: int) -> list[Value]:
    """Each index once, and then `size`, which names no row: JAX leaves it away."""
    count = indices.size
    if not count:
        return [g.reshape(0, *g.shape[indices.ndim :]), jnp.zeros(0, "int32")]
    with memory.wide():
        wide = indices.reshape(-1).astype("int64")
        inside = (wide >= -size) & (wide < size)
        wide = jnp.where(inside, jnp.where(wide < 0, wide + size, wide), size)
        order, positions = sorting.in_order(wide.astype("int32"))
    starts = jnp.concatenate([jnp.zeros(1, bool), order[1:] != order[:-1]])
    places = lax.associative_scan(jnp.add, starts.astype("int32"))
    rows = g.reshape(count, *g.shape[indices.ndim :])[positions]
    sums = jnp.zeros_like(rows).at[places].add(rows, indices_are_sorted=True)
    once = jnp.full(count, size, "int32").at[places].set(order, indices_are_sorted=True)
    return [sums, once]


@TABLE.add("rows_set")
def _rows_set(x: Value, rows: Value, indices: Value) -> Value:
    """`x.at[…].set`, which leaves indices out of range away. It writes as `rows_add` does."""
    return x.at[indices].set(rows)


@TABLE.add("scatter")
@compiled("by")
def _scatter(x: Value, indices: Value, updates: Value, *, by: str) -> Value:
    """`x.at[…].max`, `min` or `multiply`."""
    if by == "product":
        return _times(x, indices, updates)
    rows = x.at[indices]
    return rows.max(updates) if by == "max" else rows.min(updates)


@jax.custom_vjp
def _times(x: Value, indices: Value, updates: Value) -> Value:
    """JAX itself differentiates such products only where no index is repeated."""
    return x.at[indices].multiply(updates)


def _times_backward(kept: tuple[Value, ...], g: Value) -> tuple[Value, None, Value]:
    """The product of the other factors, from the number of zeros and the product of the rest."""
    x, indices, updates = kept
    zero, is_zero = x == 0, updates == 0
    factors, others = jnp.where(zero, 1, x), jnp.where(is_zero, 1, updates)
    zeros = zero.astype("int32").at[indices].add(is_zero.astype("int32"))
    product = g * _times(factors, indices, others)
    to_x = jnp.where(zeros == zero, product / factors, 0)
    alone = zeros[indices] == is_zero
    return to_x, None, jnp.where(alone, product[indices] / others, 0)


_times.defvjp(lambda *operands: (_times(*operands), operands), _times_backward)


@TABLE.add("dynamic_slice")
@sized(2)
def _dynamic_slice(x: Value, starts: Value, *, shape: Ints) -> Value:
    """`lax.dynamic_slice` clamps the starts; it must not count negative ones from the end."""
    return lax.dynamic_slice(x, jnp.maximum(starts, 0), shape, allow_negative_indices=False)


@TABLE.add("dynamic_slice_grad")
@sized(2)
def _dynamic_slice_grad(g: Value, starts: Value, *, shape: Ints) -> Value:
    """`lax.dynamic_update_slice` clamps alike."""
    zeros, starts = lax.full(shape, 0, g.dtype), jnp.maximum(starts, 0)
    return lax.dynamic_update_slice(zeros, g, starts, allow_negative_indices=False)


@TABLE.add("head")
def _head(x: Value, length: Value, *, axis: int) -> Value:
    """All of `x` while JAX traces: there no size follows from a value."""
    if isinstance(length, jax.core.Tracer):
        return x
    return lax.slice_in_dim(x, 0, int(length), axis=axis)
