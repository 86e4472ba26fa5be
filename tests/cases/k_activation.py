"""Activation functions."""

from __future__ import annotations

import numpy as np

from cases.record import bools, case, distinct, floats, ints, values

FAR = values([-1000.0, -30.0, 0.0, 30.0, 1000.0])


def relu(x, alpha=0.0, max_value=None, threshold=0.0):
    limit = np.inf if max_value is None else max_value
    return np.where(x >= limit, limit, np.where(x >= threshold, x, alpha * (x - threshold)))


case("relu", distinct(3, 4), oracle=relu, kinks=[([[-1.0, 0.0, 1.0]], [[0.0, 0.0, 1.0]])])
for i, kwargs in enumerate(
    (
        {"alpha": 0.25},
        {"max_value": 0.5},
        {"threshold": 0.3},
        {"alpha": 0.1, "max_value": 1.5, "threshold": 0.2},
        {"alpha": -0.5},
        {"threshold": -0.4},
        {"max_value": 0.0},
    )
):
    case("relu", distinct(8, 8), oracle=relu, id=f"form{i}", **kwargs)
case(
    "relu",
    distinct(2, 3),
    oracle=lambda x, **_: relu(x, 0.5, 6.0),
    id="kinks",
    kinks=[([[-1.0, 0.0, 6.0, 7.0]], [[0.5, 0.5, 0.0, 0.0]])],
    alpha=0.5,
    max_value=6.0,
)
case(
    "relu",
    distinct(16, 16),
    oracle=relu,
    id="relu6",
    kinks=[([[-1.0, 0.0, 3.0, 6.0, 7.0]], [[0.0, 0.0, 1.0, 0.0, 0.0]])],
    max_value=np.float32(6.0),
)
for i, kwargs in enumerate(
    (
        {"max_value": 6.0},
        {"alpha": 0.25},
        {"max_value": 6.0, "threshold": 1.0},
        {"max_value": 6.0, "alpha": 0.5},
    )
):
    case(
        "relu", values([-1.0, np.nan, 7.0]), oracle=relu, id=f"nan{i}", grad=False, **kwargs
    )  # fmt: skip
case("relu", ints(3, 4, low=-4), oracle=relu, id="ints")
case(
    "elu",
    distinct(3, 4),
    oracle=lambda x, alpha=1.0: np.where(x > 0, x, alpha * np.expm1(x)),
    kinks=[([[0.0]], [[1.0]])],
)
case(
    "elu",
    distinct(3, 4),
    0.25,
    oracle=lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(x)),
    id="alpha",
)


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


for shape, axis in (((3, 4), -1), ((2, 3, 4), 1), ((4,), 0), ((2, 3, 4), -3)):
    case(
        "softmax", floats(*shape), oracle=softmax, id=f"{len(shape)}{axis}", smooth=True, axis=axis
    )
case("softmax", values([[1000.0, 1000.0], [-1000.0, 1000.0]]), oracle=softmax, id="far", grad=False)
case(
    "softmax",
    floats(2, 3),
    oracle=softmax,
    id="errors",
    errors=[
        ((floats(2, 3),), {"axis": 2}, ValueError, r"K\.softmax: .*axis"),
        ((floats(),), {}, ValueError, r"K\.softmax: .*ax"),
    ],
)
case("softplus", floats(3, 4), oracle=lambda x: np.log1p(np.exp(x)), smooth=True)
case("softplus", FAR, oracle=lambda x: np.maximum(x, 0) + np.log1p(np.exp(-abs(x))), id="far")
case("softsign", distinct(3, 4), oracle=lambda x: x / (1 + abs(x)), kinks=[([[0.0]], [[1.0]])])
case("sigmoid", floats(3, 4), oracle=lambda x: 1 / (1 + np.exp(-x)), smooth=True)
case(
    "sigmoid", FAR, oracle=lambda x: (1 + np.tanh(x / 2)) / 2, id="far", tolerance={"float64": 1e-9}
)
case("sigmoid", ints(3, 4), oracle=lambda x: 1 / (1 + np.exp(-x)), id="ints")
case(
    "hard_sigmoid",
    floats(5, 6, low=-4, high=4),
    oracle=lambda x: np.clip(0.2 * x + 0.5, 0, 1),
)
case("tanh", floats(3, 4), oracle=np.tanh, smooth=True)
case("tanh", bools(3, 4), oracle=lambda x: np.tanh(x.astype("float64")), id="bools")
