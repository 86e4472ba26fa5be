"""Pooling, and convolution with weights of its own at every place."""

from __future__ import annotations

from typing import Any

import numpy as np

from cases import window_oracles as loops
from cases.record import case, distinct, floats, ints, values

FIRST = {"data_format": "channels_first"}
X = distinct(3, 5, 6, 2)


def errors(name: str, x: Any, size: Any) -> list[tuple[Any, ...]]:
    """What every pooling refuses."""
    return [
        ((x, size), {"data_format": "x"}, ValueError, rf"K\.{name}: data_format must be .*'x'"),
        ((x, size), {"padding": "SAME"}, ValueError, rf"K\.{name}: padding must be .*'SAME'"),
        ((x, size), {"padding": "causal"}, ValueError, rf"K\.{name}: padding must be .*'causal'"),
        ((x, size), {"pool_mode": "sum"}, ValueError, rf"K\.{name}: pool_mode must be .*'sum'"),
        ((floats(2, 3), size), {}, ValueError, rf"K\.{name}: x must have . axes, got shape"),
        ((x, 7), {}, ValueError, rf"K\.{name}: the window does not fit.* 7 "),
        ((x, 0), {}, ValueError, rf"K\.{name}: pool_size must be at least 1"),
        ((x, (1,)), {}, ValueError, rf"K\.{name}: pool_size must be"),
        ((x, size), {"strides": 0}, ValueError, rf"K\.{name}: strides must be at least 1"),
        ((x, "2"), {}, TypeError, rf"K\.{name}: pool_size must be an int"),
    ]


FIRST_OF_FOUR = [[[[1.0], [0.0]], [[0.0], [0.0]]]]
case(
    "pool2d",
    X,
    (2, 2),
    oracle=loops.pool,
    smooth=True,
    kinks=[((np.ones((1, 2, 2, 1)),), (FIRST_OF_FOUR,))],
    errors=[
        *errors("pool2d", X, (2, 2)),
        ((ints(3, 5, 6, 2), 2), {"pool_mode": "avg"}, TypeError, r"K\.pool2d: x must hold floats"),
        ((X, (6, 1)), {}, ValueError, r"K\.pool2d: the window does not fit.* 6 .*0, which has 5"),
    ],
)
case(
    "pool2d",
    X,
    3,
    oracle=loops.pool,
    id="kink-padded",
    padding="same",
    # Each of the four windows has the first of the four elements as its first maximum.
    kinks=[((np.zeros((1, 2, 2, 1)),), (np.asarray(FIRST_OF_FOUR) * 4,))],
)
for mode in ("max", "avg"):
    for padding in ("valid", "same"):
        for size, s in (((2, 2), (2, 2)), ((3, 2), (1, 2)), ((2, 3), (3, 1)), ((1, 1), (2, 2))):
            label = "-".join([mode, padding, *("x".join(map(str, t)) for t in (size, s))])
            kwargs = {"strides": s, "padding": padding, "pool_mode": mode}
            smooth = size == (3, 2)
            case("pool2d", X, size, oracle=loops.pool, id=label, smooth=smooth, **kwargs)
    kwargs = {"strides": (2, 2), "padding": "same", "pool_mode": mode, **FIRST}
    case("pool2d", distinct(3, 2, 5, 6), (3, 3), oracle=loops.pool, id=f"{mode}-first", **kwargs)

SIXTEEN = np.arange(1.0, 17).reshape(1, 4, 4, 1)
for mode, stated in (("max", [[11, 12], [15, 16]]), ("avg", [[6, 7.5], [12, 13.5]])):
    case(
        "pool2d",
        values(SIXTEEN),
        (3, 3),
        oracle=np.reshape(stated, (1, 2, 2, 1)),
        id=f"stated-{mode}",
        grad=False,
        strides=(2, 2),
        padding="same",
        pool_mode=mode,
    )
