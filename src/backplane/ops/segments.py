"""Rows that are combined by segment: a vector of ids says to which segment each row belongs."""

from __future__ import annotations

from backplane.core.graph import Tensor, constant
from backplane.core.spec import neutral
from backplane.ops import elementwise as ew
from backplane.ops.creation import Amount, full, shaped, size_at
from backplane.ops.indexing import part, scatter_add
from backplane.ops.scattering import Combination, scatter


def segment_sum(rows: Tensor, ids: Tensor, number: Amount) -> Tensor:
    """The sums of the rows of each segment. Rows whose id is below 0, or not below `number`, are
    left out. A segment without rows is 0.
    """
    sizes, ids = _with_rest(rows, ids, number)
    return _without_rest(shaped(scatter_add, sizes, rows, ids, axis=0), number)


def segments(rows: Tensor, ids: Tensor, number: Amount, by: Combination) -> Tensor:
    """The maxima, minima or products of the rows of each segment, likewise. A segment without rows
    has what leaves any number as it is.
    """
    sizes, ids = _with_rest(rows, ids, number)
    dtype = rows.spec.dtype
    table = shaped(full, sizes, value=neutral(dtype, by), dtype=dtype)
    return _without_rest(scatter(table, ids, rows, by=by), number)


def _with_rest(rows: Tensor, ids: Tensor, number: Amount) -> tuple[list[Amount], Tensor]:
    """The sizes of the result with one more segment, and ids that give it the rows of no other."""
    if ids.spec.dtype != "int32":
        # Ids of more bits must not become others by losing some.
        last = constant(2**31 - 1, "int64")
        signed = ew.cast(ids, dtype="int64")
        least = ew.zero(signed)
        inside = ew.logical_and(ew.less_equal(least, signed), ew.less(signed, last))
        ids = ew.cast(ew.where(inside, signed, constant(-1, "int64")), dtype="int32")
    rest = constant(number, "int32") if isinstance(number, int) else number
    inside = ew.logical_and(ew.less_equal(ew.zero(ids), ids), ew.less(ids, rest))
    more = number + 1 if isinstance(number, int) else ew.add(number, constant(1, "int32"))
    return [more, *[size_at(rows, i) for i in range(ids.ndim, rows.ndim)]], ew.where(
        inside, ids, rest
    )


def _without_rest(table: Tensor, number: Amount) -> Tensor:
    return part(table, 0, None, -1)
