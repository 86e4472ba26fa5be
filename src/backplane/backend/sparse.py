"""Sparse tensors.

A sparse placeholder, variable or constant is a matrix for which `K.is_sparse` is true. Every
function takes it, in its dense form, and so it does with a tensor in coordinate form
(`SparseTensor`). If all their operands are sparse, the results of `K.identity` and `K.concatenate`
are sparse too. Programs multiply large ones in compressed rows (`compile.sparse`). All other
functions see a dense matrix.
"""

from __future__ import annotations

from typing import Any

from backplane import engines
from backplane.backend._adapters import adaptable
from backplane.backend._args import as_shape
from backplane.backend._call import api
from backplane.backend.types import TensorLike
from backplane.core.graph import Tensor
from backplane.core.hooks import HOOKS
from backplane.core.sparse import SparseTensor, dense_array, is_sparse_matrix
from backplane.core.spec import NUMBER
from backplane.ops.creation import Amount, filled, shaped, size_at
from backplane.ops.elementwise import less, less_equal, logical_or, mul, not_equal, where
from backplane.ops.indexing import gather, scatter_add
from backplane.ops.lift import as_tensor, cast_to, promoted
from backplane.ops.shaping import expand_dims, reshape, transpose

__all__ = ["is_sparse", "to_dense"]


@adaptable
def is_sparse(tensor: object) -> bool:
    """Whether a tensor is sparse.

    Args:
        tensor: Anything. A `scipy.sparse` matrix, a `tf.SparseTensor` and the result of
            `K.ctc_label_dense_to_sparse` are sparse too.

    Example:
        >>> from backplane import backend as K
        >>> K.is_sparse(K.placeholder((2, 2), sparse=False))
        False
        >>> K.is_sparse(K.placeholder((2, 2), sparse=True))
        True
    """
    if isinstance(tensor, Tensor):
        return tensor.spec.sparse
    return isinstance(engines.sparse_parts(tensor), SparseTensor) or is_sparse_matrix(tensor)


@adaptable
def to_dense(tensor: Any) -> Any:
    """Convert a sparse tensor to a dense one.

    Args:
        tensor: Tensor, sparse or not. A `scipy.sparse` matrix becomes a NumPy array.

    Returns:
        A dense tensor, which is `tensor` itself if that is dense. Entries at the same place are
        added up.

    Raises:
        IndexError: if an entry is outside of the shape. Engines that do not check indices (JAX,
            MLX) leave it out.

    Example:
        >>> from backplane import backend as K
        >>> c = K.to_dense(K.placeholder((2, 2), sparse=True))
        >>> K.is_sparse(c)
        False
    """
    parts = engines.sparse_parts(tensor)
    if isinstance(parts, SparseTensor):
        return _scattered(*parts)
    if is_sparse_matrix(tensor):
        return dense_array(tensor)
    if isinstance(tensor, Tensor) and tensor.spec.sparse:
        return as_tensor(tensor)
    return tensor


@api
def _scattered(indices: TensorLike, values: TensorLike, dense_shape: TensorLike) -> Tensor:
    """The tensor of this shape with `values` at `indices`, and zeros elsewhere."""
    indices, values = as_tensor(indices), as_tensor(values)
    sizes = cast_to(as_tensor(dense_shape), "int32")
    dims, shape = as_shape(sizes, "dense_shape")
    places, outside = _places(indices, sizes, len(shape))
    place, count = as_tensor(0, "int32"), as_tensor(1, "int32")
    for axis, at in enumerate(places):
        place = place * sizes[axis] + at
        count = count * sizes[axis]
    place = where(outside, _behind(values, count), place)
    flat = scatter_add(values, place, count, shape=(None,), axis=0)
    return reshape(flat, *dims, shape=shape)


def _places(indices: Tensor, sizes: Tensor, rank: int) -> tuple[list[Tensor], Tensor]:
    """The places of entries along each axis, and whether they are outside."""
    places = [cast_to(indices[:, axis], "int32") for axis in range(rank)]
    none, outside = as_tensor(0, "int32"), as_tensor(False)
    for axis, at in enumerate(places):
        outside = logical_or(outside, logical_or(less(at, none), less_equal(sizes[axis], at)))
    return places, outside


def _behind(values: Tensor, end: Tensor) -> Tensor:
    """The places of entries outside: the end, or 0 for surplus ones, of index -1 and value 0."""
    return where(not_equal(values, as_tensor(0, values.spec.dtype)), end, as_tensor(0, "int32"))


def product_of_coordinates(x: Any, y: Any) -> Tensor | None:
    """The product of two matrices of which one is in coordinate form: a sum of rows for each entry.
    None if the other one is in this form too, or no matrix.
    """
    left = isinstance(x, SparseTensor)
    entries, other = (x, y) if left else (y, x)
    if isinstance(other, SparseTensor) or entries.dense_shape.shape != (2,):
        return None
    values, dense = promoted(as_tensor(entries.values), other)
    if dense.ndim != 2 or values.spec.dtype not in NUMBER:
        return None
    sizes, places = _inside(entries, values)
    at, from_ = places if left else places[::-1]
    count, inner = sizes if left else sizes[::-1]
    rows = dense if left else transpose(dense, perm=(1, 0))
    if isinstance(inner, Tensor) or rows.spec.shape[0] is None:  # It fails if the sizes differ.
        rows = shaped(reshape, [inner, size_at(rows, 1)], rows)
    elif inner != rows.spec.shape[0]:
        form = f"({sizes[0]}, {sizes[1]})"
        raise ValueError(
            f"cannot multiply {form if left else dense.spec.shape} and "
            f"{dense.spec.shape if left else form}: the inner sizes differ"
        )
    products = mul(expand_dims(values, axes=(1,)), gather(rows, from_, axis=0))
    total = shaped(scatter_add, [count, size_at(rows, 1)], products, at, axis=0)
    return total if left else transpose(total, perm=(1, 0))


def _inside(entries: SparseTensor, values: Tensor) -> tuple[list[Amount], list[Tensor]]:
    """The sizes of a matrix, and the rows and columns of its entries. Those of surplus entries are
    0, as their values are. The row of another entry outside is behind the end.
    """
    indices, shape = as_tensor(entries.indices), cast_to(as_tensor(entries.dense_shape), "int32")
    dims, known = as_shape(shape, "dense_shape")
    (rows, columns), outside = _places(indices, shape, 2)
    rows = where(outside, _behind(values, shape[0]), rows)
    return filled(known, dims), [rows, where(outside, as_tensor(0, "int32"), columns)]


HOOKS["to_dense"] = to_dense
