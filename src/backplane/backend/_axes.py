"""What several chapters need for building graphs, besides single primitives."""

from __future__ import annotations

from collections.abc import Sequence

from backplane.core import shapes
from backplane.core.graph import Tensor
from backplane.ops.creation import dim
from backplane.ops.shaping import reshape, transpose

__all__ = ["dims_and_shape", "merge_axes", "permuted", "reshape_to", "size_at", "sizes_of"]


def size_at(x: Tensor, axis: int) -> int | Tensor:
    """The size of an axis: an int if it is known, or else a scalar tensor."""
    size = x.spec.shape[axis]
    return dim(x, axis=axis) if size is None else size


def dims_and_shape(sizes: Sequence[int | Tensor]) -> tuple[list[Tensor], tuple[int | None, ...]]:
    """`(dims, shape)` for primitives that take sizes. The shape has None for each tensor."""
    dims = [n for n in sizes if isinstance(n, Tensor)]
    return dims, tuple([n if isinstance(n, int) else None for n in sizes])


def permuted(x: Tensor, order: Sequence[int]) -> Tensor:
    """`x` with its axes in another order, or `x` itself if they have that order already."""
    order = tuple(order)
    return x if order == tuple(range(x.ndim)) else transpose(x, perm=order)


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
    dims = [_product(x, groups[i]) for i in unknown]
    return reshape(x, *dims, shape=tuple(sizes))


def _product(x: Tensor, axes: Sequence[int]) -> Tensor:
    """The number of elements along `axes`, as an int32 scalar."""
    known = shapes.product([n for i in axes if (n := x.spec.shape[i]) is not None])
    total: Tensor | None = None
    for i in axes:
        if x.spec.shape[i] is None:
            size = dim(x, axis=i)
            total = size if total is None else total * size
    assert total is not None
    return total if known == 1 else total * known


def sizes_of(axes: Sequence[tuple[Tensor, int]]) -> tuple[list[Tensor], tuple[int | None, ...]]:
    """`(dims, shape)` for primitives that take sizes, from axes of tensors."""
    return dims_and_shape([size_at(x, i) for x, i in axes])


def reshape_to(x: Tensor, axes: Sequence[tuple[Tensor, int]]) -> Tensor:
    """`x` in a shape whose sizes are those of these axes of tensors."""
    dims, shape = sizes_of(axes)
    if not dims and shape == x.spec.shape:
        return x
    return reshape(x, *dims, shape=shape)
