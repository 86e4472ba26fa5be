"""Shapes and creation. All sizes are Python ints, also while JAX traces."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

from backplane.engines.table import Table, Value, host_shape

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
