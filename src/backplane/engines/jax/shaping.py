"""Shapes, indices, creation. All sizes are Python ints, also while JAX traces."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from backplane.engines.base import Table, Value, host_shape
from backplane.engines.jax.kernel import kernel

Shape = tuple[int | None, ...]
Slices = tuple[tuple[int | None, int | None, int], ...]

TABLE = Table()


@TABLE.add("dim")
def dim(x: Value, *, axis: int) -> int:
    """A host value."""
    return x.shape[axis]


@TABLE.add("reshape")
def reshape(x: Value, *dims: Value, shape: Shape) -> Value:
    """`jnp.reshape`, which knows -1."""
    return jnp.reshape(x, host_shape(shape, dims))


@TABLE.add("broadcast_to")
def broadcast_to(x: Value, *dims: Value, shape: Shape) -> Value:
    """`jnp.broadcast_to`."""
    return jnp.broadcast_to(x, host_shape(shape, dims))


@TABLE.add("transpose")
def transpose(x: Value, *, perm: tuple[int, ...]) -> Value:
    """`lax.transpose`."""
    return lax.transpose(x, perm)


@TABLE.add("expand_dims")
def expand_dims(x: Value, *, axes: tuple[int, ...]) -> Value:
    """`lax.expand_dims`."""
    return lax.expand_dims(x, axes)


@TABLE.add("squeeze")
def squeeze(x: Value, *, axes: tuple[int, ...]) -> Value:
    """`lax.squeeze`."""
    return lax.squeeze(x, axes)


@TABLE.add("concat")
def concat(*xs: Value, axis: int) -> Value:
    """`lax.concatenate`."""
    return lax.concatenate(xs, axis)


@TABLE.add("flip")
def flip(x: Value, *, axes: tuple[int, ...]) -> Value:
    """`lax.rev`."""
    return lax.rev(x, axes)


@TABLE.add("pad")
def pad(x: Value, *, padding: tuple[tuple[int, int], ...], value: float) -> Value:
    """`lax.pad`."""
    return lax.pad(x, np.asarray(value, x.dtype), [(*pair, 0) for pair in padding])


# --- slices ---------------------------------------------------------------------------------------


@TABLE.add("slice")
def slice_(x: Value, *, slices: Slices) -> Value:
    """`lax.slice`."""
    spans = [slice(*s).indices(n) for s, n in zip(slices, x.shape, strict=True)]
    starts, stops, steps = zip(*spans, strict=True) if spans else ((), (), ())
    return lax.slice(x, starts, [max(a, b) for a, b in zip(starts, stops, strict=True)], steps)


@TABLE.add("slice_grad")
def slice_grad(g: Value, *dims: Value, shape: Shape, slices: Slices) -> Value:
    """`lax.pad`: zeros before, after and, for the steps, between."""
    config = []
    for s, n, size in zip(slices, host_shape(shape, dims), g.shape, strict=True):
        start, _, step = slice(*s).indices(n)
        end = start + (size - 1) * step + 1 if size else start
        config.append((start, n - end, step - 1))
    return lax.pad(g, np.zeros((), g.dtype), config)


@TABLE.add("dynamic_slice")
def dynamic_slice(x: Value, starts: Value, *dims: Value, shape: Shape) -> Value:
    """`lax.dynamic_slice` clamps the starts; it must not count negative ones from the end."""
    return _dynamic_slice(x, starts, shape=host_shape(shape, dims))


@kernel("shape")
def _dynamic_slice(x: Value, starts: Value, *, shape: tuple[int, ...]) -> Value:
    return lax.dynamic_slice(x, jnp.maximum(starts, 0), shape, allow_negative_indices=False)


@TABLE.add("dynamic_slice_grad")
def dynamic_slice_grad(g: Value, starts: Value, *dims: Value, shape: Shape) -> Value:
    """`lax.dynamic_update_slice` clamps alike."""
    return _dynamic_slice_grad(g, starts, shape=host_shape(shape, dims))


@kernel("shape")
def _dynamic_slice_grad(g: Value, starts: Value, *, shape: tuple[int, ...]) -> Value:
    zeros = lax.full(shape, 0, g.dtype)
    starts = jnp.maximum(starts, 0)
    return lax.dynamic_update_slice(zeros, g, starts, allow_negative_indices=False)


@TABLE.add("head")
def head(x: Value, length: Value, *, axis: int) -> Value:
    """All of `x` while JAX traces: there no size follows from a value."""
    if isinstance(length, jax.core.Tracer):
        return x
    return lax.slice_in_dim(x, 0, int(length), axis=axis)


# --- indices --------------------------------------------------------------------------------------


@TABLE.add("gather")
def gather(x: Value, indices: Value, *, axis: int) -> Value:
    """`jnp.take`. An index out of range gives NaN, or the extreme value of an integer type."""
    return jnp.take(x, indices, axis=axis)


@TABLE.add("scatter_add")
def scatter_add(g: Value, indices: Value, *dims: Value, shape: Shape, axis: int) -> Value:
    """`x.at[…].add`, which leaves indices out of range away."""
    return _scatter_add(g, indices, shape=host_shape(shape, dims), axis=axis)


@kernel("shape", "axis")
def _scatter_add(g: Value, indices: Value, *, shape: tuple[int, ...], axis: int) -> Value:
    return lax.full(shape, 0, g.dtype).at[(slice(None),) * axis + (indices,)].add(g)


# --- creation -------------------------------------------------------------------------------------


@TABLE.add("full")
def full(*dims: Value, shape: Shape, value: Any, dtype: str) -> Value:
    """`lax.full`."""
    return lax.full(host_shape(shape, dims), value, dtype)


@TABLE.add("arange")
def arange(start: Any, stop: Any, step: Any, *, dtype: str) -> Value:
    """`jnp.arange` of numbers of the host."""
    return jnp.arange(start, stop, step, dtype)
