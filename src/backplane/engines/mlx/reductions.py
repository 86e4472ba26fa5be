"""Lowerings: reductions, and what works along axes."""

from __future__ import annotations

import math

import mlx.core as mx

from backplane.core.shapes import broadcast_axes
from backplane.engines.mlx.wide import exp
from backplane.engines.table import Axes, Lowering, Shape, Table, Value, host_shape

TABLE = Table(
    max=lambda x, *, axes, keepdims: mx.max(x, axes, keepdims),
    min=lambda x, *, axes, keepdims: mx.min(x, axes, keepdims),
    any=lambda x, *, axes, keepdims: mx.any(_written(x), axes, keepdims),
    all=lambda x, *, axes, keepdims: mx.all(_written(x), axes, keepdims),
    cumprod=lambda x, *, axis, reverse: mx.cumprod(x, axis, reverse=reverse),
)


def _written(x: Value) -> Value:
    """`x`; a new array if it is empty, where MLX would not write the result of a reduction."""
    return x if x.size else mx.zeros(x.shape, x.dtype)


BLOCK = 128
"""Elements that MLX may add up one after another: on a processor it loses digits of long sums."""


def total(x: Value, axes: Axes, keepdims: bool = False) -> Value:
    """`mx.sum`, with long axes cut into blocks."""
    if math.prod([x.shape[axis] for axis in axes]) > BLOCK:
        for axis in axes:
            x = _along(x, axis)
    return mx.sum(x, axes, keepdims)


def _along(x: Value, axis: int) -> Value:
    """The sum along an axis, which it keeps: the sums of its blocks, and of what is left over."""
    count, left = divmod(x.shape[axis], BLOCK)
    if not count:
        return mx.sum(x, axis, True)
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    parts = mx.split(x, [count * BLOCK], axis) if left else [x]
    sums = _along(mx.sum(mx.reshape(parts[0], (*before, count, BLOCK, *after)), axis + 1), axis)
    return sums + mx.sum(parts[1], axis, True) if left else sums


@TABLE.add("cumsum")
def cumsum(x: Value, *, axis: int, reverse: bool) -> Value:
    """`mx.cumsum`, with long axes in blocks: the sums in each, plus those of the blocks before."""
    if x.dtype in (mx.float16, mx.bfloat16):
        return cumsum(x.astype(mx.float32), axis=axis, reverse=reverse).astype(x.dtype)
    whole, left = divmod(x.shape[axis], BLOCK)
    if not whole or not mx.issubdtype(x.dtype, mx.floating):
        return mx.cumsum(x, axis, reverse=reverse)
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    if left:
        pad = [(0, 0)] * x.ndim
        pad[axis] = (0, BLOCK - left)
        x = mx.pad(x, pad)
    blocks = mx.reshape(x, (*before, -1, BLOCK, *after))
    sums = cumsum(mx.sum(blocks, axis + 1), axis=axis, reverse=reverse)
    none = mx.zeros((*before, 1, *after), x.dtype)
    others = mx.split(sums, [1 if reverse else -1], axis)[reverse]
    offsets = mx.concatenate([others, none] if reverse else [none, others], axis)
    inside = mx.cumsum(blocks, axis + 1, reverse=reverse) + mx.expand_dims(offsets, axis + 1)
    found = mx.reshape(inside, (*before, -1, *after))
    return mx.split(found, [whole * BLOCK + left], axis)[0] if left else found


def _in_own_dtype(function: Lowering) -> Lowering:
    """A reduction that MLX does in 32 bits for small integers, and in 16 for half floats."""

    def lowering(x: Value, *, axes: Axes, keepdims: bool = False) -> Value:
        dtype = x.dtype
        wide = x.astype(mx.float32) if dtype in (mx.float16, mx.bfloat16) else x
        return function(_written(wide), axes, keepdims).astype(dtype)

    return lowering


sum_ = TABLE.add("sum")(_in_own_dtype(total))
TABLE.add("prod")(_in_own_dtype(mx.prod))


