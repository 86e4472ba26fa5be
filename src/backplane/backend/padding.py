"""Zeros around time steps, images and volumes."""

from __future__ import annotations

from collections.abc import Sequence

from backplane.backend._args import as_entries, entries_of
from backplane.backend._call import api
from backplane.backend._spatial_arguments import check_rank, is_first
from backplane.backend.types import DataFormat, Pair, TensorLike
from backplane.core.graph import Tensor
from backplane.ops.creation import Amount
from backplane.ops.lift import as_tensor
from backplane.ops.windows import padded

__all__ = ["spatial_2d_padding", "spatial_3d_padding", "temporal_padding"]


def _padded(x: TensorLike, padding: Sequence[Pair], count: int, first: bool = False) -> Tensor:
    """`x` with zeros along its `count` spatial axes."""
    x = as_tensor(x)
    check_rank("x", x, count + 2)
    listed = entries_of(padding, "padding")
    if not isinstance(listed, list | tuple) or len(listed) != count:
        raise ValueError(f"padding must be {count} pairs (before, after) of ints, got {padding!r}")
    around: list[tuple[Amount, Amount]] = [(0, 0), *map(_pair, listed)]
    around.insert(1 if first else len(around), (0, 0))
    return padded(x, around, 0)


def _pair(value: object) -> tuple[Amount, Amount]:
    listed = entries_of(value, "padding")
    if not isinstance(listed, list | tuple) or len(listed) != 2:
        raise ValueError(f"padding must hold pairs (before, after) of ints, got {value!r}")
    before, after = as_entries(listed, "padding")
    if any(not isinstance(n, Tensor) and n < 0 for n in (before, after)):
        raise ValueError(f"padding must not be negative, got {value!r}")
    return before, after


@api
def temporal_padding(x: TensorLike, padding: Pair = (1, 1)) -> Tensor:
    """Add zeros before and after the time steps of a 3D tensor.

    Args:
        x: Tensor (batch, steps, features) of any dtype.
        padding: Pair of ints or scalar integer tensors: how many steps to add at the start and at
            the end of axis 1.

    Returns:
        A tensor (batch, steps + padding[0] + padding[1], features).

    Raises:
        ValueError: if `x` does not have 3 axes, or `padding` is not a pair or negative.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.temporal_padding(K.constant([[[1.0], [2.0]]]), (1, 2)))[0, :, 0]
        array([0., 1., 2., 0., 0.], dtype=float32)
    """
    return _padded(x, [padding], 1)


@api
def spatial_2d_padding(
    x: TensorLike, padding: Sequence[Pair] = ((1, 1), (1, 1)), data_format: DataFormat | None = None
) -> Tensor:
    """Add zeros around the images of a 4D tensor.

    Args:
        x: Tensor (batch, rows, columns, channels), or (batch, channels, rows, columns) with
            channels first, of any dtype.
        padding: Two pairs of ints or scalar integer tensors: rows to add above and below, columns
            to add left and right.
        data_format: `"channels_last"`, `"channels_first"`, or None for `K.image_data_format()`.

    Returns:
        A tensor of the same layout.

    Raises:
        ValueError: if `data_format` is not a data format, if `x` does not have 4 axes, or if
            `padding` is not two pairs, or negative.

    Example:
        >>> from backplane import backend as K
        >>> x = K.constant([[[[1.0], [2.0]]]])
        >>> K.eval(K.spatial_2d_padding(x, ((1, 0), (0, 1))))[0, :, :, 0]
        array([[0., 0., 0.],
               [1., 2., 0.]], dtype=float32)
    """
    return _padded(x, padding, 2, is_first(data_format))


@api
def spatial_3d_padding(
    x: TensorLike,
    padding: Sequence[Pair] = ((1, 1), (1, 1), (1, 1)),
    data_format: DataFormat | None = None,
) -> Tensor:
    """Add zeros around the volumes of a 5D tensor.

    Args:
        x: Tensor (batch, depth, rows, columns, channels), or (batch, channels, depth, rows,
            columns) with channels first, of any dtype.
        padding: Three pairs of ints or scalar integer tensors: how many zeros to add at the start
            and at the end of the depth, the rows and the columns.
        data_format: `"channels_last"`, `"channels_first"`, or None for `K.image_data_format()`.

    Returns:
        A tensor of the same layout.

    Raises:
        ValueError: if `data_format` is not a data format, if `x` does not have 5 axes, or if
            `padding` is not three pairs, or negative.

    Example:
        >>> from backplane import backend as K
        >>> x = K.placeholder((None, 4, 5, 6, 3))
        >>> K.int_shape(K.spatial_3d_padding(x, ((1, 1), (0, 2), (0, 0))))
        (None, 6, 7, 6, 3)
    """
    return _padded(x, padding, 3, is_first(data_format))
