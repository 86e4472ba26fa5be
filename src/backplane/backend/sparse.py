"""Sparse tensors.

A sparse placeholder, variable or constant is a matrix for which `K.is_sparse` is true. Every
function takes it, in its dense form. If all their operands are sparse, the results of `K.identity`
and `K.concatenate` are sparse too. No engine holds such a matrix in a sparse format yet: it takes
the memory of a dense one.
"""

from __future__ import annotations

from typing import Any

from backplane.backend._adapters import adaptable
from backplane.backend._args import as_shape
from backplane.backend._call import api
from backplane.backend.types import TensorLike
from backplane.core.graph import Tensor
from backplane.core.sparse import dense_array, is_sparse_matrix
from backplane.ops.elementwise import maximum
from backplane.ops.indexing import scatter_add
from backplane.ops.lift import as_tensor, cast_to
from backplane.ops.shaping import reshape

__all__ = ["is_sparse", "to_dense"]


class SparseTensor:
    """A sparse tensor in coordinate form, as in TensorFlow, made of tensors or native values."""

    __slots__ = ("dense_shape", "indices", "values")

    def __init__(self, indices: Any, values: Any, dense_shape: Any) -> None:
        self.indices = indices
        """int64 (entries, axes): where each entry is, in row-major order."""
        self.values = values
        """(entries,): the entries."""
        self.dense_shape = dense_shape
        """int64 (axes,): the shape of the dense tensor."""

    @property
    def dtype(self) -> Any:
        """The dtype of the entries."""
        return self.values.dtype

    def __repr__(self) -> str:
        parts = f"indices={self.indices}, values={self.values}, dense_shape={self.dense_shape}"
        return f"SparseTensor({parts})"


@adaptable
def is_sparse(tensor: object) -> bool:
    """Whether a tensor is sparse.

    Args:
        tensor: Anything. A `scipy.sparse` matrix and the result of `K.ctc_label_dense_to_sparse`
            are sparse too.

    Example:
        >>> from backplane import backend as K
        >>> K.is_sparse(K.placeholder((2, 2), sparse=False))
        False
        >>> K.is_sparse(K.placeholder((2, 2), sparse=True))
        True
    """
    if isinstance(tensor, Tensor):
        return tensor.spec.sparse
    return isinstance(tensor, SparseTensor) or is_sparse_matrix(tensor)


@adaptable
def to_dense(tensor: Any) -> Any:
    """Convert a sparse tensor to a dense one.

    Args:
        tensor: Tensor, sparse or not. A `scipy.sparse` matrix becomes a NumPy array.

    Returns:
        A dense tensor, which is `tensor` itself if that is dense.

    Example:
        >>> from backplane import backend as K
        >>> c = K.to_dense(K.placeholder((2, 2), sparse=True))
        >>> K.is_sparse(c)
        False
    """
    if isinstance(tensor, SparseTensor):
        return _scattered(tensor.indices, tensor.values, tensor.dense_shape)
    if is_sparse_matrix(tensor):
        return dense_array(tensor)
    if isinstance(tensor, Tensor) and tensor.spec.sparse:
        return as_tensor(tensor)
    return tensor


@api
def _scattered(indices: TensorLike, values: TensorLike, dense_shape: TensorLike) -> Tensor:
    """The matrix of this shape with `values` at `indices`, and zeros elsewhere."""
    indices, values = as_tensor(indices), as_tensor(values)
    dims, shape = as_shape(as_tensor(dense_shape), "dense_shape")
    rows, columns = (cast_to(indices[:, axis], "int32") for axis in (0, 1))
    width = cast_to(as_tensor(dense_shape)[1], "int32")
    # Surplus entries have index -1 and value 0.
    place = maximum(rows * width + columns, as_tensor(0, "int32"))
    count = cast_to(as_tensor(dense_shape)[0], "int32") * width
    flat = scatter_add(values, place, count, shape=(None,), axis=0)
    return reshape(flat, *dims, shape=shape)
