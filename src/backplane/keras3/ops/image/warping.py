"""Images read at other places: by coordinates, affine and perspective maps."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from backplane.keras3.ops.linalg import solve
from backplane.keras3.random import normal

from backplane import backend as K
from backplane.core.graph import Tensor
from backplane.core.spec import HALVES, is_float
from backplane.keras3.call import op, tensor_of
from backplane.keras3.ops.image.colors import check_rank
from backplane.keras3.ops.image.filters import gaussian_blur
from backplane.keras3.settings import data_format_of
from backplane.ops import elementwise as ew
from backplane.ops.axes import merge_axes, permuted
from backplane.ops.creation import Amount, size_at
from backplane.ops.indexing import gather
from backplane.ops.lift import cast_to, promoted
from backplane.ops.ragged import positions
from backplane.ops.shaping import concat, expand_dims, squeeze, stack

INTERPOLATIONS = {"nearest": 0, "bilinear": 1}


def _mirrored(i: Tensor, size: Tensor) -> Tensor:
    """Places beyond the ends, reflected at the centers of the last elements."""
    last = ew.maximum(size - 1, ew.one(size))
    return ew.abs(ew.mod(i + last, last * 2) - last)


def _reflected(i: Tensor, size: Tensor) -> Tensor:
    """Places beyond the ends, reflected at the edges of the last elements."""
    doubled = _mirrored(i * 2 + 1, size * 2 + 1)
    return ew.floordiv(doubled - 1, ew.one(i) + ew.one(i))


FILL_MODES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "constant": lambda i, size: ew.minimum(ew.maximum(i, ew.zero(i)), size - 1),
    "nearest": lambda i, size: ew.minimum(ew.maximum(i, ew.zero(i)), size - 1),
    "wrap": ew.mod,
    "mirror": _mirrored,
    "reflect": _reflected,
}
"""From the name of a fill mode to the element that is read in the place of one beyond the ends."""


def _check_modes(interpolation: str, fill_mode: str) -> None:
    if interpolation not in INTERPOLATIONS:
        raise ValueError(
            "Invalid value for argument `interpolation`. Expected of one "
            f"{set(INTERPOLATIONS)}. Received: interpolation={interpolation}"
        )
    if fill_mode not in FILL_MODES:
        raise ValueError(
            f"Invalid value for argument `fill_mode`. Expected of one {set(FILL_MODES)}. "
            f"Received: fill_mode={fill_mode}"
        )


def _rounded(x: Tensor) -> Tensor:
    """Whole numbers; halves go away from zero."""
    return ew.sign(x) * ew.floor(ew.abs(x) + 0.5)


Neighbours = list[tuple[Tensor, Tensor | None]]


def _neighbours(at: Tensor, order: int) -> Neighbours:
    """The elements next to coordinates along an axis, and their weights; None means 1."""
    if order == 0:
        return [(cast_to(_rounded(at), "int32"), None)]
    lower = ew.floor(at)
    share = at - lower
    i = cast_to(lower, "int32")
    return [(i, 1.0 - share), (i + 1, share)]


def sampled(
    rows: Tensor,
    sizes: Sequence[Amount],
    coordinates: Sequence[Tensor],
    order: int,
    fill_mode: str,
    fill_value: float,
    start: Tensor | None = None,
) -> Tensor:
    """Elements of a tensor at real coordinates, by interpolation.

    Args:
        rows: The elements in row-major order along the first axis; the others are those of an
            element.
        sizes: The sizes of the axes that the coordinates count along.
        coordinates: One tensor for each of these axes, all of one shape.
        order: 0 for the nearest element, 1 for linear interpolation.
        fill_mode: What is read beyond the ends.
        fill_value: What is read there with `"constant"`.
        start: The place of the first element in `rows`, if there are several tensors.
    """
    dtype = coordinates[0].spec.dtype
    whole = [promoted(n, cast_to(positions(rows, 0), "int32"))[0] for n in sizes]
    found = [_neighbours(at, order) for at in coordinates]
    inner = rows.ndim - 1
    terms = []
    for corner in itertools.product(*found):
        place, valid = start, None
        for (i, _), size in zip(corner, whole, strict=True):
            inside = ew.logical_and(i >= 0, i < size)
            valid = inside if valid is None else ew.logical_and(valid, inside)
            fixed = FILL_MODES[fill_mode](i, size)
            place = fixed if place is None else place * size + fixed
        assert place is not None
        assert valid is not None
        value = cast_to(gather(rows, place, axis=0), dtype)
        if fill_mode == "constant":
            value = ew.where(_spread(valid, inner), value, tensor_of(fill_value, dtype))
        weights = [w for _, w in corner if w is not None]
        terms.append(value * _spread(reduce(ew.mul, weights), inner) if weights else value)
    return reduce(ew.add, terms)


def _spread(x: Tensor, count: int) -> Tensor:
    return expand_dims(x, axes=tuple(range(x.ndim, x.ndim + count))) if count else x


def _restored(y: Tensor, dtype: str) -> Tensor:
    return cast_to(y if is_float(dtype) else _rounded(y), dtype)


@op
def map_coordinates(
    inputs: Any, coordinates: Any, order: int, fill_mode: str = "constant", fill_value: float = 0.0
) -> Tensor:
    """The elements of `inputs` at coordinates, whose first axis has one entry for each axis of
    `inputs`.

    Raises:
        ValueError: if the shapes do not fit, for another `order` than 0 and 1, or an unknown
            `fill_mode`.
    """
    x, at = tensor_of(inputs), tensor_of(coordinates)
    if at.spec.shape[0] != x.ndim:
        raise ValueError(
            "First dim of `coordinates` must be the same as the rank of `inputs`. Received inputs "
            f"with shape: {x.spec.shape} and coordinate leading dim of {at.spec.shape[0]}"
        )
    if at.ndim < 2:
        raise ValueError(
            "Invalid coordinates rank: expected at least rank 2. Received input with shape: "
            f"{at.spec.shape}"
        )
    if fill_mode not in FILL_MODES:
        raise ValueError(
            f"Invalid value for argument `fill_mode`. Expected one of {set(FILL_MODES)}. "
            f"Received: fill_mode={fill_mode}"
        )
    if order not in (0, 1):
        raise ValueError(
            f"Invalid value for argument `order`. Expected one of [0, 1]. Received: order={order}"
        )
    at = at if is_float(at.spec.dtype) and at.spec.dtype not in HALVES else cast_to(at, "float32")
    sizes = [size_at(x, axis) for axis in range(x.ndim)]
    rows = merge_axes(x, [list(range(x.ndim))])
    y = sampled(rows, sizes, [at[i] for i in range(x.ndim)], order, fill_mode, fill_value)
    return _restored(y, x.spec.dtype)


class _Images:
    """Images, channels last, as rows of pixels."""

    def __init__(self, images: Any, data_format: str | None) -> None:
        self.given = check_rank(tensor_of(images))
        self.first = data_format_of(data_format) == "channels_first"
        x = expand_dims(self.given, axes=(0,)) if self.given.ndim == 3 else self.given
        self.x = permuted(x, (0, 2, 3, 1)) if self.first else x
        self.sizes = [size_at(self.x, 1), size_at(self.x, 2)]
        self.dtype = "float64" if self.x.spec.dtype == "float64" else "float32"

    def grid(self) -> tuple[Tensor, Tensor]:
        """The row and the column of each pixel: (1, rows, 1) and (1, 1, columns)."""
        rows, columns = (cast_to(positions(self.x, axis), self.dtype) for axis in (1, 2))
        return expand_dims(rows, axes=(0, 2)), expand_dims(columns, axes=(0, 1))

    def at(self, rows: Tensor, columns: Tensor, order: int, mode: str, value: float) -> Tensor:
        """The images read at coordinates (samples, rows, columns), in the layout that was given."""
        samples = expand_dims(positions(self.x, 0), axes=(1, 2))
        pixels = merge_axes(self.x, [[0, 1, 2], [3]])
        y = sampled(pixels, self.sizes, [rows, columns], order, mode, value, samples)
        y = _restored(y, self.x.spec.dtype)
        y = permuted(y, (0, 3, 1, 2)) if self.first else y
        return squeeze(y, axes=(0,)) if self.given.ndim == 3 else y


def _numbers(transform: Tensor, dtype: str) -> list[Tensor]:
    """The numbers of a map, each (samples, 1, 1)."""
    wide = cast_to(transform if transform.ndim == 2 else expand_dims(transform, axes=(0,)), dtype)
    return [expand_dims(wide[:, i], axes=(1, 2)) for i in range(8)]


@op
def affine_transform(
    images: Any,
    transform: Any,
    interpolation: str = "bilinear",
    fill_mode: str = "constant",
    fill_value: float = 0,
    data_format: str | None = None,
) -> Tensor:
    """Images whose pixel (x, y) is that of the given ones at (a0 x + a1 y + a2, b0 x + b1 y + b2).

    `transform` holds a0, a1, a2, b0, b1, b2, and two numbers that do not count, for all images or
    for each of them.

    Raises:
        ValueError: for an unknown `interpolation` or `fill_mode`, or if the shapes do not fit.
    """
    _check_modes(interpolation, fill_mode)
    transform = tensor_of(transform)
    given = _Images(images, data_format)
    if transform.ndim not in (1, 2):
        raise ValueError(
            "Invalid transform rank: expected rank 1 (single transform) or rank 2 (batch of "
            f"transforms). Received input with shape: transform.shape={transform.spec.shape}"
        )
    a0, a1, a2, b0, b1, b2, *_ = _numbers(transform, given.dtype)
    y, x = given.grid()
    everywhere = ew.zero(x) * _one_of_each(given)
    rows, columns = b0 * x + b1 * y + b2 + everywhere, a0 * x + a1 * y + a2 + everywhere
    return given.at(rows, columns, INTERPOLATIONS[interpolation], fill_mode, fill_value)


def _one_of_each(given: _Images) -> Tensor:
    """A number for each sample (samples, 1, 1), by which one map is broadcast to all of them."""
    return expand_dims(cast_to(positions(given.x, 0), given.dtype), axes=(1, 2))


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
    _check_modes(interpolation, "constant")
    given = _Images(images, data_format)
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
    a0, a1, a2, b0, b1, b2, c0, c1 = _numbers(_homography(start, end), given.dtype)
    y, x = given.grid()
    divisor = c0 * x + c1 * y + 1.0 + ew.zero(x) * _one_of_each(given)
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


@op
def elastic_transform(
    images: Any,
    alpha: float = 20.0,
    sigma: float = 5.0,
    interpolation: str = "bilinear",
    fill_mode: str = "reflect",
    fill_value: float = 0.0,
    seed: Any = None,
    data_format: str | None = None,
) -> Tensor:
    """Images whose pixels are moved by `alpha` times smooth random numbers: normal ones of the
    standard deviation `sigma`, blurred by a normal density of this deviation.

    Source: https://doi.org/10.1109/ICDAR.2003.1227801

    Raises:
        ValueError: for an unknown `interpolation` or `fill_mode`, or if the shapes do not fit.
    """
    _check_modes(interpolation, fill_mode)
    given = _Images(images, data_format)
    sizes = [size_at(given.x, axis) for axis in range(3)]
    noise = cast_to(normal(sizes, seed=seed, dtype=given.dtype), given.dtype) * float(sigma)
    window = int(6 * float(sigma)) | 1
    blurred = gaussian_blur(
        expand_dims(noise, axes=(3,)), (window, window), (float(sigma),) * 2, "channels_last"
    )
    moved_by = squeeze(blurred, axes=(3,)) * float(alpha)
    y, x = given.grid()
    order = INTERPOLATIONS[interpolation]
    return given.at(y + moved_by, x + moved_by, order, fill_mode, fill_value)
