"""Shapes and creation."""

from __future__ import annotations

from collections.abc import Sequence

import pytensor.tensor as pt

from backplane.engines.pytensor.library import number, shuffled, size, sizes, vector, zeros
from backplane.engines.table import Shape, Table, Value, reversing

TABLE = Table(
    broadcast_to=lambda x, *dims, shape: pt.alloc(x, *sizes(shape, dims)),
    transpose=lambda x, *, perm: shuffled(x, perm),
    squeeze=lambda x, *, axes: pt.squeeze(x, axis=axes),
    flip=lambda x, *, axes: x[reversing(x.ndim, axes)],
    arange=lambda start, stop, step, *, dtype: pt.arange(start, stop, step, dtype=dtype),
)


@TABLE.add("dim")
def dim(x: Value, *, axis: int) -> Value:
    """The size of an axis."""
    known = x.type.shape[axis]
    return pt.cast(size(x, axis), "int32") if known is None else number(known, "int32")


@TABLE.add("reshape")
def reshape(x: Value, *dims: Value, shape: Shape) -> Value:
    """The same elements in another shape."""
    if 0 in shape and dims:
        # PyTensor would divide by the known size, to find the unknown one.
        return zeros(shape, dims, x.dtype)
    return pt.reshape(x, vector(shape, dims), ndim=len(shape))


@TABLE.add("expand_dims")
def expand_dims(x: Value, *, axes: tuple[int, ...]) -> Value:
    """Axes of size 1 added."""
    axis = iter(range(x.ndim))
    return shuffled(x, tuple(["x" if i in axes else next(axis) for i in range(x.ndim + len(axes))]))


@TABLE.add("concat")
def concat(*xs: Value, axis: int) -> Value:
    """Joined along an axis. Of one operand, PyTensor would give that operand itself."""
    return pt.concatenate(xs, axis=axis) if len(xs) > 1 else pt.tensor_copy(xs[0])


@TABLE.add("pad")
def pad(x: Value, *, padding: Sequence[tuple[int, int]], value: float) -> Value:
    """A border of constant value."""
    known = zip(x.type.shape, padding, strict=True)
    shape = tuple([None if n is None else n + a + b for n, (a, b) in known])
    dims = [size(x, i) + sum(padding[i]) for i, n in enumerate(shape) if n is None]
    border = pt.alloc(number(value, x.dtype), *sizes(shape, dims))
    inner = [slice(before or None, -after if after else None) for before, after in padding]
    return pt.set_subtensor(border[tuple(inner)], x)


@TABLE.add("full")
def full(*dims: Value, shape: Shape, value: float, dtype: str) -> Value:
    """A constant fill."""
    filling = number(value, dtype)
    return pt.alloc(filling, *sizes(shape, dims)) if shape else filling
