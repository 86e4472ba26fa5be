"""Resizing of images: products with matrices of weights, one for each axis that changes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from backplane import backend as K
from backplane.core.graph import Tensor
from backplane.core.spec import HALVES
from backplane.core.windows import Slice
from backplane.keras3.call import op
from backplane.keras3.operands import float_of, tensor_of
from backplane.keras3.ops.image.colors import check_rank
from backplane.keras3.settings import data_format_of
from backplane.ops import elementwise as ew
from backplane.ops import reduction
from backplane.ops.axes import moved
from backplane.ops.indexing import ALL, gather, pad, slice
from backplane.ops.lift import as_tensor, cast_to
from backplane.ops.operators import matrix_product
from backplane.ops.ragged import column, positions, row

Method = Callable[[Tensor], Tensor]


def _triangle(x: Tensor) -> Tensor:
    return ew.relu(1.0 - x)


def _cubic(x: Tensor) -> Tensor:
    """Keys' cubic with a = −1/2. Source: https://doi.org/10.1109/TASSP.1981.1163711"""
    near = ((1.5 * x - 2.5) * x) * x + 1.0
    far = ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0
    return ew.where(x >= 2.0, ew.zero(x), ew.where(x >= 1.0, far, near))


def _lanczos(radius: float) -> Method:
    """Two sines. Source: https://en.wikipedia.org/wiki/Lanczos_resampling"""

    def weight(x: Tensor) -> Tensor:
        product = radius * ew.sin(math.pi * x) * ew.sin(math.pi * x / radius)
        far = x > 1e-3
        square = ew.where(far, math.pi**2 * x * x, ew.one(x))
        inside = ew.where(far, product / square, ew.one(x))
        return ew.where(x > radius, ew.zero(x), inside)

    return weight


METHODS: dict[str, Method] = {
    "linear": _triangle, "bilinear": _triangle, "trilinear": _triangle, "triangle": _triangle,
    "cubic": _cubic, "bicubic": _cubic, "tricubic": _cubic,
    "lanczos3": _lanczos(3.0), "lanczos5": _lanczos(5.0),
}  # fmt: skip
"""The weight of a pixel by its distance from the place that is asked for."""
RESIZE_INTERPOLATIONS = ("bilinear", "nearest", "lanczos3", "lanczos5", "bicubic")
SCALE_AND_TRANSLATE_METHODS = {
    "linear", "bilinear", "trilinear", "cubic", "bicubic", "tricubic", "lanczos3", "lanczos5",
}  # fmt: skip


def _weights(
    x: Tensor, axis: int, wanted: int, scale: Any, translation: Any, method: Method, antialias: bool
) -> Tensor:
    """The weight of each element of an axis (first axis) in each of `wanted` ones.

    The center of element i is at i + 1/2. Where the result is smaller, `antialias` widens the
    weights, so that each element counts.
    """
    dtype = "float64" if x.spec.dtype == "float64" else "float32"
    size = cast_to(K.sum(K.ones_like(positions(x, axis))), dtype)
    inverse = 1.0 / tensor_of(scale, dtype)
    width = ew.maximum(inverse, ew.one(inverse)) if antialias else ew.one(inverse)
    numbers = as_tensor(np.arange(wanted, dtype=dtype))
    places = (numbers + 0.5) * inverse - tensor_of(translation, dtype) * inverse - 0.5
    distance = ew.abs(row(places) - column(cast_to(positions(x, axis), dtype))) / width
    weights = method(distance)
    total = reduction.sum(weights, axes=(0,), keepdims=True)
    counts = ew.abs(total) > 1000.0 * float(np.finfo("float32").eps)
    weights = ew.where(counts, weights / ew.where(counts, total, ew.one(total)), ew.zero(total))
    inside = ew.logical_and(places >= -0.5, places <= size - 0.5)
    return ew.where(row(inside), weights, ew.zero(weights))


def _product(x: Tensor, axis: int, weights: Tensor) -> Tensor:
    last = x.ndim - 1
    y = matrix_product(moved(x, axis, last), weights)
    return moved(y, last, axis)


def _nearest(x: Tensor, axis: int, wanted: int) -> Tensor:
    size = x.spec.shape[axis]
    if size is None:
        raise ValueError(f"resize: the size of axis {axis} must be known for 'nearest'")
    places = np.floor((np.arange(wanted, dtype="float32") + 0.5) * size / wanted).astype("int32")
    return gather(x, as_tensor(places), axis=axis)


def _cropped(x: Tensor, axes: Sequence[int], size: Sequence[int]) -> Tensor:
    """The largest part in the middle of images that has the proportions of `size`."""
    given = [_known(x, axis) for axis in axes]
    for axis, n, other, wanted, across in zip(
        axes, given, given[::-1], size, size[::-1], strict=True
    ):
        kept = max(min(n, int(float(other * wanted) / across)), 1)
        start = int(float(n - kept) / 2)
        parts: list[Slice] = [ALL] * x.ndim
        parts[axis] = (start, start + kept, 1)
        x = slice(x, slices=tuple(parts))
    return x


