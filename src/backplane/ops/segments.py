"""Rows that are combined by segment: a vector of ids says to which segment each row belongs."""

from __future__ import annotations

from backplane.core.graph import Tensor, constant
from backplane.core.spec import neutral
from backplane.ops import elementwise as ew
from backplane.ops.creation import Amount, as_scalar, full, shaped, sizes_of
from backplane.ops.indexing import part, scatter_add
from backplane.ops.scattering import Combination, scatter


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
