"""Rows that are combined with the rows of a table at positions that a program computes, and by
segments.
"""

from __future__ import annotations

from typing import Literal

from backplane.core.graph import Tensor, constant
from backplane.core.primitive import primitive
from backplane.core.spec import INTEGER, NUMBER, Spec, check_dtype, neutral
from backplane.core.traits import Cotangents, Memory, like_first
from backplane.ops import elementwise as ew
from backplane.ops import shaping as sh
from backplane.ops.axes import merge_axes
from backplane.ops.creation import (
    Amount,
    as_scalar,
    full,
    numbers,
    scalar,
    shaped,
    shaped_as,
    sizes_of,
)
from backplane.ops.indexing import check_fit, gather, part, scatter_add
from backplane.ops.reduction import count

Combination = Literal["max", "min", "product"]


def _check(name: str, x: Spec, indices: Spec, updates: Spec) -> None:
    if not x.shape:
        raise ValueError(f"{name}: x must have at least one axis, got a scalar")
    check_dtype(name, "indices", indices.dtype, INTEGER)
    if updates.dtype != x.dtype:
        raise TypeError(
            f"{name}: x has dtype {x.dtype} and updates {updates.dtype}; cast one of them"
        )
    check_fit(name, "updates", updates, indices.shape + x.shape[1:])


@primitive(memory=Memory.FRESH, axes=like_first)
def scatter(x: Spec, indices: Spec, updates: Spec, *, by: Combination) -> Spec:
    """`x`, whose rows at `indices` are combined with the rows of `updates` by maximum ("max"),
    minimum ("min") or multiplication ("product"). Negative indices count from the end. A row that
    has several updates is combined with all of them; tied extremes share the gradient.
    """
    check_dtype("scatter", "x", x.dtype, NUMBER)
    if by not in ("max", "min", "product"):
        raise ValueError(f"scatter: by must be 'max', 'min' or 'product', got {by!r}")
    _check("scatter", x, indices, updates)
    return x


@scatter.vjp
def _(
    g: Tensor, y: Tensor, x: Tensor, indices: Tensor, updates: Tensor, *, by: Combination
) -> Cotangents:
    if by == "product":
        to_x, to_updates = _of_product(g, x, indices, updates)
        return [to_x, None, to_updates]
    kept, hits = ew.equal(x, y), ew.equal(updates, gather(y, indices, axis=0))
    marks = [ew.cast(t, dtype=x.spec.dtype) for t in (kept, hits)]
    ties = ew.add(marks[0], shaped_as(scatter_add, x, marks[1], indices, axis=0))
    # Where the extreme is NaN nothing equals it.
    share = ew.div(g, ew.maximum(ties, ew.one(ties)))
    there = gather(share, indices, axis=0)
    return [ew.where(kept, share, ew.zero(x)), None, ew.where(hits, there, ew.zero(x))]


def _of_product(g: Tensor, x: Tensor, indices: Tensor, updates: Tensor) -> tuple[Tensor, Tensor]:
    """Each factor gets the product of the others, by counting zeros."""

    def split(factor: Tensor) -> tuple[Tensor, Tensor]:
        is_zero = ew.equal(factor, ew.zero(factor))
        return ew.cast(is_zero, dtype=factor.spec.dtype), ew.where(is_zero, ew.one(factor), factor)

    (x_zero, x_other), (zero, other) = split(x), split(updates)
    zeros = ew.add(x_zero, shaped_as(scatter_add, x, zero, indices, axis=0))
    product = ew.mul(g, scatter(x_other, indices, other, by="product"))

    def rest(product: Tensor, zeros: Tensor, own: Tensor, factor: Tensor) -> Tensor:
        alone = ew.equal(zeros, own)  # no zero but perhaps the factor itself
        return ew.where(alone, ew.div(product, factor), ew.zero(product))

    there = [gather(t, indices, axis=0) for t in (product, zeros)]
    return rest(product, zeros, x_zero, x_other), rest(there[0], there[1], zero, other)


def scatter_set(x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    """`x`, whose rows at `indices` are replaced by the rows of `updates`: the last of them where an
    index is repeated, on each engine.
    """
    _check("scatter_set", x.spec, indices.spec, updates.spec)
    total = count(indices, range(indices.ndim), "int32")
    own = numbers(count(x, (0,), "int32"))
    nobody = sh.full_like(own, -1)
    last = scatter(nobody, sh.reshape(indices, shape=(-1,)), numbers(total), by="max")
    rest = range(indices.ndim, updates.ndim)
    rows = merge_axes(updates, [range(indices.ndim), *[[i] for i in rest]])
    # New rows stand before the old ones, and one gather picks from both.
    places = ew.where(ew.less_equal(scalar(0, "int32"), last), last, ew.add(own, total))
    return gather(sh.concat(rows, x, axis=0), places, axis=0)


# --- segments: a vector of ids says to which segment each row belongs -----------------------------


def segment_sum(rows: Tensor, ids: Tensor, number: Amount) -> Tensor:
    """The sums of the rows of each segment. Rows whose id is below 0, or not below `number`, are
    left out. A segment without rows is 0.
    """
    sizes, ids = _with_rest(rows, ids, number)
    return part(shaped(scatter_add, sizes, rows, ids, axis=0), 0, None, -1)


def segments(rows: Tensor, ids: Tensor, number: Amount, by: Combination) -> Tensor:
    """The maxima, minima or products of the rows of each segment, likewise. A segment without rows
    has what leaves any number as it is.
    """
    sizes, ids = _with_rest(rows, ids, number)
    dtype = rows.spec.dtype
    table = shaped(full, sizes, value=neutral(dtype, by), dtype=dtype)
    return part(scatter(table, ids, rows, by=by), 0, None, -1)


def _with_rest(rows: Tensor, ids: Tensor, number: Amount) -> tuple[list[Amount], Tensor]:
    """The sizes of the result with one more segment, and ids that give it the rows of no other."""
    if ids.spec.dtype != "int32":
        # Ids of more bits must not become others by losing some.
        last = constant(2**31 - 1, "int64")
        signed = ew.cast(ids, dtype="int64")
        least = ew.zero(signed)
        inside = ew.logical_and(ew.less_equal(least, signed), ew.less(signed, last))
        ids = ew.cast(ew.where(inside, signed, constant(-1, "int64")), dtype="int32")
    rest = as_scalar(number)
    inside = ew.logical_and(ew.less_equal(ew.zero(ids), ids), ew.less(ids, rest))
    sizes = [number + 1, *sizes_of(rows)[ids.ndim :]]
    return sizes, ew.where(inside, ids, rest)