def _padded(x: Tensor, axes: Sequence[int], size: Sequence[int], value: float) -> Tensor:
    """Images with the proportions of `size`, by padding on both sides of one axis."""
    given = [_known(x, axis) for axis in axes]
    for axis, n, other, wanted, across in zip(
        axes, given, given[::-1], size, size[::-1], strict=True
    ):
        whole = max(n, int(float(other * wanted) / across))
        around = int(float(whole - n) / 2)
        if around > 0:
            pairs = [(0, 0)] * x.ndim
            pairs[axis] = (around, around)
            return pad(x, padding=tuple(pairs), value=value)
    return x


def _known(x: Tensor, axis: int) -> int:
    size = x.spec.shape[axis]
    if size is None:
        raise ValueError("resize: height and width must be known to keep the aspect ratio")
    return size


@op(static=("size",))
def resize(
    images: Any,
    size: Sequence[int],
    interpolation: str = "bilinear",
    antialias: bool = False,
    crop_to_aspect_ratio: bool = False,
    pad_to_aspect_ratio: bool = False,
    fill_mode: str = "constant",
    fill_value: float = 0.0,
    data_format: str | None = None,
) -> Tensor:
    """Images of another height and width.

    The center of pixel i is at i + 1/2, as in `jax.image.resize`.

    Raises:
        ValueError: for an unknown `interpolation` or `fill_mode`, if both aspect ratio options are
            given, or if `size` does not have two entries.
    """
    first = data_format_of(data_format) == "channels_first"
    if interpolation not in RESIZE_INTERPOLATIONS:
        raise ValueError(
            "Invalid value for argument `interpolation`. Expected of one "
            f"{RESIZE_INTERPOLATIONS}. Received: interpolation={interpolation}"
        )
    if fill_mode != "constant":
        raise ValueError(
            "Invalid value for argument `fill_mode`. Only `'constant'` is supported. Received: "
            f"fill_mode={fill_mode}"
        )
    if pad_to_aspect_ratio and crop_to_aspect_ratio:
        raise ValueError(
            "Only one of `pad_to_aspect_ratio` & `crop_to_aspect_ratio` can be `True`."
        )
    if len(size) != 2:
        raise ValueError(
            "Argument `size` must be a tuple of two elements (height, width). Received: "
            f"size={size}"
        )
    x = check_rank(tensor_of(images))
    axes = (x.ndim - 2, x.ndim - 1) if first else (x.ndim - 3, x.ndim - 2)
    if crop_to_aspect_ratio:
        x = _cropped(x, axes, size)
    elif pad_to_aspect_ratio:
        x = _padded(x, axes, size, fill_value)
    if interpolation == "nearest":
        for axis, wanted in zip(axes, size, strict=True):
            x = x if x.spec.shape[axis] == wanted else _nearest(x, axis, wanted)
        return x
    return _interpolated(float_of(x), axes, size, METHODS[interpolation], antialias)


def _interpolated(
    x: Tensor, axes: Sequence[int], size: Sequence[int], method: Method, antialias: bool
) -> Tensor:
    dtype = x.spec.dtype
    y = cast_to(x, "float32") if dtype in HALVES else x
    for axis, wanted in zip(axes, size, strict=True):
        if y.spec.shape[axis] == wanted:
            continue
        numbers = cast_to(positions(y, axis), "float32" if dtype in HALVES else dtype)
        scale = float(wanted) / K.sum(K.ones_like(numbers))
        y = _product(y, axis, _weights(y, axis, wanted, scale, 0.0, method, antialias))
    return cast_to(y, dtype)


@op(static=("output_shape", "spatial_dims"))
def scale_and_translate(
    images: Any,
    output_shape: Sequence[int],
    scale: Any,
    translation: Any,
    spatial_dims: Sequence[int],
    method: str,
    antialias: bool = True,
) -> Tensor:
    """A tensor that is scaled and moved along `spatial_dims`: element i goes to
    (i + 1/2) · scale + translation − 1/2.

    Raises:
        ValueError: for an unknown `method`.
    """
    if method not in SCALE_AND_TRANSLATE_METHODS:
        raise ValueError(
            "Invalid value for argument `method`. Expected of one "
            f"{SCALE_AND_TRANSLATE_METHODS}. Received: method={method}"
        )
    x = float_of(images)
    dtype = x.spec.dtype
    y = cast_to(x, "float32") if dtype in HALVES else x
    scales, moves = (float_of(t) for t in (scale, translation))
    for i, axis in enumerate(spatial_dims):
        wanted = int(output_shape[axis])
        weights = _weights(y, axis, wanted, scales[i], moves[i], METHODS[method], antialias)
        y = _product(y, axis, cast_to(weights, y.spec.dtype))
    return cast_to(y, dtype)
