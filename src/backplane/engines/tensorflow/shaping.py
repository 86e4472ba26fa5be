"""Shaping, indexing, creation."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from backplane.engines.base import Table, Value, merge
from backplane.engines.tensorflow.constants import ints, number, shape_vector, sizes_of, vector
from backplane.engines.tensorflow.library import raw, tf

TABLE = Table()

Slices = tuple[tuple[int | None, int | None, int | None], ...]
_LARGEST = 2**31 - 1
_BROADCAST_RANK = 5


@TABLE.add("dim")
def dim(x: Value, *, axis: int) -> Value:
    """The size of an axis as an int32 scalar."""
    known = x.shape[axis]
    if known is not None:
        return ints(known)
    begin, end = ints((axis,)), ints((axis + 1,))
    return raw.StridedSlice(
        input=tf.shape(x), begin=begin, end=end, strides=ints((1,)), shrink_axis_mask=1
    )


@TABLE.add("reshape")
def reshape(x: Value, *dims: Value, shape: tuple[int | None, ...]) -> Value:
    """The elements in another shape."""
    return raw.Reshape(tensor=x, shape=shape_vector(shape, dims))


@TABLE.add("broadcast_to")
def broadcast_to(x: Value, *dims: Value, shape: tuple[int | None, ...]) -> Value:
    """X repeated to a larger shape."""
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


@TABLE.add("transpose")
def transpose(x: Value, *, perm: tuple[int, ...]) -> Value:
    """The axes in another order."""
    return raw.Transpose(x=x, perm=ints(perm))


@TABLE.add("expand_dims")
def expand_dims(x: Value, *, axes: tuple[int, ...]) -> Value:
    """New axes of size 1."""
    for axis in axes:
        x = raw.ExpandDims(input=x, axis=ints(axis))
    return x


@TABLE.add("squeeze")
def squeeze(x: Value, *, axes: tuple[int, ...]) -> Value:
    """Without some axes of size 1."""
    # No axes at all would mean all of them.
    return raw.Squeeze(input=x, axis=list(axes)) if axes else raw.Identity(input=x)


@TABLE.add("concat")
def concat(*xs: Value, axis: int) -> Value:
    """Tensors one after another along an axis."""
    return raw.ConcatV2(values=xs, axis=ints(axis)) if len(xs) > 1 else raw.Identity(input=xs[0])


@TABLE.add("flip")
def flip(x: Value, *, axes: tuple[int, ...]) -> Value:
    """The elements along axes in reverse order."""
    return raw.ReverseV2(tensor=x, axis=ints(axes))


@TABLE.add("pad")
def pad(x: Value, *, padding: tuple[tuple[int, int], ...], value: float) -> Value:
    """X with constants around it."""
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
def slice_(x: Value, *, slices: Slices) -> Value:
    """The elements that Python's slices select."""
    return raw.StridedSlice(input=x, **_bounds(slices)) if slices else raw.Identity(input=x)


@TABLE.add("slice_grad")
def slice_grad(g: Value, *dims: Value, shape: tuple[int | None, ...], slices: Slices) -> Value:
    """Zeros with g where the slices would read."""
    if not slices:
        return raw.Identity(input=g)
    return raw.StridedSliceGrad(shape=shape_vector(shape, dims), dy=g, **_bounds(slices))


# --- windows at positions that are computed ------------------------------------------------------


def _start(starts: Value, sizes: Value, window: Value) -> Value:
    """Starts moved so that the window lies inside."""
    starts = tf.cast(starts, tf.int32)
    return tf.maximum(tf.minimum(starts, sizes - window), tf.zeros_like(starts))


@TABLE.add("dynamic_slice")
def dynamic_slice(x: Value, starts: Value, *dims: Value, shape: tuple[int | None, ...]) -> Value:
    """The window of a shape that begins at `starts`."""
    window = shape_vector(shape, dims)
    return raw.Slice(input=x, begin=_start(starts, vector(sizes_of(x)), window), size=window)


