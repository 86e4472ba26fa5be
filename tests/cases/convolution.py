"""Convolution in one to three dimensions, depthwise, separable; adding a bias."""

from __future__ import annotations

from typing import Any

import numpy as np

from cases import window_oracles as loops
from cases.record import case, floats, ints, values

FIRST = {"data_format": "channels_first"}
ONE_TO = {n: np.arange(1.0, n + 1) for n in (2, 3, 4, 5, 6, 8, 16)}

# --- one axis -------------------------------------------------------------------------------------


def format_error(name: str, *args: Any) -> tuple[Any, ...]:
    """An unknown data format."""
    return (args, {"data_format": "last"}, ValueError, rf"K\.{name}: data_format must be .*'last'")


def padding_error(name: str, *args: Any, padding: str = "SAME") -> tuple[Any, ...]:
    """An unknown padding: it is case-sensitive."""
    return (args, {"padding": padding}, ValueError, rf"K\.{name}: padding must be .*'{padding}'")


X1, W1 = floats(4, 6, 2), floats(3, 2, 5)
case(
    "conv1d",
    floats(4, 8, 2),
    floats(3, 2, 3),
    oracle=loops.conv,
    smooth=True,
    errors=[
        format_error("conv1d", X1, W1),
        padding_error("conv1d", X1, W1),
        padding_error("conv1d", X1, W1, padding="full"),
        ((floats(4, 6), W1), {}, ValueError, r"K\.conv1d: x must have 3 axes"),
        ((X1, floats(3, 2)), {}, ValueError, r"K\.conv1d: kernel must have 3 axes"),
        ((floats(4, 6, 3), W1), {}, ValueError, r"K\.conv1d: x has 3 channels.* for 2"),
        ((X1, floats(7, 2, 5)), {}, ValueError, r"K\.conv1d: the window does not fit.*7.*6"),
        ((X1, W1), {"dilation_rate": 3}, ValueError, r"K\.conv1d: the window does not fit.*7"),
        ((X1, W1), {"strides": 0}, ValueError, r"K\.conv1d: strides must be at least 1"),
        ((X1, W1), {"dilation_rate": -1}, ValueError, r"K\.conv1d: dilation_rate must be"),
        ((X1, W1), {"strides": (1, 1)}, ValueError, r"K\.conv1d: strides"),
        ((X1, W1), {"strides": 1.5}, TypeError, r"K\.conv1d: strides must be an int"),
        ((ints(4, 6, 2), ints(3, 2, 5)), {}, TypeError, r"K\.conv1d: .*float.*int32"),
    ],
)
for padding in ("valid", "same", "causal"):
    for n, k, s, d in ((7, 3, 2, 1), (8, 2, 3, 1), (8, 3, 1, 2), (9, 2, 2, 2)):
        label = f"{padding}-{n}-{k}-stride{s}-rate{d}"
        kwargs: dict[str, Any] = {"strides": s, "padding": padding, "dilation_rate": d}
        args = (floats(4, n, 2), floats(k, 2, 3))
        case("conv1d", *args, oracle=loops.conv, id=label, **kwargs)
case("conv1d", floats(4, 8, 2), floats(1, 2, 3), oracle=loops.conv, id="pointwise", strides=2)
for padding in ("valid", "same", "causal"):
    args = (floats(4, 2, 7), floats(3, 2, 5))
    case("conv1d", *args, oracle=loops.conv, id=f"first-{padding}", padding=padding, **FIRST)


def stated_1d(name: str, expected: list[float], **kwargs: Any) -> None:
    """A result written out: x = 1 … 6, kernel = 1, 2, 3."""
    x, kernel = values(ONE_TO[6].reshape(1, 6, 1)), values(ONE_TO[3].reshape(3, 1, 1))
    oracle = np.reshape(expected, (1, -1, 1))
    case("conv1d", x, kernel, oracle=oracle, id=f"stated-{name}", grad=False, **kwargs)


stated_1d("valid", [14, 20, 26, 32])
stated_1d("same", [8, 14, 20, 26, 32, 17], padding="same")
stated_1d("causal", [3, 8, 14, 20, 26, 32], padding="causal")
stated_1d("valid-2", [14, 26], strides=2)
stated_1d("same-2", [14, 26, 17], padding="same", strides=2)
stated_1d("causal-2", [3, 14, 26], padding="causal", strides=(2,))
stated_1d("valid-rate", [22, 28], dilation_rate=2)
stated_1d("same-rate", [11, 16, 22, 28, 13, 16], padding="same", dilation_rate=2.0)
stated_1d("causal-rate", [3, 6, 11, 16, 22, 28], padding="causal", dilation_rate=(2,))

