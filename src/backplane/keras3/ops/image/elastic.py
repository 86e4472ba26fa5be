"""Elastic deformations of images."""

from __future__ import annotations

from typing import Any

from backplane.core.graph import Tensor
from backplane.keras3.call import op
from backplane.keras3.ops.core import shape
from backplane.keras3.ops.image.colors import check_axes
from backplane.keras3.ops.image.filters import gaussian_blur
from backplane.keras3.ops.image.warping import INTERPOLATIONS, Images, check_modes
from backplane.keras3.random import normal
from backplane.keras3.settings import data_format_of
from backplane.ops.lift import cast_to
from backplane.ops.shaping import expand_dims, squeeze


def elastic_transform(
    images: Any,
    alpha: float = 20.0,
    sigma: float = 5.0,
    interpolation: str = "bilinear",
    fill_mode: str = "reflect",
    fill_value: float = 0.0,
    seed: Any = None,
    data_format: str | None = None,
) -> Any:
    """Images whose pixels are moved by `alpha` times smooth random numbers: normal ones of the
    standard deviation `sigma`, blurred by a normal density of this deviation.

    Source: https://doi.org/10.1109/ICDAR.2003.1227801

    Raises:
        ValueError: for an unknown `interpolation` or `fill_mode`, or if the shapes do not fit.
    """
    check_modes(interpolation, fill_mode)
    first = data_format_of(data_format) == "channels_first"
    sizes = shape(images)
    check_axes(sizes)
    *_, a, b, c = sizes
    samples = sizes[0] if len(sizes) == 4 else 1
    pixels = (samples, b, c) if first else (samples, a, b)
    noise = normal(pixels, stddev=float(sigma), seed=seed)
    return _deformed(
        images, noise, float(alpha), float(sigma), interpolation, fill_mode, fill_value, data_format
    )


@op
def _deformed(
    images: Any,
    noise: Any,
    alpha: float,
    sigma: float,
    interpolation: str,
    fill_mode: str,
    fill_value: float,
    data_format: str | None,
) -> Tensor:
    """Images whose pixels are moved along rows and columns by `alpha` times the blurred noise."""
    given = Images(images, data_format)
    window = int(6 * sigma) | 1
    blurred = gaussian_blur(
        expand_dims(noise, axes=(3,)), (window, window), (sigma, sigma), "channels_last"
    )
    by = cast_to(squeeze(blurred, axes=(3,)), given.dtype) * alpha
    y, x = given.grid()
    return given.at(y + by, x + by, INTERPOLATIONS[interpolation], fill_mode, fill_value)
