"""Colors of images: gray, and hue, saturation and value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from backplane import backend as K
from backplane.core.graph import Tensor
from backplane.core.spec import is_float
from backplane.keras3.call import op
from backplane.keras3.operands import float_of, tensor_of
from backplane.keras3.settings import data_format_of
from backplane.ops import elementwise as ew
from backplane.ops.indexing import part
from backplane.ops.lift import cast_to
from backplane.ops.shaping import concat

GRAY = (0.2989, 0.5870, 0.1140)
"""The shares of red, green and blue in the brightness of a pixel. Source: ITU-R BT.601, rounded as
`tf.image.rgb_to_grayscale` has them."""


def check_rank(x: Tensor) -> Tensor:
    """The tensor, if it is an image or a batch of images.

    Raises:
        ValueError: otherwise.
    """
    check_axes(x.spec.shape)
    return x


def check_axes(shape: Sequence[Any]) -> None:
    """ValueError unless a shape is that of an image or of a batch of images."""
    if len(shape) not in (3, 4):
        raise ValueError(
            "Invalid images rank: expected rank 3 (single image) or rank 4 (batch of images). "
            f"Received input with shape: images.shape={tuple(shape)}"
        )


def channels_axis(x: Tensor, data_format: str | None) -> int:
    """The axis of the channels of an image, or of images."""
    return x.ndim - (1 if data_format_of(data_format) == "channels_last" else 3)


def _planes_of(x: Tensor, axis: int) -> list[Tensor]:
    """The three channels of images, each with an axis of size 1."""
    return [part(x, axis, i, i + 1) for i in range(3)]


@op
def rgb_to_grayscale(images: Any, data_format: str | None = None) -> Tensor:
    """The brightness of pixels: 0.2989 red + 0.5870 green + 0.1140 blue. Gray images stay as they
    are.

    Raises:
        ValueError: if the images have neither 1 nor 3 channels.
    """
    x = check_rank(tensor_of(images))
    axis = channels_axis(x, data_format)
    if x.spec.shape[axis] not in (1, 3):
        raise ValueError(
            "Invalid channel size: expected 3 (RGB) or 1 (Grayscale). Received input with shape: "
            f"images.shape={x.spec.shape}"
        )
    if x.spec.shape[axis] == 1:
        return x
    planes = _planes_of(float_of(x), axis)
    gray = reduce(ew.add, [plane * share for plane, share in zip(planes, GRAY, strict=True)])
    return cast_to(gray, x.spec.dtype)


def _converted(
    images: Any,
    data_format: str | None,
    convert: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, ...]],
) -> Tensor:
    """Float images whose three channels were converted."""
    x = check_rank(tensor_of(images))
    if not is_float(x.spec.dtype):
        raise ValueError(
            f"Invalid images dtype: expected float dtype. Received: images.dtype={x.spec.dtype}"
        )
    axis = channels_axis(x, data_format)
    if x.spec.shape[axis] not in (3, None):
        raise ValueError(
            "Invalid channel size: expected 3. Received input with shape: "
            f"images.shape={x.spec.shape}"
        )
    return concat(*convert(*_planes_of(x, axis)), axis=axis)


def _to_hsv(*planes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    dtype = planes[0].spec.dtype
    least = float(np.finfo(dtype).eps) if dtype != "bfloat16" else 2.0**-7
    nothing = ew.zero(planes[0])
    r, g, b = [ew.where(ew.abs(t) < least, nothing, t) for t in planes]
    value = ew.maximum(ew.maximum(r, g), b)
    spread = value - ew.minimum(ew.minimum(r, g), b)
    one = ew.one(value)
    colored = spread > 0.0
    saturation = ew.where(value > 0.0, spread / ew.where(value > 0.0, value, one), nothing)
    norm = 1.0 / (6.0 * ew.where(colored, spread, one))
    hue = ew.where(ew.equal(value, g), norm * (b - r) + 2.0 / 6.0, norm * (r - g) + 4.0 / 6.0)
    hue = ew.where(ew.equal(value, r), norm * (g - b), hue)
    hue = ew.where(colored, hue, nothing) + cast_to(hue < 0.0, dtype)
    return hue, saturation, value


@op
def rgb_to_hsv(images: Any, data_format: str | None = None) -> Tensor:
    """Hue, saturation and value, all between 0 and 1.

    Source: https://en.wikipedia.org/wiki/HSL_and_HSV#From_RGB

    Raises:
        ValueError: if the images are no floats.
    """
    return _converted(images, data_format, _to_hsv)


def _to_rgb(hue: Tensor, saturation: Tensor, value: Tensor) -> tuple[Tensor, ...]:
    sixth = ew.mod(hue, ew.one(hue)) * 6.0
    shares = (
        ew.abs(sixth - 3.0) - 1.0,
        2.0 - ew.abs(sixth - 2.0),
        2.0 - ew.abs(sixth - 4.0),
    )
    rest = 1.0 - saturation
    return tuple(value * (rest + saturation * K.clip(share, 0.0, 1.0)) for share in shares)


@op
def hsv_to_rgb(images: Any, data_format: str | None = None) -> Tensor:
    """Red, green and blue of pixels that are given by hue, saturation and value.

    Source: https://en.wikipedia.org/wiki/HSL_and_HSV#HSV_to_RGB

    Raises:
        ValueError: if the images are no floats.
    """
    return _converted(images, data_format, _to_rgb)