# --- two axes -------------------------------------------------------------------------------------

X2, W2 = floats(2, 5, 6, 3), floats(3, 3, 3, 4)
case(
    "conv2d",
    X2,
    W2,
    oracle=loops.conv,
    smooth=True,
    dtypes=("float16", "float32", "float64"),
    errors=[
        format_error("conv2d", X2, W2),
        padding_error("conv2d", X2, W2),
        padding_error("conv2d", X2, W2, padding="causal"),
        ((floats(5, 6, 3), W2), {}, ValueError, r"K\.conv2d: x must have 4 axes, got shape"),
        ((X2, floats(3, 3, 3)), {}, ValueError, r"K\.conv2d: kernel must have 4 axes"),
        ((X2, floats(3, 3, 2, 4)), {}, ValueError, r"K\.conv2d: x has 3 channels.* for 2"),
        ((X2, W2), FIRST, ValueError, r"K\.conv2d: x has 5 channels.* for 3"),
        ((X2, floats(6, 1, 3, 4)), {}, ValueError, r"K\.conv2d: the window does not fit.*6.*5"),
        ((X2, W2), {"strides": (1, 2, 3)}, ValueError, r"K\.conv2d: strides must be 2 ints"),
        ((X2, W2), {"strides": (1, 0)}, ValueError, r"K\.conv2d: strides must be at least 1"),
        ((X2, W2), {"strides": None}, TypeError, r"K\.conv2d: strides must be an int"),
        ((ints(2, 5, 6, 3), ints(3, 3, 3, 4)), {}, TypeError, r"K\.conv2d: .*float.*int32"),
    ],
)
for padding in ("valid", "same"):
    for shape, window, s, d in (
        ((5, 6), (2, 3), (2, 2), (1, 1)),
        ((7, 8), (3, 2), (3, 2), (1, 1)),
        ((7, 6), (3, 2), (1, 1), (2, 3)),
        ((7, 8), (3, 3), (2, 3), (2, 1)),
        ((4, 4), (1, 1), (2, 3), (1, 1)),
    ):
        label = "-".join([padding, *("x".join(map(str, t)) for t in (shape, window, s, d))])
        kwargs = {"strides": s, "padding": padding, "dilation_rate": d}
        args = (floats(4, *shape, 2), floats(*window, 2, 3))
        case("conv2d", *args, oracle=loops.conv, id=label, **kwargs)
    args = (floats(2, 3, 6, 5), floats(3, 2, 3, 4))
    kwargs = {"padding": padding, "strides": (1, 2), **FIRST}
    case("conv2d", *args, oracle=loops.conv, id=f"first-{padding}", smooth=True, **kwargs)
case(
    "conv2d",
    floats(3, 5, 6, 2),
    floats(2, 2, 2, 3),
    oracle=lambda x, w, **kwargs: loops.conv(x, w, strides=2, padding="same"),
    id="one-stride",
    strides=2,
    padding="same",
    data_format="Channels_Last",
)
case("conv2d", floats(0, 5, 6, 2), floats(2, 2, 2, 3), oracle=loops.conv, id="empty", grad=False)
for _id, _x, _kernel in (
    ("without-channels", floats(2, 5, 6, 0), floats(3, 2, 0, 3)),
    ("without-filters", floats(2, 5, 6, 2), floats(3, 2, 2, 0)),
    ("of-points-without-channels", floats(2, 5, 6, 0), floats(1, 1, 0, 3)),
):
    case("conv2d", _x, _kernel, oracle=loops.conv, id=_id, smooth=True)


def stated_2d(name: str, expected: list[list[float]], **kwargs: Any) -> None:
    """A result written out: x = 1 … 16, kernel = 1 … 4."""
    x, kernel = values(ONE_TO[16].reshape(1, 4, 4, 1)), values(ONE_TO[4].reshape(2, 2, 1, 1))
    oracle = np.asarray(expected)[None, :, :, None]
    case("conv2d", x, kernel, oracle=oracle, id=f"stated-{name}", grad=False, **kwargs)


stated_2d("valid", [[44, 54, 64], [84, 94, 104], [124, 134, 144]])
stated_2d("same-2", [[44, 64], [124, 144]], padding="same", strides=(2, 2))
stated_2d("rate", [[78, 88], [118, 128]], dilation_rate=(2, 2))

