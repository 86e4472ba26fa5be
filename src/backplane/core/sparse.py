"""Sparse tensors in coordinate form, and sparse matrices of callers, recognized without SciPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from backplane.core.hooks import HOOKS
from backplane.core.spec import Shape


def _operator(name: str) -> Callable[..., Any]:
    def method(self: SparseTensor, *operands: object) -> Any:
        return HOOKS[name](HOOKS["to_dense"](self), *operands)

    return method


class _Parts(NamedTuple):
    indices: Any
    values: Any
    dense_shape: Any


class SparseTensor(_Parts):
    """A sparse tensor in coordinate form, as in TensorFlow, made of tensors or native values.

    It is a tuple, so that whatever looks for tensors in the arguments and results of functions
    finds its parts. In arithmetic it is what it is elsewhere: its dense form.

    Attributes:
        indices: int64 (entries, axes): where each entry is, in row-major order.
        values: (entries,): the entries.
        dense_shape: int64 (axes,): the shape of the dense tensor.
    """

    __slots__ = ()

    @property
    def dtype(self) -> Any:
        """The dtype of the entries."""
        return self.values.dtype

    @property
    def shape(self) -> Shape:
        """The static shape, of which only the number of axes is known."""
        return Shape((None,) * self.dense_shape.shape[0])

    def get_shape(self) -> Shape:
        """The static shape, TensorFlow's spelling."""
        return self.shape

    if not TYPE_CHECKING:  # Tuples have other operators.
        __add__, __radd__ = _operator("add"), _operator("radd")
        __sub__, __rsub__ = _operator("sub"), _operator("rsub")
        __mul__, __rmul__ = _operator("mul"), _operator("rmul")
        __truediv__, __rtruediv__ = _operator("truediv"), _operator("rtruediv")
        __matmul__, __neg__ = _operator("matmul"), _operator("neg")


def is_sparse_matrix(value: object) -> bool:
    """Whether `value` is a matrix or array of `scipy.sparse`, in any format."""
    return hasattr(value, "toarray") and hasattr(value, "nnz")


def is_triple(value: object) -> bool:
    """Whether `value` is (indices, values, shape), as TensorFlow 1 took matrices for feeding."""
    if not isinstance(value, tuple) or len(value) != 3:
        return False
    return [np.ndim(part) for part in value] == [2, 1, 1] and len(value[2]) == 2


def dense_array(value: Any) -> np.ndarray:
    """The dense array of a sparse matrix or a triple; repeated entries add up."""
    if is_sparse_matrix(value):
        return np.asarray(value.toarray())
    indices, values, shape = value
    values = np.asarray(values)
    result = np.zeros([int(n) for n in shape], values.dtype)
    np.add.at(result, tuple(np.asarray(indices, "int64").T), values)
    return result


# --- compressed rows ------------------------------------------------------------------------------


class Rows(NamedTuple):
    """A sparse matrix in compressed rows: its entries row by row, no two of them at one place."""

    values: np.ndarray
    columns: np.ndarray
    offsets: np.ndarray
    """The first entry of each row, and the end of the last row."""
    rows: np.ndarray
    """The row of each entry."""
    across: np.ndarray
    """As many zeros as the matrix has columns. A program knows sizes from shapes."""

    @classmethod
    def of(cls, counts: np.ndarray, columns: np.ndarray, values: np.ndarray, width: int) -> Rows:
        """A matrix whose entries are in order; `counts` says how many there are in each row."""
        rows = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        columns = columns.astype(np.int32, copy=False)
        return cls(values, columns, offsets, rows, np.zeros(width, np.int8))

    def transposed(self) -> Rows:
        """The transposed matrix."""
        height, width = len(self.offsets) - 1, len(self.across)
        # NumPy sorts numbers of 16 bits by their digits, in a twentieth of the time.
        narrow = self.columns.astype(np.uint16) if width <= 1 << 16 else self.columns
        order = np.argsort(narrow, kind="stable")
        counts = np.bincount(self.columns, minlength=width)
        return Rows.of(counts, self.rows[order], self.values[order], height)

    def padded(self, count: int) -> Rows:
        """With so many entries. Those that are added are in no row, and their value is 0."""
        more = count - len(self.values)
        none = np.zeros(more, np.int32)
        return self._replace(
            values=np.concatenate([self.values, none.astype(self.values.dtype)]),
            columns=np.concatenate([self.columns, none]),
            rows=np.concatenate([self.rows, none + (len(self.offsets) - 1)]),
        )


Parts = tuple[np.ndarray, ...]


def stored(value: Any) -> tuple[tuple[int, int], str, Parts] | None:
    """The shape of a sparse matrix, the name of its format, and the arrays that it stores; None if
    `value` is neither a matrix of SciPy nor a triple. Formats that store no arrays are converted.
    """
    if is_triple(value):
        indices, values, shape = value
        places = np.asarray(indices, "int64").reshape(-1, 2)
        return _pair(shape), "triple", (places[:, 0], places[:, 1], np.asarray(values))
    if not is_sparse_matrix(value) or len(value.shape) != 2:
        return None
    form = value.format
    if form not in ("csr", "csc", "coo"):
        value, form = value.tocsr(), "csr"
    if form == "coo":
        return _pair(value.shape), form, (value.row, value.col, value.data)
    return _pair(value.shape), form, (value.indptr, value.indices, value.data)


def _pair(shape: Any) -> tuple[int, int]:
    height, width = shape
    return int(height), int(width)


def compressed(shape: tuple[int, int], form: str, parts: Parts) -> Rows:
    """The entries that `stored` has found, in compressed rows. Entries at one place are added up.
    IndexError if one is outside of the matrix.
    """
    height, width = shape
    first, second, values = parts
    if form in ("csr", "csc"):
        major = np.repeat(np.arange(len(first) - 1), np.diff(first))
        count = len(major)
        rows, columns = (major, second[:count]) if form == "csr" else (second[:count], major)
        values = values[:count]
    else:
        rows, columns = _inside(first, height, 0), _inside(second, width, 1)
    places = rows.astype(np.int64) * width + columns
    if not (places[1:] > places[:-1]).all():
        order = np.argsort(places, kind="stable")
        places, values = places[order], values[order]
        starts = np.flatnonzero(np.concatenate([[True], places[1:] != places[:-1]]))
        if len(starts) < len(places):
            values = np.add.reduceat(values, starts)
            places = places[starts]
        rows, columns = np.divmod(places, max(width, 1))
    return Rows.of(np.bincount(rows, minlength=height), columns, values, width)


def _inside(places: np.ndarray, size: int, axis: int) -> np.ndarray:
    """Indices, negative ones counted from the end."""
    wrong = places[(places < -size) | (places >= size)]
    if wrong.size:
        raise IndexError(f"index {wrong[0]} is out of bounds for axis {axis} with size {size}")
    return np.where(places < 0, places + size, places)
