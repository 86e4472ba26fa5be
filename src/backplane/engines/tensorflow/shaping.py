"""Shapes, slices, creation."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from backplane.engines.base import Shape, Slices, Table, Value, merge
from backplane.engines.tensorflow.constants import (
    ints,
    number,
    shape_vector,
    size_of,
    sizes_of,
    vector,
)
from backplane.engines.tensorflow.library import raw, tf

_LARGEST = 2**31 - 1
_BROADCAST_RANK = 5

TABLE = Table(
    dim=size_of,
    reshape=lambda x, *dims, shape: raw.Reshape(tensor=x, shape=shape_vector(shape, dims)),
    transpose=lambda x, *, perm: raw.Transpose(x=x, perm=ints(perm)),
    flip=lambda x, *, axes: raw.ReverseV2(tensor=x, axis=ints(axes)),
)


@TABLE.add("broadcast_to")
def _broadcast_to(x: Value, *dims: Value, shape: Shape) -> Value:
    if len(shape) <= _BROADCAST_RANK:
        return raw.BroadcastTo(input=x, shape=shape_vector(shape, dims))
    # The kernel refuses shapes that alternate too often: one axis at a time.
    known, sizes = x.shape.as_list(), list(sizes_of(x))
    lead = len(shape) - len(sizes)
    for axis, wanted in enumerate(merge(shape, dims)[lead:]):
        if known[axis] is None or known[axis] == 1:
            sizes[axis] = wanted
            x = raw.BroadcastTo(input=x, shape=vector(sizes))
    return raw.BroadcastTo(input=x, shape=shape_vector(shape, dims)) if lead else x


@TABLE.add("expand_dims")
def _expand_dims(x: Value, *, axes: tuple[int, ...]) -> Value:
    for axis in axes:
        x = raw.ExpandDims(input=x, axis=ints(axis))
    return x


@TABLE.add("squeeze")
def _squeeze(x: Value, *, axes: tuple[int, ...]) -> Value:
    # No axes at all would mean all of them.
    return raw.Squeeze(input=x, axis=list(axes)) if axes else raw.Identity(input=x)


@TABLE.add("concat")
def _concat(*xs: Value, axis: int) -> Value:
    return raw.ConcatV2(values=xs, axis=ints(axis)) if len(xs) > 1 else raw.Identity(input=xs[0])


@TABLE.add("pad")
def _pad(x: Value, *, padding: tuple[tuple[int, int], ...], value: float) -> Value:
    if not padding:
        return raw.Identity(input=x)
    fill = number(value, x.dtype.name)
    return raw.PadV2(input=x, paddings=ints(padding), constant_values=fill)


# --- slices --------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def _bounds(slices: Slices) -> dict[str, Any]:
    """Arguments of `StridedSlice` for Python's slices."""
    clipped = [[max(min(i or 0, _LARGEST), -_LARGEST) for i in bounds[:2]] for bounds in slices]
    return {
        "begin": ints(tuple(start for start, _ in clipped)),
        "end": ints(tuple(stop for _, stop in clipped)),
        "strides": ints(tuple(step or 1 for _, _, step in slices)),
        "begin_mask": sum(1 << i for i, (start, _, _) in enumerate(slices) if start is None),
        "end_mask": sum(1 << i for i, (_, stop, _) in enumerate(slices) if stop is None),
    }


@TABLE.add("slice")
def _slice(x: Value, *, slices: Slices) -> Value:
    return raw.StridedSlice(input=x, **_bounds(slices)) if slices else raw.Identity(input=x)


@TABLE.add("slice_grad")
def _slice_grad(g: Value, *dims: Value, shape: Shape, slices: Slices) -> Value:
    """Zeros with `g` where the slices would read."""
    if not slices:
        return raw.Identity(input=g)
    return raw.StridedSliceGrad(shape=shape_vector(shape, dims), dy=g, **_bounds(slices))


# --- creation ------------------------------------------------------------------------------------


@TABLE.add("full")
def _full(*dims: Value, shape: Shape, value: float, dtype: str) -> Value:
    scalar = number(value, dtype)
    return raw.Fill(dims=shape_vector(shape, dims), value=scalar) if shape else scalar


@TABLE.add("arange")
def _arange(start: Value, stop: Value, step: Value, *, dtype: str) -> Value:
    """Evenly spaced numbers, none where `stop` lies behind `start`.

    `Range` refuses that case, knows few dtypes, and adds up the steps, which loses digits.
    """
    wide = tf.float64 if start.dtype.is_floating else tf.int64
    first, last, by = (tf.cast(v, wide) for v in (start, stop, step))
    count = tf.math.ceil((last - first) / by) if wide == tf.float64 else -((first - last) // by)
    count = tf.maximum(tf.cast(count, tf.int64), number(0, "int64"))
    steps = raw.Range(start=number(0, "int64"), limit=count, delta=number(1, "int64"))
    return tf.cast(first + by * tf.cast(steps, wide), dtype)