# Padding does not win over negative numbers.
case("pool2d", floats(3, 5, 5, 2, low=-2.0, high=-1.0), 3, oracle=loops.pool, padding="same")
for _dtype, _most in (("uint16", 2**16), ("uint32", 2**32), ("uint64", 2**63 + 2**62)):
    case(
        "pool2d",
        values(
            np.array([1, _most // 2, 7, _most - 1, 0, _most // 2 + 1]).reshape(1, 2, 3, 1), _dtype
        ),
        (2, 2),
        oracle=np.array([_most - 1, _most // 2 + 1]).reshape(1, 1, 2, 1),
        id=_dtype,
        needs=["unsigned"],
    )
case("pool2d", ints(3, 5, 6, 2, low=-9, high=9), 3, oracle=loops.pool, id="ints", padding="same")
case("pool2d", floats(0, 5, 6, 2), 2, oracle=np.zeros((0, 4, 5, 2)), id="empty", grad=False)

X3 = distinct(2, 3, 4, 5, 2)
case("pool3d", X3, (2, 2, 2), oracle=loops.pool, smooth=True, errors=errors("pool3d", X3, 2))
for mode in ("max", "avg"):
    for padding in ("valid", "same"):
        kwargs = {"strides": (2, 1, 3), "padding": padding, "pool_mode": mode}
        label = f"{mode}-{padding}"
        case("pool3d", X3, (2, 3, 2), oracle=loops.pool, id=label, smooth=True, **kwargs)
    kwargs = {"strides": 2, "padding": "same", "pool_mode": mode, **FIRST}
    case("pool3d", distinct(2, 2, 3, 4, 5), 2, oracle=loops.pool, id=f"{mode}-first", **kwargs)

# --- weights of their own -------------------------------------------------------------------------


def local_1d(
    x: np.ndarray, kernel: np.ndarray, size: Any, strides: Any, data_format: str | None = None
) -> np.ndarray:
    """The axes do not depend on the data format."""
    size, strides = loops.steps(size, 1), loops.steps(strides, 1)
    return loops.local_conv(x, kernel, size, strides, kernel.shape[:1])


LX, LW = floats(5, 6, 2), floats(4, 6, 3)
case(
    "local_conv1d",
    LX,
    LW,
    (3,),
    (1,),
    oracle=local_1d,
    smooth=True,
    errors=[
        ((LX, LW, 3, 1), {"data_format": "x"}, ValueError, r"K\.local_conv1d: data_format .*'x'"),
        ((LX, LW, 2, 1), {}, ValueError, r"K\.local_conv1d: kernel .*has 6 weights"),
        ((LX, LW, 3, 2), {}, ValueError, r"K\.local_conv1d: 4 windows of 3 with stride 2 cover 9"),
        ((LX, LW, (3, 3), 1), {}, ValueError, r"K\.local_conv1d: kernel_size must be 1 int"),
        ((floats(5, 6), LW, 3, 1), {}, ValueError, r"K\.local_conv1d: inputs must have 3 axes"),
        ((LX, floats(4, 6), 3, 1), {}, ValueError, r"K\.local_conv1d: kernel must have 3 axes"),
        ((LX, LW, 3, 0), {}, ValueError, r"K\.local_conv1d: strides must be at least 1"),
    ],
)
case("local_conv1d", floats(5, 8, 2), floats(3, 4, 3), 2, 3, oracle=local_1d, id="stride")
case("local_conv1d", LX, LW, 3, 1, oracle=local_1d, id="first", **FIRST)
case("local_conv1d", LX, floats(2, 6, 3), 3, 1, oracle=local_1d, id="fewer")
case(
    "local_conv1d",
    values([[[1.0], [2.0], [3.0], [4.0]]]),
    values(np.ones((3, 2, 1))),
    (2,),
    (1,),
    oracle=[[[3], [5], [7]]],
    id="stated",
    grad=False,
)

case("local_conv", LX, LW, (3,), (1,), (4,), oracle=loops.local_conv, id="1d")
case(
    "local_conv",
    floats(5, 2, 6),
    floats(2, 6, 3),
    (3,),
    (3,),
    (2,),
    oracle=loops.local_conv,
    id="1d-first",
    **FIRST,
)
case(
    "local_conv",
    floats(2, 4, 3, 3, 2),
    floats(6, 16, 3),
    (2, 2, 2),
    (1, 1, 2),
    (3, 2, 1),
    oracle=loops.local_conv,
    id="3d",
    smooth=True,
    errors=[
        ((floats(2, 3), LW, 3, 1, (2,)), {}, ValueError, r"K\.local_conv: inputs must have 3 axes"),
        ((LX, LW, 3, 1, (2, 2)), {}, ValueError, r"K\.local_conv: output_shape must be 1 int"),
        ((LX, LW, 3, 1, (3,)), {}, ValueError, r"K\.local_conv: output_shape .* has 3 places"),
    ],
)

LX, LW = floats(5, 4, 5, 2), floats(6, 12, 3)
case(
    "local_conv2d",
    LX,
    LW,
    (3, 2),
    (1, 1),
    (2, 3),
    oracle=loops.local_conv,
    smooth=True,
    errors=[
        ((LX, LW, 3, 1, (2, 2)), {}, ValueError, r"K\.local_conv2d: output_shape .* has 4 places"),
        (
            (LX, LW, (3, 2), (1, 1), (2, 3)),
            {"data_format": "x"},
            ValueError,
            r"K\.local_conv2d: data_format must be .*'x'",
        ),
        ((LX, LW, (3, 2), (2, 1), (2, 3)), {}, ValueError, r"2 windows of 3 with stride 2 cover 5"),
        ((LX, LW, (2, 2), (1, 1), (2, 3)), {}, ValueError, r"K\.local_conv2d: kernel .*12 weights"),
    ],
)
case(
    "local_conv2d",
    floats(5, 5, 6, 2),
    floats(6, 8, 3),
    (2, 2),
    (3, 2),
    (2, 3),
    oracle=loops.local_conv,
    id="stride",
)
case(
    "local_conv2d",
    floats(5, 2, 4, 5),
    LW,
    (3, 2),
    (1, 1),
    (2, 3),
    oracle=loops.local_conv,
    id="first",
    **FIRST,
)
