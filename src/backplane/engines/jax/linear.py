"""The matrix product."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax
from jax.experimental.sparse import BCSR

from backplane.engines.jax.compiled import compiled
from backplane.engines.table import Table, Value

TABLE = Table()


@TABLE.add("matmul")
@compiled("transpose_x", "transpose_y")
def _matmul(x: Value, y: Value, *, transpose_x: bool, transpose_y: bool) -> Value:
    """`lax.dot_general`: a swap of axes only changes which of them are contracted."""
    if x.shape[:-2] != y.shape[:-2]:
        batch = jnp.broadcast_shapes(x.shape[:-2], y.shape[:-2])
        x, y = (jnp.broadcast_to(t, (*batch, *t.shape[-2:])) for t in (x, y))
    last = x.ndim - 1
    contracted = ((last - 1 if transpose_x else last,), (last if transpose_y else last - 1,))
    axes = tuple(range(last - 1))
    return lax.dot_general(x, y, (contracted, (axes, axes)))


@TABLE.add("rows_matmul", unless=lambda specs: specs[0].dtype not in ("float32", "float64"))
@compiled()
def _rows_matmul(
    values: Value, columns: Value, offsets: Value, rows: Value, across: Value, y: Value
) -> Value:
    """The product of a `BCSR`, in two thirds of the time of sums of segments."""
    shape = len(offsets) - 1, len(across)
    return BCSR((values, columns, offsets), shape=shape) @ y
