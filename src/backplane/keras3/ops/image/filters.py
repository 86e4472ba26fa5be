"""Filters of images: each channel is convolved with the same kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from backplane import backend as K
from backplane.backend import _spatial_arguments as spatial
from backplane.backend._convolution_nd import Convolution
from backplane.core.graph import Tensor
from backplane.keras3.call import op
from backplane.keras3.operands import float_of, tensor_of
from backplane.keras3.ops.image.colors import check_rank
from backplane.keras3.settings import data_format_of
from backplane.ops.lift import as_tensor, cast_to
from backplane.ops.shaping import expand_dims, squeeze, stack


def filtered(x: Tensor, kernel: Tensor, first: bool) -> Tensor:
    """Images whose channels are each convolved with a kernel (rows, columns). Zeros lie around
    them.
    """
    channels = x.spec.shape[1 if first else -1]
    if channels is None:
        raise ValueError("the number of channels must be known")
    wide = expand_dims(kernel, axes=(2, 3)) * K.ones((1, 1, channels, 1), dtype=kernel.spec.dtype)
    layout = "channels_first" if first else "channels_last"
    return Convolution(2, 1, "same", layout, 1).depthwise(x, wide)


def _bell(size: int, sigma: Tensor) -> Tensor:
    """A normal density at `size` whole numbers around 0, scaled to sum to 1."""
    places = np.arange(size) - (size - 1) / 2
    weights = K.exp(-0.5 * K.square(as_tensor(places.astype(sigma.spec.dtype)) / sigma))
    return weights / K.sum(weights)


@op(static=("kernel_size",))
def gaussian_blur(
    images: Any,
    kernel_size: Sequence[int] = (3, 3),
    sigma: Any = (1.0, 1.0),
    data_format: str | None = None,
) -> Tensor:
    """Images convolved with a normal density of the standard deviations `sigma` (columns, rows)."""
    x = check_rank(float_of(images))
    given = x.spec.dtype
    wide = tensor_of(sigma, given)
    columns, rows = _bell(kernel_size[0], wide[0]), _bell(kernel_size[1], wide[1])
    kernel = expand_dims(rows, axes=(1,)) * expand_dims(columns, axes=(0,))
    batch = expand_dims(x, axes=(0,)) if x.ndim == 3 else x
    y = filtered(batch, kernel, data_format_of(data_format) == "channels_first")
    return squeeze(y, axes=(0,)) if x.ndim == 3 else y


SOBEL = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]])


@op
def sobel_edges(images: Any, data_format: str | None = None) -> Tensor:
    """The derivatives of images by rows and columns, by Sobel's operator, along a new last axis.

    Source: https://en.wikipedia.org/wiki/Sobel_operator
    """
    x = float_of(images)
    spatial.check_rank("images", x, 4)
    first = data_format == "channels_first"
    across = cast_to(as_tensor(SOBEL), x.spec.dtype)
    down = cast_to(as_tensor(SOBEL.T), x.spec.dtype)
    return stack([filtered(x, down, first), filtered(x, across, first)], x.ndim)
