"""Shaping, indexing and creation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter, methodcaller

import numpy as np

from backplane.core.spec import Spec
from backplane.engines.arrays.creation import filled, pad
from backplane.engines.arrays.indexing import signed
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


@TABLE.build("concat", into=True)
def _concat(specs: Sequence[Spec], *, axis: int) -> Lowering:
    return lambda *xs, out=None: np.concatenate(xs, axis, out=out)


def _index(slices: Slices) -> tuple[slice, ...]:
    return tuple([slice(*s) for s in slices])


@TABLE.build("slice", view=True)
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


TABLE.add("pad")(pad)


# --- indexing by values --------------------------------------------------------------------------


@TABLE.build("gather")
def _gather(specs: Sequence[Spec], *, axis: int) -> Lowering:
    if specs[1].dtype == "uint64":
        return lambda x, indices: x.take(signed(indices), axis)
    return lambda x, indices: x.take(indices, axis)


@TABLE.build("head")
def _head(specs: Sequence[Spec], *, axis: int) -> Lowering:
    before = (slice(None),) * axis
    return lambda x, length: x[(*before, slice(length))]


# --- creation ------------------------------------------------------------------------------------


@TABLE.build("full")
def _full(specs: Sequence[Spec], *, shape: Sizes, value: float, dtype: str) -> Lowering:
    kind = np.dtype(dtype)
    if shape == ():
        scalar = kind.type(value)
        return lambda: scalar
    make: Callable[..., Value] = (
        partial(np.zeros, dtype=kind) if value == 0 else partial(filled, value=value, dtype=kind)
    )
    return lambda *dims: make(host_shape(shape, dims))


@TABLE.add("arange")
def _arange(start: Value, stop: Value, step: Value, *, dtype: str) -> Value:
    return np.arange(start, stop, step, dtype=dtype)
