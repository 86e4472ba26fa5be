"""Rows in order on a CPU: XLA sorts one array of int64, in which a key stands before its position,
in a fifth of the time of two arrays of 32 bits (512 rows of 64 numbers: 0.87 ms instead of 4.2).
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from backplane.engines.jax import memory
from backplane.engines.table import Value

_PLACES = 31
"""Bits of a position. An axis of more elements would take 16 GiB for these arrays alone."""


def in_order(keys: Value) -> tuple[Value, Value]:
    """Integers of at most 32 bits in ascending order along the last axis, and their positions
    before (int32). Equal ones keep their order.
    """
    with memory.wide():
        places = lax.broadcasted_iota("int64", keys.shape, keys.ndim - 1)
        found = lax.sort((keys.astype("int64") << _PLACES) | places, is_stable=False)
        return (found >> _PLACES).astype(keys.dtype), (found & (2**_PLACES - 1)).astype("int32")


def as_integers(x: Value) -> Value:
    """Integers in the order of `x`, numbers of at most 32 bits. Zeros are equal, and NaN last."""
    if not jnp.issubdtype(x.dtype, jnp.floating):
        return x
    x = lax.stop_gradient(x).astype("float32")
    x = jnp.where(jnp.isnan(x), jnp.float32(jnp.nan), jnp.where(x == 0, jnp.float32(0), x))
    bits = lax.bitcast_convert_type(x, "int32")
    return jnp.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
