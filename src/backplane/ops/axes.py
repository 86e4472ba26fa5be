"""Helpers that several chapters need for building graphs, besides single primitives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from backplane.core import shapes
from backplane.core.graph import Tensor
from backplane.ops.creation import Amount, dims_and_shape, shaped, size_at, sizes_of
from backplane.ops.linear import matmul
from backplane.ops.reduction import count
from backplane.ops.shaping import broadcast_to, expand_dims, reshape, transpose


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


def repeated(x: Tensor, times: Mapping[int, Amount], *, whole: bool = False) -> Tensor:
    """Each element of `x` so many times in a row along these axes, or `x` as a whole."""
    sizes: list[Amount] = []
    new, groups = [], []
    for axis, n in enumerate(sizes_of(x)):
        place = len(sizes)
        if axis in times:
            new.append(place if whole else place + 1)
            sizes += [times[axis], n] if whole else [n, times[axis]]
        else:
            sizes.append(n)
        groups.append(range(place, len(sizes)))
    wide = expand_dims(x, axes=tuple(new))
    return merge_axes(shaped(broadcast_to, sizes, wide), groups)


def reshape_to(x: Tensor, axes: Sequence[tuple[Tensor, int]]) -> Tensor:
    """`x` in a shape whose sizes are those of these axes of tensors."""
    dims, shape = dims_and_shape([size_at(t, i) for t, i in axes])
    if not dims and shape == x.spec.shape:
        return x
    return reshape(x, *dims, shape=shape)


def contracted(
    x: Tensor,
    y: Tensor,
    left: Sequence[int],
    right: Sequence[int],
    batch: Sequence[tuple[int, int]] = (),
) -> Tensor:
    """The products of `x` and `y`, summed over the axes `left` of `x`, each paired with one of the
    axes `right` of `y`. The result has the axes of the batch, of which each is an axis of `x` and
    one of `y`, then the others of `x`, then the others of `y`.
    """
    of_x, of_y = [i for i, _ in batch], [j for _, j in batch]
    rows = [i for i in range(x.ndim) if i not in (*of_x, *left)]
    columns = [j for j in range(y.ndim) if j not in (*of_y, *right)]
    (a, swap_a), (b, swap_b) = _matrices(x, of_x, rows, left), _matrices(y, of_y, right, columns)
    product = matmul(a, b, transpose_x=swap_a, transpose_y=swap_b)
    if len(rows) == len(columns) == 1:
        return product
    samples = [(y, j) if x.spec.shape[i] is None else (x, i) for i, j in batch]
    return reshape_to(product, [*samples, *((x, i) for i in rows), *((y, j) for j in columns)])


def _matrices(
    x: Tensor, batch: Sequence[int], rows: Sequence[int], columns: Sequence[int]
) -> tuple[Tensor, bool]:
    """The matrices with these rows and columns, and whether each of them is transposed."""
    if len(rows) == len(columns) == 1 and [*batch, *columns, *rows] == list(range(x.ndim)):
        return x, True
    lead, middle = len(batch), len(batch) + len(rows)
    groups = [*[[i] for i in range(lead)], range(lead, middle), range(middle, x.ndim)]
    return merge_axes(permuted(x, [*batch, *rows, *columns]), groups), False
