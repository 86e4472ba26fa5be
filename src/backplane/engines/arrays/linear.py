"""Matrix products."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple
from weakref import ref

import numpy as np

from backplane.core.spec import HALVES, Spec
from backplane.engines.arrays.elementwise import in_single
from backplane.engines.arrays.indexing import has_scipy
from backplane.engines.table import Lowering, Table, Value

TABLE = Table()


def for_blas(x: Value) -> Value:
    """`x`, copied if one of the last two axes is not contiguous.

    `np.matmul` would leave BLAS for strides that BLAS cannot take (a broadcast gradient).
    """
    *_, rows, columns = x.strides
    item = x.itemsize
    if (columns == item and rows >= item) or (rows == item and columns >= item):
        return x
    return np.ascontiguousarray(x)


def for_steps(constants: Sequence[Value]) -> list[Value]:
    """The constants of a loop, with matrices stored row by row: their products are faster."""
    return [np.ascontiguousarray(x) if x.ndim == 2 else x for x in constants]


@TABLE.build("matmul", into=True)
def _matmul(specs: Sequence[Spec], *, transpose_x: bool, transpose_y: bool) -> Lowering:
    if specs[0].dtype in HALVES:
        # Neither BLAS nor NumPy has a product of halves worth the name.
        return in_single(_matmul, specs, transpose_x=transpose_x, transpose_y=transpose_y)
    if specs[0].ndim > 2:
        return functools.partial(_batch_matmul, transpose_x=transpose_x, transpose_y=transpose_y)
    # On two axes `dot` is the same product, faster to call (the method 0.35 µs, `np.dot` 0.45,
    # `np.matmul` 0.75), and copies operands whose strides BLAS cannot take (a broadcast gradient);
    # `np.matmul` would leave BLAS for those.
    return _DOTS[transpose_x, transpose_y]


_DOTS: dict[tuple[bool, bool], Callable[..., Any]] = {
    (False, False): np.ndarray.dot,
    (True, False): lambda x, y, out=None: x.T.dot(y, out),
    (False, True): lambda x, y, out=None: x.dot(y.T, out),
    (True, True): lambda x, y, out=None: x.T.dot(y.T, out),
}


def _batch_matmul(
    x: Value, y: Value, *, transpose_x: bool, transpose_y: bool, out: Value | None = None
) -> Value:
    x, y = for_blas(x), for_blas(y)
    return np.matmul(
        x.swapaxes(-1, -2) if transpose_x else x,
        y.swapaxes(-1, -2) if transpose_y else y,
        out=out,
    )


# --- a sparse matrix in compressed rows -----------------------------------------------------------


@TABLE.build("rows_matmul", unless=lambda specs: specs[0].dtype in HALVES)
def _rows_matmul(specs: Sequence[Spec]) -> Lowering:
    """SciPy's product, if SciPy is installed."""
    return _by_scipy if has_scipy() else _by_lengths


def _by_scipy(
    values: Value, columns: Value, offsets: Value, rows: Value, across: Value, y: Value
) -> Value:
    matrix = copy.copy(_empty(len(offsets) - 1, len(across)))
    matrix.data, matrix.indices, matrix.indptr = values, columns, offsets
    return matrix @ np.ascontiguousarray(y)


@functools.lru_cache
def _empty(height: int, width: int) -> Any:
    """A matrix without entries. SciPy's checks of one that has them take as long as its product
    with two columns.
    """
    from scipy.sparse import csr_array  # Here: importing it takes a fifth of a second.

    matrix = csr_array((height, width))
    matrix.indptr = None  # A number for each row.
    return matrix


GATHERED = 1 << 19
"""Bytes of gathered rows at a time: more would not stay in the cache until they are multiplied."""


class _Layout(NamedTuple):
    """The rows of a matrix, those with equally many entries together."""

    groups: list[tuple[int, np.ndarray, np.ndarray]]
    """Of each group the place of its first row, and the places and columns of its entries."""
    back: np.ndarray
    """The place of each row in this order."""


_layouts: dict[tuple[int, int], tuple[ref[Any], ref[Any], _Layout]] = {}
"""By the matrix's columns and offsets: nobody writes to these, and many products read them."""


def _layout(columns: Value, offsets: Value) -> _Layout:
    key = id(columns), id(offsets)
    known = _layouts.get(key)
    if known is not None and known[0]() is columns and known[1]() is offsets:
        return known[2]
    counts = np.diff(offsets)
    order = np.argsort(counts, kind="stable")
    lengths, starts = np.unique(counts[order], return_index=True)
    groups = []
    for length, (start, end) in zip(lengths, pairwise([*starts, len(order)]), strict=True):
        at = offsets[order[start:end], None] + np.arange(length)
        groups.append((int(start), at, columns.take(at).astype(np.intp)))
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    # It goes with the matrix. `pop` takes the dead reference as its default.
    gone = [ref(x, functools.partial(_layouts.pop, key)) for x in (columns, offsets)]
    _layouts[key] = gone[0], gone[1], _Layout(groups, back)
    return _layouts[key][2]


def _by_lengths(
    values: Value, columns: Value, offsets: Value, rows: Value, across: Value, y: Value
) -> Value:
    """Products of vectors and matrices, for rows with equally many entries at once. For
    50,000 entries and 64 columns, `np.add.at` takes 13 times as long, `np.add.reduceat` 15 times,
    sums of the first, second, … entries of all rows twice as long, and `np.einsum` 1.2 times.
    """
    if len(across) != len(y):
        raise ValueError(f"the matrix has {len(across)} columns, and y {len(y)} rows")
    groups, back = _layout(columns, offsets)
    width = y.shape[1]
    total = np.empty((len(back), width), y.dtype)
    longest = groups[-1][1].shape[1] if groups else 0
    largest = max(GATHERED // y.itemsize, width * longest)
    memory = np.empty(largest, y.dtype)
    for start, at, places in groups:
        factors = values.take(at)[:, None]
        chunk = max(1, largest // max(1, at.shape[1] * width))
        for i in range(0, len(at), chunk):
            some = places[i : i + chunk]
            gathered = memory[: some.size * width].reshape(*some.shape, width)
            y.take(some, 0, gathered, "clip")  # It would copy `gathered` to check the columns.
            np.matmul(factors[i : i + chunk], gathered, total[start + i :][: len(some), None])
    return total.take(back, 0)
