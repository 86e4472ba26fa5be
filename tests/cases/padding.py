"""Zeros around time steps, images and volumes."""

from __future__ import annotations

import numpy as np

from cases import window_oracles as loops
from cases.record import bools, case, floats, ints

FIRST = {"data_format": "channels_first"}


def around(x: np.ndarray, padding: object = 1, data_format: str | None = None) -> np.ndarray:
    """One pair per spatial axis, (1, 1) by default."""
    pairs = ((1, 1),) * (x.ndim - 2) if padding == 1 else padding
    return loops.pad(x, pairs, data_format)


X = floats(2, 4, 3)
case(
    "temporal_padding",
    X,
    oracle=around,
    smooth=True,
    errors=[
        ((floats(2, 3), (1, 1)), {}, ValueError, r"K\.temporal_padding: x must have 3 axes"),
        ((X, (1, 1, 1)), {}, ValueError, r"K\.temporal_padding: padding must hold pairs"),
        ((X, (-1, 1)), {}, ValueError, r"K\.temporal_padding: padding must not be negative"),
        ((X, (1, 0.5)), {}, TypeError, r"K\.temporal_padding: padding: each size must be an int"),
    ],
)
case("temporal_padding", X, (2, 0), oracle=lambda x, p: loops.pad(x, [p]), id="uneven")
case("temporal_padding", X, [0, 3], oracle=lambda x, p: loops.pad(x, [p]), id="list")
case("temporal_padding", X, (0, 0), oracle=lambda x, p: x, id="none")
case("temporal_padding", ints(2, 4, 3), oracle=around, id="ints")
case("temporal_padding", bools(2, 4, 3), oracle=around, id="bools")

X = floats(2, 4, 5, 3)
case(
    "spatial_2d_padding",
    X,
    oracle=around,
    smooth=True,
    errors=[
        ((X,), {"data_format": "x"}, ValueError, r"K\.spatial_2d_padding: data_format .*'x'"),
        ((floats(2, 3, 4),), {}, ValueError, r"K\.spatial_2d_padding: x must have 4 axes"),
        ((X, ((1, 1),)), {}, ValueError, r"K\.spatial_2d_padding: padding must be 2 pairs"),
        ((X, ((1, 1), (1,))), {}, ValueError, r"K\.spatial_2d_padding: padding must hold pairs"),
        ((X, ((1, 1), (1, -1))), {}, ValueError, r"padding must not be negative"),
        ((X, ((1, 1), (1, "a"))), {}, TypeError, r"K\.spatial_2d_padding: padding"),
    ],
)
case("spatial_2d_padding", X, ((1, 2), (0, 3)), oracle=around, id="uneven")
case("spatial_2d_padding", X, ((1, 2), (0, 3)), oracle=around, id="first", **FIRST)
case("spatial_2d_padding", X, [[1, 2], [0, 3]], oracle=around, id="lists", data_format=None)

X = floats(2, 3, 4, 2, 3)
case(
    "spatial_3d_padding",
    X,
    oracle=around,
    smooth=True,
    errors=[
        ((X,), {"data_format": "x"}, ValueError, r"K\.spatial_3d_padding: data_format .*'x'"),
        ((floats(2, 3, 4),), {}, ValueError, r"K\.spatial_3d_padding: x must have 5 axes"),
        ((X, ((1, 1), (1, 1))), {}, ValueError, r"K\.spatial_3d_padding: padding must be 3 pairs"),
    ],
)
case("spatial_3d_padding", X, ((1, 0), (0, 2), (3, 1)), oracle=around, id="uneven")
case("spatial_3d_padding", X, ((1, 0), (0, 2), (3, 1)), oracle=around, id="first", **FIRST)

case(
    "temporal_padding",
    floats(2, 4, 3),
    fn=lambda K, x: K.temporal_padding(x, (K.shape(x)[2] - 2, K.shape(x)[1] // 2)),
    oracle=lambda x: loops.pad(x, [(1, 2)]),
    id="tensors",
    smooth=True,
)
case(
    "spatial_2d_padding",
    floats(2, 3, 4, 2),
    fn=lambda K, x: K.spatial_2d_padding(x, ((K.shape(x)[1], 1), (0, K.shape(x)[2] % 3))),
    oracle=lambda x: loops.pad(x, [(3, 1), (0, 1)]),
    id="tensors",
)
