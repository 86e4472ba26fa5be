"""Lowerings: shapes and creation. All sizes are Python ints, also while MLX traces."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter

import mlx.core as mx
import numpy as np

from backplane.core.spec import Spec
from backplane.engines.mlx.values import MLX, from_numpy, number, scalar
from backplane.engines.table import Lowering, Shape, Table, Value, host_shape, reversing

TABLE = Table(
    dim=lambda x, *, axis: x.shape[axis],
    reshape=lambda x, *dims, shape: mx.reshape(x, host_shape(shape, dims)),
    broadcast_to=lambda x, *dims, shape: mx.broadcast_to(x, host_shape(shape, dims)),
    transpose=lambda x, *, perm: mx.transpose(x, perm),
    expand_dims=lambda x, *, axes: mx.expand_dims(x, axes),
    squeeze=lambda x, *, axes: mx.squeeze(x, axes),
    concat=lambda *xs, axis: mx.concatenate(xs, axis),
)

TABLE.build("flip")(lambda specs, *, axes: itemgetter(reversing(specs[0].ndim, axes)))


@TABLE.build("pad")
def pad(specs: Sequence[Spec], *, padding: tuple[tuple[int, int], ...], value: float) -> Lowering:
    """`mx.pad`."""
    if not padding:
        return lambda x: x
    constant = scalar(value, specs[0].dtype)
    return lambda x: mx.pad(x, padding, constant_values=constant)


@TABLE.build("full")
def full(specs: Sequence[Spec], *, shape: Shape, value: float, dtype: str) -> Lowering:
    """`mx.full`."""
    constant = scalar(value, dtype)
    return lambda *dims: mx.full(host_shape(shape, dims), constant, MLX[dtype])


@TABLE.add("arange")
def arange(start: Value, stop: Value, step: Value, *, dtype: str) -> Value:
    """`np.arange`, because the operands are numbers of the host."""
    work = "float32" if dtype == "bfloat16" else dtype
    return from_numpy(np.arange(number(start), number(stop), number(step), dtype=work), dtype)
