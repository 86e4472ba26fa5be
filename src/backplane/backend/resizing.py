"""Enlarging images and volumes by whole factors."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from backplane.backend._args import as_int
from backplane.backend._call import api
from backplane.backend._spatial_arguments import check_rank, is_first
from backplane.backend.activation import float_tensor
from backplane.backend.types import DataFormat, Interpolation, TensorLike
from backplane.core.graph import Tensor
from backplane.ops.axes import merge_axes, repeated
from backplane.ops.indexing import part
from backplane.ops.lift import as_tensor
from backplane.ops.shaping import concat, expand_dims

__all__ = ["resize_images", "resize_volumes"]


def _factors(x: Tensor, data_format: str | None, named: Mapping[str, int]) -> dict[int, int]:
    """The factors by spatial axis. These functions need a data format; None is not one."""
    first = is_first("" if data_format is None else data_format)
    check_rank("x", x, len(named) + 2)
    factors = [_factor(f"{what}_factor", value) for what, value in named.items()]
    return dict(enumerate(factors, 2 if first else 1))


def _factor(what: str, value: int) -> int:
    try:
        factor = as_int(value, what)
    except TypeError:
        factor = 0
    if factor < 1:
        raise ValueError(f"{what} must be a positive int, got {value!r}")
    return factor


def _repeat(x: Tensor, factors: Mapping[int, int]) -> Tensor:
    """`x` with each element repeated `factors[axis]` times along these axes."""
    growing = [(axis, n) for axis, n in factors.items() if n > 1]
    # Two at a time, the inner ones first: TensorFlow cannot broadcast volumes along three new axes.
    while growing:
        x = repeated(x, dict(growing[-2:]))
        growing = growing[:-2]
    return x


def _interpolate(x: Tensor, axis: int, factor: int) -> Tensor:
    """`x` with `factor - 1` values between neighbours along `axis`; the last repeats itself."""
    if factor == 1:
        return x
    here = expand_dims(x, axes=(axis + 1,))
    after = expand_dims(concat(part(x, axis, 1), part(x, axis, -1), axis=axis), axes=(axis + 1,))
    share = np.arange(factor, dtype="float64").reshape((factor, *[1] * (x.ndim - axis - 1)))
    y = here + (after - here) * as_tensor((share / factor).astype(x.spec.dtype))
    places = [[i] for i in range(y.ndim)]
    return merge_axes(y, [*places[:axis], [axis, axis + 1], *places[axis + 2 :]])


@api
def resize_images(
    x: TensorLike,
    height_factor: int,
    width_factor: int,
    data_format: DataFormat,
    interpolation: Interpolation = "nearest",
) -> Tensor:
    """Enlarge images: multiply their height and width by whole numbers.

    Args:
        x: Tensor (batch, rows, columns, channels), or (batch, channels, rows, columns) with
            channels first.
        height_factor: Positive int.
        width_factor: Positive int.
        data_format: `"channels_last"` or `"channels_first"`.
        interpolation: `"nearest"` repeats every pixel. `"bilinear"` takes pixel i of the result at
            i / factor of the image, without a shift by half a pixel. Beyond the end, the last row
            and column are repeated.

    Returns:
        A tensor of the same layout. `"nearest"` keeps the dtype. `"bilinear"` keeps float dtypes,
        and turns others into `K.floatx()`.

    Raises:
        ValueError: if `data_format` or `interpolation` is none of these, if a factor is not a
            positive whole number, or if `x` does not have 4 axes.

    Source:
        Bilinear as classic Keras had it: `tf.compat.v1.image.resize_bilinear` with
        `align_corners=False`. The other convention, of `tf.image.resize`, PyTorch and Keras 3,
        takes pixel i at (i + 0.5) / factor - 0.5.

    Example:
        >>> from backplane import backend as K
        >>> x = K.constant([[[[1.0], [2.0]], [[3.0], [4.0]]]])
        >>> K.eval(K.resize_images(x, 1, 2, "channels_last"))[0, :, :, 0]
        array([[1., 1., 2., 2.],
               [3., 3., 4., 4.]], dtype=float32)
        >>> K.eval(K.resize_images(x, 2, 1, "channels_last", "bilinear"))[0, :, :, 0]
        array([[1., 2.],
               [2., 3.],
               [3., 4.],
               [3., 4.]], dtype=float32)
    """
    if interpolation not in ("nearest", "bilinear"):
        raise ValueError(f'interpolation must be "nearest" or "bilinear", got {interpolation!r}')
    y = as_tensor(x)
    factors = _factors(y, data_format, {"height": height_factor, "width": width_factor})
    if interpolation == "nearest":
        return _repeat(y, factors)
    y = float_tensor(y)
    for axis, factor in factors.items():
        y = _interpolate(y, axis, factor)
    return y


@api
def resize_volumes(
    x: TensorLike,
    depth_factor: int,
    height_factor: int,
    width_factor: int,
    data_format: DataFormat,
) -> Tensor:
    """Enlarge volumes: multiply their depth, height and width by whole numbers, by repeating
    elements.

    Args:
        x: Tensor (batch, depth, rows, columns, channels), or (batch, channels, depth, rows,
            columns) with channels first.
        depth_factor: Positive int.
        height_factor: Positive int.
        width_factor: Positive int.
        data_format: `"channels_last"` or `"channels_first"`.

    Returns:
        A tensor of the same layout and dtype.

    Raises:
        ValueError: if `data_format` is none of these, if a factor is not a positive whole number,
            or if `x` does not have 5 axes.

    Example:
        >>> from backplane import backend as K
        >>> x = K.placeholder((None, 4, None, 6, 3))
        >>> K.int_shape(K.resize_volumes(x, 2, 2, 3, "channels_last"))
        (None, 8, None, 18, 3)
    """
    x = as_tensor(x)
    factors = {"depth": depth_factor, "height": height_factor, "width": width_factor}
    return _repeat(x, _factors(x, data_format, factors))
