"""Images read at other places: by coordinates and affine maps."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from backplane.core.graph import Tensor
from backplane.core.spec import HALVES, is_float
from backplane.keras3.call import op
from backplane.keras3.operands import tensor_of
from backplane.keras3.ops.image.colors import check_rank
from backplane.keras3.settings import data_format_of
from backplane.ops import elementwise as ew
from backplane.ops.axes import merge_axes, permuted
from backplane.ops.creation import Amount, size_at
from backplane.ops.indexing import gather
from backplane.ops.lift import cast_to, promoted
from backplane.ops.ragged import positions
from backplane.ops.shaping import expand_dims, squeeze

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


def check_modes(interpolation: str, fill_mode: str) -> None:
    """ValueError for an unknown interpolation or fill mode."""
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


def _snapped(at: Tensor) -> Tensor:
    """Coordinates, but the whole number itself where one is as near as rounding errors.

    A compiler may compute a coordinate twice, for the place of an element and for its weight, and
    round differently: 2.9999998 and 3 would be element 2 with the weight of element 3.
    """
    whole = ew.round(at)
    error = 2.0**-21 if at.spec.dtype == "float32" else 2.0**-50
    near = ew.abs(at - whole) <= error * ew.maximum(ew.abs(whole), ew.one(whole))
    return ew.where(near, whole, at)


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
    found = [_neighbours(_snapped(at), order) for at in coordinates]
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
    inputs: Any, coordinates: Any, order: int, fill_mode: str = "constant", fill_value: float = 0
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


class Images:
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


def numbers_of(transform: Tensor, dtype: str) -> list[Tensor]:
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
    check_modes(interpolation, fill_mode)
    transform = tensor_of(transform)
    given = Images(images, data_format)
    if transform.ndim not in (1, 2):
        raise ValueError(
            "Invalid transform rank: expected rank 1 (single transform) or rank 2 (batch of "
            f"transforms). Received input with shape: transform.shape={transform.spec.shape}"
        )
    a0, a1, a2, b0, b1, b2, *_ = numbers_of(transform, given.dtype)
    y, x = given.grid()
    everywhere = ew.zero(x) * one_of_each(given)
    rows, columns = b0 * x + b1 * y + b2 + everywhere, a0 * x + a1 * y + a2 + everywhere
    return given.at(rows, columns, INTERPOLATIONS[interpolation], fill_mode, fill_value)


def one_of_each(given: Images) -> Tensor:
    """A number for each sample (samples, 1, 1), by which one map is broadcast to all of them."""
    return expand_dims(cast_to(positions(given.x, 0), given.dtype), axes=(1, 2))
