"""Helpers that the functions on CTC share: dropping elements, and sums of probabilities.

The elements that are kept move to the front of their row, and all rows are as wide as the longest
one. Probabilities are held as logarithms.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from backplane.core.graph import Tensor, constant
from backplane.ops import elementwise as ew
from backplane.ops import reduction
from backplane.ops.axes import merge_axes
from backplane.ops.creation import as_scalar, numbers, shaped_as, size_at
from backplane.ops.effects import stop_gradient
from backplane.ops.indexing import gather, head, pad, scatter_add
from backplane.ops.lift import cast_to
from backplane.ops.reduction import argmax, cumsum
from backplane.ops.shaping import expand_dims, reshape, sum


def integer(value: int) -> Tensor:
    """An int32 scalar."""
    return constant(value, "int32")


def size_of(x: Tensor, axis: int) -> Tensor:
    """The size of an axis as an int32 scalar, which is constant if the size is known."""
    return as_scalar(size_at(x, axis))


def positions(x: Tensor, axis: int) -> Tensor:
    """The int32 vector 0, 1, … with as many elements as an axis of `x`."""
    n = x.spec.shape[axis]
    if n is not None:
        return constant(np.arange(n), "int32")
    return numbers(size_of(x, axis))


def _row_starts(x: Tensor) -> Tensor:
    """An int32 column: where the rows of a matrix begin if it is laid out as one vector."""
    starts = positions(x, 0) * size_of(x, 1)
    return expand_dims(starts, axes=(1,))


def picked(x: Tensor, columns: Tensor) -> Tensor:
    """`x[i, columns[i, k], …]` for all i and k: each row has columns of its own."""
    rows = merge_axes(x, [[0, 1], *[[i] for i in range(2, x.ndim)]])
    return gather(rows, columns + _row_starts(x), axis=0)


def compacted(keep: Tensor, *matrices: Tensor, fill: int = 0) -> list[Tensor]:
    """The elements of integer matrices where `keep` holds, in front, followed by `fill`."""
    count = cumsum(cast_to(keep, "int32"), axis=1, reverse=False)
    places = ew.maximum(count - 1, integer(0)) + _row_starts(keep)
    places = merge_axes(places, [[0, 1]])
    moved = []
    for x in matrices:
        # A dropped element adds 0 to the element before it.
        added = ew.where(keep, x - fill, constant(0, x.spec.dtype))
        put = shaped_as(scatter_add, places, merge_axes(added, [[0, 1]]), places, axis=0)
        moved.append(shaped_as(reshape, keep, put) + fill)
    return moved


def narrowed(x: Tensor, keep: Tensor) -> Tensor:
    """A compacted matrix cut to its longest row."""
    counts = reduction.sum(cast_to(keep, "int32"), axes=(1,), keepdims=False)
    # There must be a maximum even if there are no rows.
    padded = pad(counts, padding=((1, 0),), value=0)
    return head(x, reduction.max(padded, axes=(0,), keepdims=False), axis=1)


# --- logarithms of probabilities ------------------------------------------------------------------

IMPOSSIBLE = -1e30
"""Log-probability of what cannot be. Being finite it makes no NaN of any derivative, and it is so
small that a sum of probabilities does not change by it."""


def log_sum(terms: Sequence[Tensor]) -> Tensor:
    """log(exp(a) + exp(b) + …) of finite terms. The largest one is taken out, and the others are
    added up without it, so that what they add to 1 keeps its digits.
    """
    largest, *rest = map(stop_gradient, terms)
    others: list[Tensor] = []
    for t in rest:
        others.append(ew.minimum(t, largest))
        largest = ew.maximum(largest, t)
    exact = largest + ew.log1p(reduce(ew.add, [ew.exp(t - largest) for t in others]))
    # The derivative of each term is its share in the sum.
    return with_slope(exact, ew.log(reduce(ew.add, [ew.exp(t - exact) for t in terms])))


def with_slope(value: Tensor, slope: Tensor) -> Tensor:
    """The value of one tensor, with the derivatives of another."""
    return stop_gradient(value) + (slope - stop_gradient(slope))


def largest_and_others(x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """The largest element along an axis, and the sum of exp(y − it) over the others."""
    places = positions(x, axis)
    beside = tuple([i for i in range(x.ndim) if i != axis])
    top = ew.cast(argmax(x, axis=axis), dtype=places.spec.dtype)
    first = ew.equal(expand_dims(top, axes=(axis,)), expand_dims(places, axes=beside))
    largest = sum(ew.where(first, x, ew.zero(x)), axes=(axis,), keepdims=True)
    others = ew.where(first, ew.zero(x), ew.exp(x - largest))
    return largest, sum(others, axes=(axis,), keepdims=True)


def row(x: Tensor) -> Tensor:
    """`x` with a new first axis."""
    return expand_dims(x, axes=(0,))


def column(x: Tensor) -> Tensor:
    """`x` with a new second axis."""
    return expand_dims(x, axes=(1,))
