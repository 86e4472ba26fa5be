"""Shapes, slices, creation. All sizes are Python ints, also while JAX traces."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

from backplane.engines.base import Shape, Slices, Table, Value, host_shape

TABLE = Table(
    dim=lambda x, *, axis: x.shape[axis],
    reshape=lambda x, *dims, shape: jnp.reshape(x, host_shape(shape, dims)),
    broadcast_to=lambda x, *dims, shape: jnp.broadcast_to(x, host_shape(shape, dims)),
    transpose=lambda x, *, perm: lax.transpose(x, perm),
    expand_dims=lambda x, *, axes: lax.expand_dims(x, axes),
    squeeze=lambda x, *, axes: lax.squeeze(x, axes),
    concat=lambda *xs, axis: lax.concatenate(xs, axis),
    flip=lambda x, *, axes: lax.rev(x, axes),
    full=lambda *dims, shape, value, dtype: lax.full(host_shape(shape, dims), value, dtype),
    arange=lambda start, stop, step, *, dtype: jnp.arange(start, stop, step, dtype),
)


@TABLE.add("pad")
def _pad(x: Value, *, padding: tuple[tuple[int, int], ...], value: float) -> Value:
    """`lax.pad`."""
    return lax.pad(x, np.asarray(value, x.dtype), [(*pair, 0) for pair in padding])


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
