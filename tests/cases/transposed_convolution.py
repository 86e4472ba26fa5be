"""Transposed convolution in two and three dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np

from cases import window_oracles as loops
from cases.convolution import FIRST, ONE_TO, format_error, padding_error
from cases.record import case, floats, values

TX, TW = floats(4, 2, 3, 3), floats(3, 2, 5, 3)
case(
    "conv2d_transpose",
    TX,
    TW,
    (4, 4, 4, 5),
    oracle=loops.conv_transpose,
    smooth=True,
    errors=[
        format_error("conv2d_transpose", TX, TW, (4, 4, 4, 5)),
        padding_error("conv2d_transpose", TX, TW, (4, 4, 4, 5)),
        ((TX, TW, (4, 4, 5)), {}, ValueError, r"K\.conv2d_transpose: output_shape must have 4"),
        ((TX, TW, (4, 5, 4, 5)), {}, ValueError, r"output_shape asks for 5 .* axis 0.* give 4"),
        (
            (TX, TW, (4, 7, 5, 5)),
            {"strides": 2},
            ValueError,
            r"output_shape asks for 7 .* axis 0.* give 5 to 6",
        ),
        ((TX, TW, (4, 4, 4, 3)), {}, ValueError, r"output_shape .* has 3 channels.* makes 5"),
        ((TX, TW, (3, 4, 4, 5)), {}, ValueError, r"output_shape .* has a batch of 3, x .* 4"),
        ((TX, floats(3, 2, 3, 5), (4, 4, 4, 3)), {}, ValueError, r"x has 3 channels.* for 5"),
        ((TX, TW, (4, 4, "a", 5)), {}, TypeError, r"K\.conv2d_transpose: output_shape"),
        ((floats(4, 2, 3), TW, (4, 4, 4, 5)), {}, ValueError, r"x must have 4 axes"),
    ],
)
for label, output_shape, s, padding, d in (
    ("5", (None, 5, 7, 5), 2, "valid", 1),
    ("6", (None, 6, 6, 5), 2, "valid", 1),
    ("same", (None, 4, 6, 5), 2, "same", 1),
    ("same-odd", (None, 3, 5, 5), 2, "same", 1),
    ("same-3", (4, 2, 9, 5), (1, 3), "same", 1),
    ("rate", (4, 6, 5, 5), 1, "valid", 2),
    ("same-rate", (4, 2, 3, 5), 1, "same", (2, 3)),
):
    kwargs = {"strides": s, "padding": padding, "dilation_rate": d}
    args = (TX, TW, output_shape)
    case("conv2d_transpose", *args, oracle=loops.conv_transpose, id=label, **kwargs)
case(
    "conv2d_transpose",
    floats(4, 3, 2, 3),
    TW,
    (None, 5, 4, 6),
    oracle=loops.conv_transpose,
    id="first",
    strides=(2, 2),
    padding="same",
    **FIRST,
)


def by_shape(x: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """The result of each way to say the same shape."""
    return loops.conv_transpose(x, kernel, (4, 5, 6, 5), strides=2)


case(
    "conv2d_transpose",
    TX,
    TW,
    fn=lambda K, x, w: K.conv2d_transpose(x, w, (None, None, -1, None), strides=2),
    oracle=by_shape,
    id="shape-inferred",
)
case(
    "conv2d_transpose",
    TX,
    TW,
    fn=lambda K, x, w: K.conv2d_transpose(
        x, w, [K.shape(x)[0], K.shape(x)[1] * 2 + 1, 6, 5], strides=2
    ),
    oracle=by_shape,
    id="shape-tensors",
)
case(
    "conv2d_transpose",
    TX,
    TW,
    fn=lambda K, x, w: K.conv2d_transpose(
        x, w, K.shape(x) * K.constant([1, 2, 2, 1], "int32") + [0, 1, 0, 2], strides=2
    ),
    oracle=by_shape,
    id="shape-vector",
    eager=False,
)


def stated_transposed(
    name: str, n: int, expected: list[list[float]], k: int, **kwargs: Any
) -> None:
    """A result written out: x = 1 … 4, kernel = 1 … 4 or 9."""
    x = values(ONE_TO[4].reshape(1, 2, 2, 1))
    kernel = values(np.arange(1.0, k * k + 1).reshape(k, k, 1, 1))
    oracle = np.asarray(expected)[None, :, :, None]
    label = f"stated-{name}"
    args = (x, kernel, (1, n, n, 1))
    case("conv2d_transpose", *args, oracle=oracle, id=label, grad=False, batch=False, **kwargs)


stated_transposed("valid", 3, [[1, 4, 4], [6, 20, 16], [9, 24, 16]], 2)
stated_transposed(
    "stride", 4, [[1, 2, 2, 4], [3, 4, 6, 8], [3, 6, 4, 8], [9, 12, 12, 16]], 2, strides=(2, 2)
)
stated_transposed(
    "same",
    4,
    [[1, 2, 5, 4], [4, 5, 14, 10], [10, 14, 36, 24], [12, 15, 34, 20]],
    3,
    strides=(2, 2),
    padding="same",
)
stated_transposed(
    "same-odd", 3, [[5, 14, 10], [14, 36, 24], [15, 34, 20]], 3, strides=(2, 2), padding="same"
)

T3 = floats(4, 2, 2, 3, 2)
case(
    "conv3d_transpose",
    T3,
    floats(2, 3, 2, 3, 2),
    (4, 3, 4, 4, 3),
    oracle=loops.conv_transpose,
    smooth=True,
    errors=[
        format_error("conv3d_transpose", T3, floats(2, 3, 2, 3, 2), (4, 3, 4, 4, 3)),
        padding_error("conv3d_transpose", T3, floats(2, 3, 2, 3, 2), (4, 3, 4, 4, 3)),
        (
            (T3, floats(2, 3, 2, 3, 2), (4, 3, 4, 5, 3)),
            {},
            ValueError,
            r"K\.conv3d_transpose: output_shape asks for 5 .* axis 2",
        ),
    ],
)
case(
    "conv3d_transpose",
    T3,
    floats(2, 3, 2, 3, 2),
    (None, 4, 3, 6, 3),
    oracle=loops.conv_transpose,
    id="same",
    strides=(2, 2, 2),
    padding="same",
)
case(
    "conv3d_transpose",
    floats(4, 2, 2, 2, 3),
    floats(2, 3, 2, 3, 2),
    (None, 3, 4, 5, 6),
    oracle=loops.conv_transpose,
    id="first",
    strides=(2, 2, 2),
    **FIRST,
)
