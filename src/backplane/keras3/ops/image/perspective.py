"""Perspective maps of images."""

from __future__ import annotations

from typing import Any

from backplane import backend as K
from backplane.core.graph import Tensor
from backplane.keras3.call import op
from backplane.keras3.operands import tensor_of
from backplane.keras3.ops.image.warping import (
    INTERPOLATIONS,
    Images,
    check_modes,
    numbers_of,
    one_of_each,
)
from backplane.keras3.ops.linalg import solve
from backplane.ops import elementwise as ew
from backplane.ops.shaping import concat, expand_dims, squeeze, stack


@op
def perspective_transform(
    images: Any,
    start_points: Any,
    end_points: Any,
    interpolation: str = "bilinear",
    fill_value: float = 0,
    data_format: str | None = None,
) -> Tensor:
    """Images moved so that four points come to lie where four others are.

    Args:
        images: One image or several.
        start_points: Four points (x, y) of the given images: (4, 2), or (samples, 4, 2).
        end_points: Where they come to lie; of the same shape.
        interpolation: `"nearest"` or `"bilinear"`.
        fill_value: What lies outside of the given images.
        data_format: `"channels_last"` or `"channels_first"`; Keras' default for None.

    Raises:
        ValueError: for an unknown `interpolation`, or if the shapes do not fit.
    """
    check_modes(interpolation, "constant")
    given = Images(images, data_format)
    start, end = (tensor_of(t, given.dtype) for t in (start_points, end_points))
    for name, points in (("start_points", start), ("end_points", end)):
        if tuple(points.spec.shape[-2:]) != (4, 2) or points.ndim not in (2, 3):
            raise ValueError(
                f"Invalid {name} shape: expected (4,2) for a single image or (N,4,2) for a batch. "
                f"Received shape: {points.spec.shape}"
            )
    if start.spec.shape != end.spec.shape:
        raise ValueError(
            "start_points and end_points must have the same shape. Received "
            f"start_points.shape={start.spec.shape}, end_points.shape={end.spec.shape}"
        )
    start, end = (t if t.ndim == 3 else expand_dims(t, axes=(0,)) for t in (start, end))
    a0, a1, a2, b0, b1, b2, c0, c1 = numbers_of(_homography(start, end), given.dtype)
    y, x = given.grid()
    divisor = c0 * x + c1 * y + 1.0 + ew.zero(x) * one_of_each(given)
    rows, columns = (b0 * x + b1 * y + b2) / divisor, (a0 * x + a1 * y + a2) / divisor
    return given.at(rows, columns, INTERPOLATIONS[interpolation], "constant", fill_value)


@op
def compute_homography_matrix(start_points: Any, end_points: Any) -> Tensor:
    """The eight numbers of the perspective map from `end_points` to `start_points`, both (samples,
    4, 2).

    Source: https://en.wikipedia.org/wiki/Homography_(computer_vision)
    """
    return _homography(tensor_of(start_points), tensor_of(end_points))


def _homography(start: Tensor, end: Tensor) -> Tensor:
    """Each pair of points gives two equations, and the eight of them have one solution."""
    sx, sy, ex, ey = start[..., 0], start[..., 1], end[..., 0], end[..., 1]
    none, one = K.zeros_like(ex), K.ones_like(ex)
    by_x = stack([ex, ey, one, none, none, none, -sx * ex, -sx * ey], 2)
    by_y = stack([none, none, none, ex, ey, one, -sy * ex, -sy * ey], 2)
    wanted = expand_dims(concat(sx, sy, axis=1), axes=(2,))
    return squeeze(solve(concat(by_x, by_y, axis=1), wanted), axes=(2,))