@TABLE.add("dynamic_slice_grad")
def dynamic_slice_grad(
    g: Value, starts: Value, *dims: Value, shape: tuple[int | None, ...]
) -> Value:
    """Zeros with g in the window that begins at `starts`."""
    if not shape:
        return raw.Identity(input=g)
    sizes, window = shape_vector(shape, dims), vector(sizes_of(g))
    before = _start(starts, sizes, window)
    paddings = raw.Pack(values=[before, sizes - window - before], axis=1)
    return tf.ensure_shape(raw.Pad(input=g, paddings=paddings), shape)


# --- indices -------------------------------------------------------------------------------------


def _indices(indices: Value, size: Value) -> Value:
    """Indices of a dtype that the kernels take, negative ones counted from the end."""
    if indices.dtype in (tf.uint32, tf.uint64):
        return tf.cast(indices, tf.int64)
    if indices.dtype in (tf.uint8, tf.uint16):
        return tf.cast(indices, tf.int32)
    if indices.dtype in (tf.int8, tf.int16):
        indices = tf.cast(indices, tf.int32)
    dtype = indices.dtype
    size = number(size, dtype.name) if isinstance(size, int) else tf.cast(size, dtype)
    negative = raw.Less(x=indices, y=number(0, dtype.name))
    return raw.SelectV2(condition=negative, t=raw.AddV2(x=indices, y=size), e=indices)


@TABLE.add("gather")
def gather(x: Value, indices: Value, *, axis: int) -> Value:
    """The slices of x along an axis that the indices name."""
    size = x.shape[axis]
    indices = _indices(indices, dim(x, axis=axis) if size is None else size)
    return raw.GatherV2(params=x, indices=indices, axis=ints(axis))


@TABLE.add("scatter_add")
def scatter_add(
    g: Value, indices: Value, *dims: Value, shape: tuple[int | None, ...], axis: int
) -> Value:
    """Zeros with g added at the indices along an axis."""
    sizes = merge(shape, dims)
    if not indices.shape.rank:  # ScatterNd takes lists of indices only
        indices = raw.ExpandDims(input=indices, axis=ints(0))
        g = raw.ExpandDims(input=g, axis=ints(axis))
    where = raw.ExpandDims(input=_indices(indices, sizes[axis]), axis=ints(-1))
    if axis == 0:
        return _scatter(where, g, sizes)
    # ScatterNd indexes the first axis: bring the indexed ones to the front, and back.
    middle, rank = indices.shape.rank, len(shape)
    front = (*range(axis, axis + middle), *range(axis), *range(axis + middle, g.shape.rank))
    back = (*range(1, axis + 1), 0, *range(axis + 1, rank))
    moved = (sizes[axis], *sizes[:axis], *sizes[axis + 1 :])
    return transpose(_scatter(where, transpose(g, perm=front), moved), perm=back)


def _scatter(where: Value, g: Value, sizes: tuple[Value, ...]) -> Value:
    shape = tf.cast(vector(sizes), where.dtype)
    return raw.ScatterNd(indices=where, updates=g, shape=shape)


# --- creation ------------------------------------------------------------------------------------


@TABLE.add("full")
def full(*dims: Value, shape: tuple[int | None, ...], value: float, dtype: str) -> Value:
    """A constant everywhere."""
    scalar = number(value, dtype)
    return raw.Fill(dims=shape_vector(shape, dims), value=scalar) if shape else scalar


@TABLE.add("arange")
def arange(start: Value, stop: Value, step: Value, *, dtype: str) -> Value:
    """Evenly spaced numbers, none where stop lies behind start.

    `Range` refuses that case, knows few dtypes, and adds up the steps, which loses digits.
    """
    wide = tf.float64 if start.dtype.is_floating else tf.int64
    first, last, by = (tf.cast(v, wide) for v in (start, stop, step))
    count = tf.math.ceil((last - first) / by) if wide == tf.float64 else -((first - last) // by)
    count = tf.maximum(tf.cast(count, tf.int64), number(0, "int64"))
    steps = raw.Range(start=number(0, "int64"), limit=count, delta=number(1, "int64"))
    return tf.cast(first + by * tf.cast(steps, wide), dtype)
