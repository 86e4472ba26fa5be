"""Shaping, joining, and making arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from operator import itemgetter, methodcaller
from typing import Any

import numpy as np

from backplane.core.spec import Spec
from backplane.engines.table import Lowering, Shape, Table, Value, host_shape, merge, reversing

TABLE = Table(
    arange=lambda start, stop, step, *, dtype: np.arange(start, stop, step, dtype=dtype),
)


# Scalar operands may be sizes, which are Python ints on this engine: those lowerings that can meet
# one use NumPy's functions for it, which take any number. Methods are three times as fast to call.


TABLE.add("dim")(lambda x, *, axis: x.shape[axis])


@TABLE.build("reshape")
def _reshape(specs: Sequence[Spec], *, shape: Shape) -> Lowering:
    if specs[0].ndim == 0:
        return lambda x, *dims: np.reshape(x, host_shape(shape, dims))
    if None not in shape:
        return methodcaller("reshape", shape)
    return lambda x, *dims: x.reshape(merge(shape, dims))


@TABLE.build("broadcast_to")
def _broadcast_to(specs: Sequence[Spec], *, shape: Shape) -> Lowering:
    return lambda x, *dims: np.broadcast_to(x, host_shape(shape, dims))


TABLE.build("transpose")(lambda specs, *, perm: methodcaller("transpose", perm))
TABLE.build("squeeze")(lambda specs, *, axes: methodcaller("squeeze", axes))


@TABLE.build("expand_dims")
def _expand_dims(specs: Sequence[Spec], *, axes: tuple[int, ...]) -> Lowering:
    if specs[0].ndim == 0:
        return partial(np.expand_dims, axis=axes)
    rank = specs[0].ndim + len(axes)
    return itemgetter(tuple([None if i in axes else slice(None) for i in range(rank)]))


@TABLE.build("concat", into=True)
def _concat(specs: Sequence[Spec], *, axis: int) -> Lowering:
    return lambda *xs, out=None: np.concatenate(xs, axis, out=out)


TABLE.build("flip")(lambda specs, *, axes: itemgetter(reversing(specs[0].ndim, axes)))


# --- creation ------------------------------------------------------------------------------------


def filled(shape: Sequence[int], value: float, dtype: Any) -> Value:
    """`np.full`, which takes twice as long for few elements; memory often comes zeroed."""
    if value == 0 and math.copysign(1, value) > 0:
        return np.zeros(shape, dtype)
    y = np.empty(shape, dtype)
    y.fill(value)
    return y


@TABLE.add("pad")
def pad(x: Value, *, padding: Sequence[tuple[int, int]], value: float) -> Value:
    """`x` between (before, after) elements of `value` per axis. `np.pad` takes 20 µs a call."""
    shape = [before + n + after for n, (before, after) in zip(x.shape, padding, strict=True)]
    y = filled(shape, value, x.dtype)
    inner = [slice(before, before + n) for n, (before, _) in zip(x.shape, padding, strict=True)]
    y[tuple(inner)] = x
    return y


@TABLE.build("full")
def _full(specs: Sequence[Spec], *, shape: Shape, value: float, dtype: str) -> Lowering:
    kind = np.dtype(dtype)
    if shape == ():
        scalar = kind.type(value)
        return lambda: scalar
    return lambda *dims: filled(host_shape(shape, dims), value, kind)
