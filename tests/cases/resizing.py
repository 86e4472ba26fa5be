"""Images and volumes made larger."""

from __future__ import annotations

import numpy as np

from cases import window_oracles as loops
from cases.record import case, floats, ints, values

LAST, FIRST = "channels_last", "channels_first"


def resized(
    x: np.ndarray, rows: int, columns: int, data_format: str, interpolation: str = "nearest"
) -> np.ndarray:
    """Either interpolation."""
    method = loops.repeat if interpolation == "nearest" else loops.bilinear
    return method(x, (int(rows), int(columns)), data_format)


X = floats(2, 3, 4, 2)
case(
    "resize_images",
    X,
    2,
    3,
    LAST,
    oracle=resized,
    smooth=True,
    errors=[
        ((X, 2, 2, "last"), {}, ValueError, r"K\.resize_images: data_format must be .*'last'"),
        ((X, 2, 2, None), {}, ValueError, r"K\.resize_images: data_format must be"),
        ((X, 2, 2, LAST, "cubic"), {}, ValueError, r"K\.resize_images: interpolation .*'cubic'"),
        ((X, 1.5, 2, LAST), {}, ValueError, r"height_factor must be a positive int, got 1\.5"),
        ((X, 2, 0, LAST), {}, ValueError, r"width_factor must be a positive int, got 0"),
        ((floats(2, 3, 4), 2, 2, LAST), {}, ValueError, r"K\.resize_images: x must have 4 axes"),
    ],
)
for data_format in (LAST, FIRST):
    for interpolation in ("nearest", "bilinear"):
        for rows, columns in ((1, 1), (1, 3), (2, 2), (3, 1)):
            args = (X, rows, columns, data_format, interpolation)
            label = f"{data_format}-{interpolation}-{rows}x{columns}"
            case("resize_images", *args, oracle=resized, id=label)
case("resize_images", X, 2.0, np.int64(2), LAST, "bilinear", oracle=resized, id="numbers")
case("resize_images", ints(2, 3, 4, 2), 2, 2, LAST, oracle=resized, id="ints")
case("resize_images", ints(2, 3, 4, 2), 2, 2, LAST, "bilinear", oracle=resized, id="ints-bilinear")
case(
    "resize_images",
    values([[[[1.0], [2.0]], [[3.0], [4.0]]]]),
    2,
    2,
    LAST,
    "bilinear",
    oracle=np.reshape(
        [[1, 1.5, 2, 2], [2, 2.5, 3, 3], [3, 3.5, 4, 4], [3, 3.5, 4, 4]], (1, 4, 4, 1)
    ),
    id="stated",
    grad=False,
)

X = floats(2, 3, 2, 4, 2)
case(
    "resize_volumes",
    X,
    2,
    1,
    3,
    LAST,
    oracle=lambda x, *args: loops.repeat(x, args[:3], args[3]),
    smooth=True,
    errors=[
        ((X, 2, 2, 2, "last"), {}, ValueError, r"K\.resize_volumes: data_format must be .*'last'"),
        ((X, 0, 2, 2, LAST), {}, ValueError, r"depth_factor must be a positive int, got 0"),
        ((floats(2, 3), 2, 2, 2, LAST), {}, ValueError, r"K\.resize_volumes: x must have 5 axes"),
    ],
)
for data_format in (LAST, FIRST):
    for factors in ((2, 2, 2), (1, 3, 1)):
        case(
            "resize_volumes",
            X,
            *factors,
            data_format,
            oracle=lambda x, *args: loops.repeat(x, args[:3], args[3]),
            id=f"{data_format}-{'x'.join(map(str, factors))}",
        )
