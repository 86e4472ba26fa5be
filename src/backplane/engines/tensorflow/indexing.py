"""Slices, and elements and windows at positions that a program computes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from backplane.core.spec import Spec
from backplane.engines.table import Ints, Shape, Slices, Table, Value, merge
from backplane.engines.tensorflow.constants import (
    ints,
    number,
    shape_vector,
    size_of,
    sizes_of,
    vector,
)
from backplane.engines.tensorflow.library import HALVES, raw, tf

TABLE = Table()

_LARGEST = 2**31 - 1


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


@TABLE.add("split")
def _split(x: Value, *, axis: int, sizes: Ints) -> list[Value]:
    if len(set(sizes)) == 1:
        return list(raw.Split(axis=ints(axis), value=x, num_split=len(sizes)))
    parts = raw.SplitV(value=x, size_splits=ints(sizes), axis=ints(axis), num_split=len(sizes))
    return list(parts)


@TABLE.add("slice_grad")
def _slice_grad(g: Value, *dims: Value, shape: Shape, slices: Slices) -> Value:
    """Zeros with `g` where the slices would read."""
    if not slices:
        return raw.Identity(input=g)
    return raw.StridedSliceGrad(shape=shape_vector(shape, dims), dy=g, **_bounds(slices))


def _start(starts: Value, sizes: Value, window: Value) -> Value:
    """Starts moved so that the window lies inside."""
    starts = tf.cast(starts, tf.int32)
    return tf.maximum(tf.minimum(starts, sizes - window), tf.zeros_like(starts))


@TABLE.add("dynamic_slice")
def _dynamic_slice(x: Value, starts: Value, *dims: Value, shape: Shape) -> Value:
    """The window of a shape that begins at `starts`."""
    window = shape_vector(shape, dims)
    return raw.Slice(input=x, begin=_start(starts, vector(sizes_of(x)), window), size=window)


@TABLE.add("dynamic_slice_grad")
def _dynamic_slice_grad(g: Value, starts: Value, *dims: Value, shape: Shape) -> Value:
    """Zeros with `g` in the window that begins at `starts`."""
    if not shape:
        return raw.Identity(input=g)
    sizes, window = shape_vector(shape, dims), vector(sizes_of(g))
    before = _start(starts, sizes, window)
    paddings = raw.Pack(values=[before, sizes - window - before], axis=1)
    return tf.ensure_shape(raw.Pad(input=g, paddings=paddings), shape)


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


class Rows(NamedTuple):
    """A table that lives in a variable, in the place of the tensor that it holds: only the rows
    that are asked for are read. Sums for some rows are remembered, and added when all has been
    read.
    """

    handle: Value
    spec: Spec
    changes: tuple[tuple[Any, Value, Value], ...] = ()
    """A kernel, indices, none of them negative, and what is added to their rows or takes their
    place."""

    def lookup(self, indices: Value) -> Value:
        """The rows at the indices."""
        return self._read(_indices(indices, self.spec.shape[0]))

    def _read(self, where: Value) -> Value:
        rows = raw.ResourceGather(resource=self.handle, indices=where, dtype=self.spec.dtype)
        rows.set_shape(where.shape.concatenate(self.spec.shape[1:]))
        return rows

    def plus(self, g: Value, indices: Value) -> Rows:
        """The table with `g` added to its rows at the indices."""
        where = _indices(indices, self.spec.shape[0])
        return self._replace(changes=(*self.changes, (raw.ResourceScatterAdd, where, g)))

    def put(self, rows: Value, where: Value) -> Rows:
        """The table with other rows at indices, none of which is negative."""
        return self._replace(changes=(*self.changes, (raw.ResourceScatterUpdate, where, rows)))

    def checks(self) -> list[Value]:
        """Operations that fail if `write` would: by indices behind the end, or where memory is
        short. TensorFlow copies a table that somebody holds when the first sum is added to it,
        also if that sum has no rows.
        """
        nothing = tf.zeros((0, *self.spec.shape[1:]), self.spec.dtype)
        raw.ResourceScatterAdd(resource=self.handle, indices=ints(()), updates=nothing)
        return [self._read(where) for _, where, _ in self.changes] + [g for *_, g in self.changes]

    def write(self) -> None:
        """Do what was remembered, in the memory of the table."""
        for kernel, where, g in self.changes:
            kernel(resource=self.handle, indices=where, updates=g)


@TABLE.add("gather")
def _gather(x: Value, indices: Value, *, axis: int) -> Value:
    """The slices of `x` along an axis that the indices name."""
    if isinstance(x, Rows):
        return x.lookup(indices)
    size = x.shape[axis]
    indices = _indices(indices, size_of(x, axis=axis) if size is None else size)
    return raw.GatherV2(params=x, indices=indices, axis=ints(axis))


@TABLE.add("scatter_add")
def _scatter_add(g: Value, indices: Value, *dims: Value, shape: Shape, axis: int) -> Value:
    """Zeros with `g` added at the indices along an axis. `ScatterNd` would refuse empty results."""
    size = merge(shape, dims)[axis]
    where = _indices(indices, size)
    # The kernel passes over negative numbers; behind the end is an error.
    size = number(size, where.dtype.name) if isinstance(size, int) else tf.cast(size, where.dtype)
    negative = raw.Less(x=where, y=number(0, where.dtype.name))
    where = raw.SelectV2(condition=negative, t=size, e=where)
    if axis == 0:
        return raw.UnsortedSegmentSum(data=g, segment_ids=where, num_segments=size)
    # The kernel indexes the first axis: bring the indexed ones to the front, and back.
    middle, rank = indices.shape.rank, len(shape)
    front = (*range(axis, axis + middle), *range(axis), *range(axis + middle, g.shape.rank))
    back = (*range(1, axis + 1), 0, *range(axis + 1, rank))
    g = raw.Transpose(x=g, perm=ints(front))
    y = raw.UnsortedSegmentSum(data=g, segment_ids=where, num_segments=size)
    return raw.Transpose(x=y, perm=ints(back))


@TABLE.add("rows_add")
def _rows_add(x: Value, g: Value, indices: Value) -> Value:
    """`x` with `g` added at the indices along the first axis."""
    if isinstance(x, Rows):
        return x.plus(g, indices)
    if 0 in x.shape[1:]:  # The kernel refuses rows without elements.
        return x
    if not indices.shape.rank:  # The kernel takes lists of indices only.
        indices = raw.ExpandDims(input=indices, axis=ints(0))
        g = raw.ExpandDims(input=g, axis=ints(0))
    where = raw.ExpandDims(input=_indices(indices, x.shape[0]), axis=ints(-1))
    return raw.TensorScatterAdd(tensor=x, indices=where, updates=g)


@TABLE.add("merged_rows")
def _merged_rows(g: Value, indices: Value, *, size: int) -> list[Value]:
    """Each index once."""
    flat = raw.Reshape(tensor=_indices(indices, size), shape=ints((-1,)))
    rows = raw.Reshape(tensor=g, shape=ints((-1, *g.shape[indices.shape.rank :])))
    once, places = raw.Unique(x=flat, out_idx=tf.int32)
    sums = raw.UnsortedSegmentSum(data=rows, segment_ids=places, num_segments=raw.Size(input=once))
    return [sums, tf.cast(once, tf.int32)]


@TABLE.add("rows_set")
def _rows_set(x: Value, rows: Value, indices: Value) -> Value:
    """`x` with other rows at the indices."""
    if isinstance(x, Rows):
        return x.put(rows, indices)
    where = raw.ExpandDims(input=indices, axis=ints(-1))
    return raw.TensorScatterUpdate(tensor=x, indices=where, updates=rows)


@TABLE.add("scatter")
def _scatter(x: Value, indices: Value, updates: Value, *, by: str) -> Value:
    """Maxima and minima in a copy of `x`; products, which no kernel does in place, by segments."""
    size = size_of(x, axis=0) if x.shape[0] is None else x.shape[0]
    where = _indices(indices, size)
    if by == "product":
        if x.dtype in HALVES:
            wide = [raw.Cast(x=t, DstT=tf.float32) for t in (x, updates)]
            return raw.Cast(x=_scatter(wide[0], indices, wide[1], by=by), DstT=x.dtype)
        product = raw.UnsortedSegmentProd(
            data=updates, segment_ids=where, num_segments=size_of(x, axis=0)
        )
        return raw.Mul(x=x, y=product)
    kernel = raw.TensorScatterMax if by == "max" else raw.TensorScatterMin
    return kernel(tensor=x, indices=raw.ExpandDims(input=where, axis=ints(-1)), updates=updates)