# --- three axes -----------------------------------------------------------------------------------

X3, W3 = floats(3, 3, 4, 5, 2), floats(2, 2, 3, 2, 3)
case(
    "conv3d",
    X3,
    W3,
    oracle=loops.conv,
    smooth=True,
    errors=[
        format_error("conv3d", X3, W3),
        padding_error("conv3d", X3, W3),
        ((X2, W3), {}, ValueError, r"K\.conv3d: x must have 5 axes"),
        ((X3, floats(2, 2, 3, 4, 3)), {}, ValueError, r"K\.conv3d: x has 2 channels.* for 4"),
    ],
)
for padding in ("valid", "same"):
    for s, d in (((2, 1, 2), (1, 1, 1)), ((1, 1, 1), (2, 1, 2)), ((1, 2, 2), (1, 2, 1))):
        label = "-".join([padding, *("x".join(map(str, t)) for t in (s, d))])
        kwargs = {"strides": s, "padding": padding, "dilation_rate": d}
        args = (floats(3, 4, 5, 6, 1), floats(2, 2, 3, 1, 2))
        case("conv3d", *args, oracle=loops.conv, id=label, **kwargs)
case(
    "conv3d",
    floats(3, 2, 4, 3, 5),
    floats(2, 2, 3, 2, 3),
    oracle=loops.conv,
    id="first",
    padding="same",
    **FIRST,
)

# --- channel by channel ---------------------------------------------------------------------------

DX, DW = floats(4, 5, 6, 3), floats(3, 2, 3, 2)
case(
    "depthwise_conv2d",
    DX,
    DW,
    oracle=loops.depthwise,
    smooth=True,
    errors=[
        format_error("depthwise_conv2d", DX, DW),
        padding_error("depthwise_conv2d", DX, DW),
        ((floats(4, 5, 6, 2), DW), {}, ValueError, r"K\.depthwise_conv2d: x has 2 channels.* 3"),
        ((floats(4, 5, 6), DW), {}, ValueError, r"K\.depthwise_conv2d: x must have 4 axes"),
        ((DX, floats(3, 2, 3)), {}, ValueError, r"depthwise_kernel must have 4 axes"),
    ],
)
for padding in ("valid", "same"):
    for s, d in (((2, 2), (1, 1)), ((1, 2), (1, 1)), ((1, 1), (2, 2)), ((2, 1), (1, 2))):
        label = "-".join([padding, *("x".join(map(str, t)) for t in (s, d))])
        kwargs = {"strides": s, "padding": padding, "dilation_rate": d}
        case("depthwise_conv2d", DX, DW, oracle=loops.depthwise, id=label, **kwargs)
case("depthwise_conv2d", DX, floats(2, 2, 3, 1), oracle=loops.depthwise, id="single")
case("depthwise_conv2d", floats(4, 3, 5, 6), DW, oracle=loops.depthwise, id="first", **FIRST)
case(
    "depthwise_conv2d",
    values(np.arange(1.0, 19).reshape(1, 3, 3, 2)),
    values(ONE_TO[16].reshape(2, 2, 2, 2)),
    oracle=[
        [
            [[196, 216, 272, 296], [252, 280, 344, 376]],
            [[364, 408, 488, 536], [420, 472, 560, 616]],
        ]
    ],
    id="stated",
    grad=False,
)

SX, SD, SP = floats(4, 5, 6, 2), floats(3, 2, 2, 2), floats(1, 1, 4, 3)
case(
    "separable_conv2d",
    SX,
    SD,
    SP,
    oracle=loops.separable,
    smooth=True,
    errors=[
        format_error("separable_conv2d", SX, SD, SP),
        padding_error("separable_conv2d", SX, SD, SP),
        ((SX, SD, floats(1, 1, 3, 3)), {}, ValueError, r"pointwise_kernel must have the shape"),
        ((SX, SD, floats(2, 1, 4, 3)), {}, ValueError, r"pointwise_kernel must have the shape"),
        ((SX, SD, floats(4, 3)), {}, ValueError, r"pointwise_kernel must have 4 axes"),
        ((floats(4, 5, 6, 3), SD, SP), {}, ValueError, r"K\.separable_conv2d: x has 3 channels"),
    ],
)
for label, kwargs in (
    ("same-stride", {"padding": "same", "strides": (2, 2)}),
    ("rate", {"dilation_rate": (2, 1)}),
):
    case("separable_conv2d", SX, SD, SP, oracle=loops.separable, id=label, **kwargs)
