"""PyTensor's values: types from specs, constants, sizes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.shape import Shape_i

from backplane.core.spec import Spec
from backplane.engines.table import Value, merge


def type_of(spec: Spec) -> Any:
    """The tensor type of a spec."""
    return pt.TensorType(spec.dtype, spec.shape)


def spec_of(value: Value) -> Spec:
    """The spec of a variable."""
    return Spec(tuple(value.type.shape), value.type.dtype)


@lru_cache(maxsize=1024)
def number(value: float, dtype: str) -> Value:
    """A constant without axes. Python numbers would become the smallest type that holds them."""
    return pt.constant(np.asarray(value).astype(dtype))


@lru_cache(maxsize=1024)
def _shuffle(ndim: int, order: tuple[int | str, ...]) -> Any:
    return DimShuffle(input_ndim=ndim, new_order=order)


def shuffled(x: Value, order: tuple[int | str, ...]) -> Value:
    """The axes of `x` in an order, `"x"` for a new one; the operations are made once."""
    return _shuffle(x.type.ndim, order)(x)


def size(x: Value, axis: int) -> Value:
    """The size of an axis: an int64 scalar, constant where the type knows it."""
    known = x.type.shape[axis]
    return Shape_i(axis)(x) if known is None else number(known, "int64")


def sizes(shape: Sequence[int | None], dims: Sequence[Value]) -> list[Value]:
    """One scalar per axis: `shape` with its unknown sizes taken from `dims`."""
    return [number(n, "int64") if isinstance(n, int) else n for n in merge(shape, dims)]


def vector(shape: Sequence[int | None], dims: Sequence[Value]) -> Value:
    """The same as a vector of int64."""
    if None not in shape:
        return pt.constant(np.array(shape, np.int64))
    return pt.basic.MakeVector("int64")(*[pt.cast(n, "int64") for n in sizes(shape, dims)])


def zeros(shape: Sequence[int | None], dims: Sequence[Value], dtype: str) -> Value:
    """Zeros of a shape."""
    return pt.alloc(number(0, dtype), *sizes(shape, dims))


def with_shape(x: Value, shape: Sequence[int | None]) -> Value:
    """`x` with what `shape` knows of its sizes added to its type."""
    pairs = zip(x.type.shape, shape, strict=True)
    if all(known == wanted or wanted is None for known, wanted in pairs):
        return x
    return pt.specify_shape(x, shape)
