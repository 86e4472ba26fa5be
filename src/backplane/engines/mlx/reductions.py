"""Lowerings: reductions, and what works along axes."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx

from backplane.core.spec import Spec
from backplane.engines.base import Entry, Lowering, Table, Value, host_shape
from backplane.engines.mlx.values import MLX
from backplane.engines.mlx.wide import is_wide

TABLE = Table(
    max=lambda x, *, axes, keepdims: mx.max(x, axes, keepdims),
    min=lambda x, *, axes, keepdims: mx.min(x, axes, keepdims),
    any=lambda x, *, axes, keepdims: mx.any(x, axes, keepdims),
    all=lambda x, *, axes, keepdims: mx.all(x, axes, keepdims),
    cumsum=lambda x, *, axis, reverse: mx.cumsum(x, axis, reverse=reverse),
    cumprod=lambda x, *, axis, reverse: mx.cumprod(x, axis, reverse=reverse),
)

Axes = tuple[int, ...]


def _in_own_dtype(name: str, function: Lowering) -> None:
    """Register a reduction that MLX does in 32 bits for small integers. It does it in 16 bits for
    floats of 16, where sums are cut off and overflow.
    """

    def build(specs: Sequence[Spec], *, axes: Axes, keepdims: bool) -> Lowering:
        dtype = MLX[specs[0].dtype]
        if dtype in (mx.float16, mx.bfloat16):
            return lambda x: function(x.astype(mx.float32), axes, keepdims).astype(dtype)
        return lambda x: function(x, axes, keepdims).astype(dtype)

    TABLE.build(name)(build)


_in_own_dtype("sum", mx.sum)
_in_own_dtype("mean", mx.mean)
_in_own_dtype("prod", mx.prod)


def _position(name: str, function: Lowering) -> None:
    @TABLE.add(name)
    def lowering(x: Value, *, axis: int) -> Value:
        if x.size:
            return function(x, axis).astype(mx.int64)
        return mx.zeros((*x.shape[:axis], *x.shape[axis + 1 :]), mx.int64)


_position("argmax", mx.argmax)
_position("argmin", mx.argmin)


def softmax(x: Value, *, axis: int) -> Value:
    """`mx.softmax`, which adds up in float32."""
    return mx.softmax(x, axis, precise=True)


def logsumexp(x: Value, *, axes: Axes, keepdims: bool) -> Value:
    """`mx.logsumexp`, which refuses empty arrays."""
    return mx.logsumexp(x, axes, keepdims) if x.size else mx.log(mx.sum(x, axes, keepdims))


TABLE["softmax"] = Entry(softmax, unless=is_wide)
TABLE["logsumexp"] = Entry(logsumexp, unless=is_wide)


@TABLE.add("sum_to")
def sum_to(x: Value, *dims: Value, shape: tuple[int | None, ...]) -> Value:
    """One sum over the axes that broadcasting added or stretched."""
    sizes = host_shape(shape, dims)
    added = x.ndim - len(sizes)
    stretched = [i for i, n in enumerate(x.shape[added:], added) if n != sizes[i - added]]
    axes = (*range(added), *stretched)
    return mx.sum(x, axes).astype(x.dtype).reshape(sizes) if axes else x


@TABLE.add("top_k")
def top_k(x: Value, *, k: int) -> list[Value]:
    """A stable ascending sort of the reversed row, read backwards: ties keep their order."""
    back = (..., slice(None, None, -1))
    indices = mx.argsort(x[back], axis=-1)[back][..., :k].astype(mx.int32)
    indices = x.shape[-1] - 1 - indices
    return [mx.take_along_axis(x, indices, -1), indices]