case("separable_conv2d", floats(4, 2, 5, 6), SD, SP, oracle=loops.separable, id="first", **FIRST)

SX, SD, SP = floats(4, 6, 2), floats(3, 2, 2), floats(1, 4, 3)
case(
    "separable_conv1d",
    SX,
    SD,
    SP,
    oracle=loops.separable,
    smooth=True,
    errors=[
        format_error("separable_conv1d", SX, SD, SP),
        padding_error("separable_conv1d", SX, SD, SP),
        padding_error("separable_conv1d", SX, SD, SP, padding="causal"),
        ((SX, SD, floats(1, 3, 3)), {}, ValueError, r"pointwise_kernel must have the shape"),
    ],
)
for label, kwargs in (
    ("same-stride", {"padding": "same", "strides": 2}),
    ("tuples", {"strides": (1,), "dilation_rate": (2,)}),
):
    case("separable_conv1d", SX, SD, SP, oracle=loops.separable, id=label, **kwargs)
case("separable_conv1d", floats(4, 2, 6), SD, SP, oracle=loops.separable, id="first", **FIRST)
for label, stated, kwargs in (
    ("valid", [318, 518], {}),
    ("stride", [318, 175], {"strides": 2, "padding": "same"}),
    ("rate", [458], {"dilation_rate": 2}),
):
    case(
        "separable_conv1d",
        values(ONE_TO[6].reshape(1, 3, 2)),
        values(ONE_TO[8].reshape(2, 2, 2)),
        values(ONE_TO[4].reshape(1, 4, 1)),
        oracle=np.reshape(stated, (1, -1, 1)),
        id=f"stated-{label}",
        grad=False,
        batch=False,
        **kwargs,
    )

# --- bias -----------------------------------------------------------------------------------------


def biased(x: np.ndarray, bias: np.ndarray, data_format: str | None = None) -> np.ndarray:
    """Vectors along the channels; a bias per element is reshaped where channels come first."""
    if data_format == "channels_first" and 3 <= x.ndim <= 5:
        spatial = bias.shape[:-1] if bias.ndim > 1 else (1,) * (x.ndim - 2)
        return x + bias.reshape(1, bias.shape[-1], *spatial)
    return x + bias


BX = floats(2, 4, 5, 3)
case(
    "bias_add",
    BX,
    floats(3),
    oracle=biased,
    smooth=True,
    errors=[
        format_error("bias_add", BX, floats(3)),
        ((BX, floats(5, 3)), {}, ValueError, r"K\.bias_add: bias must be a vector or .*\(5, 3\)"),
        ((BX, floats(4)), {}, ValueError, r"K\.bias_add: bias \(4,\) does not fit x"),
        ((BX, floats(3)), FIRST, ValueError, r"K\.bias_add: bias .* does not fit x"),
        ((floats(3), floats(3)), {}, ValueError, r"K\.bias_add: bias must be a vector"),
        ((floats(2, 3), floats(2, 3)), {}, ValueError, r"K\.bias_add: bias must be a vector"),
        ((BX, floats()), {}, ValueError, r"K\.bias_add: bias must be a vector"),
    ],
)
for rank in (2, 3, 4, 5, 6):
    sizes = (2, 4, 5, 3, 6, 7)[:rank]
    case("bias_add", floats(*sizes), floats(sizes[-1]), oracle=biased, id=f"last-{rank}")
    width = sizes[1] if 3 <= rank <= 5 else sizes[-1]
    case("bias_add", floats(*sizes), floats(width), oracle=biased, id=f"first-{rank}", **FIRST)
    if 3 <= rank <= 5:
        whole = floats(*sizes[1:])
        case("bias_add", floats(*sizes), whole, oracle=biased, id=f"whole-{rank}", batch=False)
        whole = floats(*sizes[2:], sizes[1])
        kwargs = {"batch": False, **FIRST}
        case("bias_add", floats(*sizes), whole, oracle=biased, id=f"whole-first-{rank}", **kwargs)
case("bias_add", ints(2, 3), ints(3), oracle=biased, id="ints", grad=False)
case(
    "bias_add",
    values(np.zeros((1, 3, 2, 2))),
    values(np.arange(12.0).reshape(2, 2, 3)),
    oracle=np.arange(12.0).reshape(1, 3, 2, 2),
    id="stated",
    grad=False,
    batch=False,
    **FIRST,
)
