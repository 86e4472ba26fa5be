"""The elements of a tensor in order, and the largest of them."""

from __future__ import annotations

from backplane.backend._args import as_axis, as_count
from backplane.backend._call import api
from backplane.backend.types import Axis, TensorLike
from backplane.core.graph import Tensor
from backplane.ops import reduction as red
from backplane.ops.axes import moved
from backplane.ops.lift import as_tensor, cast_to

__all__ = ["argsort", "sort", "top_k"]


@api
def sort(x: TensorLike, axis: Axis = -1) -> Tensor:
    """Elements along an axis in ascending order.

    An addition of Backplane: the documents of the Keras backend API do not have it.

    Args:
        x: Tensor with at least one axis.
        axis: Int in [-ndim, ndim).

    Returns:
        A tensor of the shape and dtype of `x`. NaN come last, as in `numpy.sort`. A gradient goes
        back to the places where the elements come from.

    Raises:
        ValueError: if `axis` is out of range.
        TypeError: if `axis` is not an int.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.sort(K.constant([[3.0, 1.0, 2.0]])))
        array([[1., 2., 3.]], dtype=float32)
    """
    return _sorted(x, axis)[0]


@api
def argsort(x: TensorLike, axis: Axis = -1) -> Tensor:
    """Positions of the elements along an axis, in the order of `K.sort`.

    An addition of Backplane: the documents of the Keras backend API do not have it.

    Args:
        x: Tensor with at least one axis.
        axis: Int in [-ndim, ndim).

    Returns:
        An int64 tensor of the shape of `x`. Equal elements keep their order, and NaN come last.

    Raises:
        ValueError: if `axis` is out of range.
        TypeError: if `axis` is not an int.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.argsort(K.constant([3.0, 1.0, 2.0])))
        array([1, 2, 0])
    """
    return cast_to(_sorted(x, axis)[1], "int64")


def _sorted(x: TensorLike, axis: Axis) -> list[Tensor]:
    """The elements along an axis in order, and their positions before."""
    x = as_tensor(x)
    kind, position, last = x.spec.dtype, as_axis(axis, x), x.ndim - 1
    rows = moved(x, position, last)
    # Engines sort numbers.
    values, positions = red.sort(cast_to(rows, "uint8") if kind == "bool" else rows)
    return [moved(t, last, position) for t in (cast_to(values, kind), positions)]


@api
def top_k(x: TensorLike, k: int) -> tuple[Tensor, Tensor]:
    """Largest elements along the last axis, and their positions.

    An addition of Backplane: the documents of the Keras backend API do not have it.

    Args:
        x: Tensor of numbers with at least one axis.
        k: How many of them; at most the size of the last axis.

    Returns:
        A tuple of two tensors with `k` as their last size: the elements in descending order, and
        their positions (int32). The first of tied elements comes first.

    Raises:
        ValueError: if `k` is negative or larger than the last axis.
        TypeError: if `k` is not an int, or `x` holds bools.

    Example:
        >>> from backplane import backend as K
        >>> values, positions = K.top_k(K.constant([0.1, 0.7, 0.2]), 2)
        >>> K.eval(positions)
        array([1, 2], dtype=int32)
    """
    values, positions = red.top_k(as_tensor(x), k=as_count(k, "k"))
    return values, positions
