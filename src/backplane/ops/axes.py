"""Helpers that several chapters need for building graphs, besides single primitives."""

from __future__ import annotations

from collections.abc import Sequence

from backplane.core import shapes
from backplane.core.graph import Tensor
from backplane.ops.creation import dims_and_shape, size_at
from backplane.ops.reduction import count
from backplane.ops.shaping import reshape, transpose


def permuted(x: Tensor, order: Sequence[int]) -> Tensor:
    """`x` with its axes in another order, or `x` itself if they have that order already."""
    order = tuple(order)
    return x if order == tuple(range(x.ndim)) else transpose(x, perm=order)


def moved(x: Tensor, source: int, target: int) -> Tensor:
    """`x` with axis `source` at the place `target`; the others keep their order."""
    order = [i for i in range(x.ndim) if i != source]
    order.insert(target, source)
    return permuted(x, order)


def merge_axes(x: Tensor, groups: Sequence[Sequence[int]]) -> Tensor:
    """`x` with each group of neighbouring axes made one; an empty group gives a new axis of size 1.

    Unknown sizes stay run-time values. `reshape` has to find at most one of them, because it cannot
    do so beside a size of 0.
    """
    shape = x.spec.shape
    if [list(group) for group in groups] == [[i] for i in range(x.ndim)]:
        return x
    sizes = [shapes.product([shape[i] for i in group]) for group in groups]
    unknown = [i for i, n in enumerate(sizes) if n is None]
    if len(unknown) == 1 and 0 not in sizes:
        return reshape(x, shape=tuple(-1 if n is None else n for n in sizes))
    dims = [count(x, groups[i], "int32") for i in unknown]
    return reshape(x, *dims, shape=tuple(sizes))


def reshape_to(x: Tensor, axes: Sequence[tuple[Tensor, int]]) -> Tensor:
    """`x` in a shape whose sizes are those of these axes of tensors."""
    dims, shape = dims_and_shape([size_at(t, i) for t, i in axes])
    if not dims and shape == x.spec.shape:
        return x
    return reshape(x, *dims, shape=shape)
