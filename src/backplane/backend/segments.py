"""Rows that are combined by segment, as the messages of a graph network are by node."""

from __future__ import annotations

from backplane.backend._args import as_count, as_integers
from backplane.backend._call import api
from backplane.backend.types import TensorLike
from backplane.core.graph import Tensor
from backplane.core.spec import NUMBER, is_integer
from backplane.ops import scattering
from backplane.ops.creation import Amount
from backplane.ops.lift import as_tensor, cast_to

__all__ = ["segment_max", "segment_sum"]


@api
def segment_sum(data: TensorLike, segment_ids: TensorLike, num_segments: int | Tensor) -> Tensor:
    """Sum the rows of each segment.

    An addition of Backplane: the documents of the Keras backend API do not have it.

    Args:
        data: Tensor of numbers.
        segment_ids: Integer tensor, array or list: the segment of each row, in any order. Its axes
            are the first axes of `data`, and it has one at least. Rows whose id is negative, or not
            below `num_segments`, are left out on every engine.
        num_segments: The number of segments: an int, or an integer scalar such as `K.shape(x)[0]`.

    Returns:
        A tensor of the dtype of `data`, with `num_segments` as its first size, followed by the
        other axes of `data`. A segment without rows is 0.

    Raises:
        ValueError: if the axes of `segment_ids` are not the first ones of `data`, or `num_segments`
            is negative.
        TypeError: if `data` holds no numbers, or `segment_ids` no integers.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.segment_sum(K.constant([1.0, 2.0, 4.0]), [2, 0, 2], 3))
        array([2., 0., 5.], dtype=float32)
    """
    return scattering.segment_sum(*_checked(data, segment_ids, num_segments))


@api
def segment_max(data: TensorLike, segment_ids: TensorLike, num_segments: int | Tensor) -> Tensor:
    """Largest elements among the rows of each segment.

    An addition of Backplane: the documents of the Keras backend API do not have it.

    Args:
        data: Tensor of numbers.
        segment_ids: Integer tensor, array or list: the segment of each row, in any order. Its axes
            are the first axes of `data`, and it has one at least. Rows whose id is negative, or not
            below `num_segments`, are left out on every engine.
        num_segments: The number of segments: an int, or an integer scalar such as `K.shape(x)[0]`.

    Returns:
        A tensor of the dtype of `data`, with `num_segments` as its first size, followed by the
        other axes of `data`. A segment without rows is -inf, or the least integer. Tied maxima
        share the gradient.

    Raises:
        ValueError: if the axes of `segment_ids` are not the first ones of `data`, or `num_segments`
            is negative.
        TypeError: if `data` holds no numbers, or `segment_ids` no integers.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.segment_max(K.constant([1.0, 2.0, 4.0]), [2, 0, 2], 3))
        array([  2., -inf,   4.], dtype=float32)
    """
    return scattering.segments(*_checked(data, segment_ids, num_segments), by="max")


def _checked(
    data: TensorLike, segment_ids: TensorLike, num_segments: int | Tensor
) -> tuple[Tensor, Tensor, Amount]:
    rows = as_tensor(data)
    if rows.spec.dtype not in NUMBER:
        raise TypeError(f"data must hold numbers, got dtype {rows.spec.dtype}; cast it")
    ids = as_integers(segment_ids, "segment_ids")
    first = rows.spec.shape[: ids.ndim]
    fits = 0 < ids.ndim <= rows.ndim and all(
        None in pair or pair[0] == pair[1] for pair in zip(ids.spec.shape, first, strict=True)
    )
    if not fits:
        raise ValueError(
            "the axes of segment_ids must be the first axes of data, one at least; got shapes "
            f"{ids.spec.shape} for segment_ids and {rows.spec.shape} for data"
        )
    return rows, ids, _number(num_segments)


def _number(num_segments: int | Tensor) -> Amount:
    if not isinstance(num_segments, Tensor):
        return as_count(num_segments, "num_segments")
    if num_segments.ndim or not is_integer(num_segments.spec.dtype):
        raise TypeError(
            "num_segments must be an int or an integer scalar, got a tensor of shape "
            f"{num_segments.spec.shape} and dtype {num_segments.spec.dtype}"
        )
    return cast_to(num_segments, "int32")