def _position(name: str, function: Lowering) -> None:
    @TABLE.add(name)
    def lowering(x: Value, *, axis: int) -> Value:
        if x.size or not x.shape[axis]:  # MLX refuses both; only the latter is an error.
            return function(x, axis).astype(mx.int64)
        return mx.zeros((*x.shape[:axis], *x.shape[axis + 1 :]), mx.int64)


_position("argmax", mx.argmax)
_position("argmin", mx.argmin)


PRECISE_ROW = 2048
"""Elements whose sum keeps its digits in MLX's own kernels of the softmax and its logarithm."""


def _wide(x: Value) -> Value:
    return x if x.dtype == mx.float64 else x.astype(mx.float32)


@TABLE.add("softmax")
def softmax(x: Value, *, axis: int) -> Value:
    """`mx.softmax`, which adds up in float32, also if asked for float64, and one by one."""
    if not x.size or (x.dtype != mx.float64 and x.shape[axis] <= PRECISE_ROW):
        return mx.softmax(x, axis, precise=True)
    z = _below_largest(_wide(x), axis)
    e = exp(z) if x.dtype == mx.float64 else mx.exp(z)
    return (e / total(e, (axis,), True)).astype(x.dtype)


@TABLE.add("log_softmax")
def log_softmax(x: Value, *, axis: int) -> Value:
    """K's function; MLX would ask for the largest element of an empty axis, and refuse."""
    if not x.size:
        return mx.zeros_like(x)
    z = _below_largest(_wide(x), axis)
    e = exp(z) if x.dtype == mx.float64 else mx.exp(z)
    return (z - mx.log(sum_(e, axes=(axis,), keepdims=True))).astype(x.dtype)


def _below_largest(x: Value, axis: int) -> Value:
    return x - mx.stop_gradient(mx.max(x, axis, True))


@TABLE.add("logsumexp")
def logsumexp(x: Value, *, axes: Axes, keepdims: bool) -> Value:
    """`mx.logsumexp`, which refuses empty arrays and adds up in float32, one by one."""
    if not x.size:
        return mx.log(mx.sum(_written(x), axes, keepdims))
    if x.dtype != mx.float64 and math.prod([x.shape[axis] for axis in axes]) <= PRECISE_ROW:
        return mx.logsumexp(x, axes, keepdims)
    wide = _wide(x)
    shift = mx.max(wide, axes, True)
    shift = mx.stop_gradient(mx.where(mx.isinf(shift), mx.zeros_like(shift), shift))
    z = wide - shift
    e = exp(z) if x.dtype == mx.float64 else mx.exp(z)
    y = (mx.log(total(e, axes, True)) + shift).astype(x.dtype)
    return y if keepdims else mx.squeeze(y, axes)


@TABLE.add("sum_to")
def sum_to(x: Value, *dims: Value, shape: Shape) -> Value:
    """One sum over the axes that broadcasting added or stretched."""
    sizes = host_shape(shape, dims)
    added, stretched = broadcast_axes(sizes, x.shape)
    axes = (*added, *stretched)
    return mx.reshape(sum_(x, axes=axes), sizes) if axes else x


@TABLE.add("top_k")
def top_k(x: Value, *, k: int) -> list[Value]:
    """A stable ascending sort of the reversed row, read backwards: ties keep their order."""
    back = (..., slice(None, None, -1))
    indices = mx.argsort(x[back], axis=-1)[back][..., :k].astype(mx.int32)
    indices = x.shape[-1] - 1 - indices
    return [mx.take_along_axis(x, indices, -1), indices]


@TABLE.add("sort")
def sort(x: Value) -> list[Value]:
    """`mx.argsort`, which is stable and puts NaN last."""
    if not x.size:
        return [x, x.astype(mx.int32)]
    order = mx.argsort(x, axis=-1).astype(mx.int32)
    return [mx.take_along_axis(x, order, -1), order]
