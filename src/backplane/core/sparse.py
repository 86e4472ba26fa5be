"""Sparse tensors in coordinate form, and sparse matrices that callers pass in. These are recognised
by their attributes, because SciPy is not a dependency.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from backplane.core.graph import OPERATORS
from backplane.core.spec import Shape


def _operator(name: str) -> Callable[..., Any]:
    def method(self: SparseTensor, *operands: object) -> Any:
        return OPERATORS[name](OPERATORS["to_dense"](self), *operands)

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
    """Whether `value` is the triple (indices, values, shape) of a matrix, the form that TensorFlow
    1 took for feeding.
    """
    if not isinstance(value, tuple) or len(value) != 3:
        return False
    return [np.ndim(part) for part in value] == [2, 1, 1] and len(value[2]) == 2


def dense_array(value: Any) -> np.ndarray:
    """The dense array of what `is_sparse_matrix` or `is_triple` recognised; repeated entries add
    up.
    """
    if is_sparse_matrix(value):
        return np.asarray(value.toarray())
    indices, values, shape = value
    values = np.asarray(values)
    result = np.zeros([int(n) for n in shape], values.dtype)
    np.add.at(result, tuple(np.asarray(indices, "int64").T), values)
    return result
