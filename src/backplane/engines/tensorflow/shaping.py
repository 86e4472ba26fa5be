"""Shapes and creation."""

from __future__ import annotations

from backplane.engines.table import Shape, Table, Value, merge
from backplane.engines.tensorflow.constants import (
    ints,
    number,
    shape_vector,
    size_of,
    sizes_of,
    vector,
)
from backplane.engines.tensorflow.library import raw, tf

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
