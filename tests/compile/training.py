"""Small networks to train, for tests of what changes how a step is computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from backplane import backend as K

ROWS = 24


class Net(NamedTuple):
    """A loss with its inputs, and what it trains."""

    inputs: list[Any]
    output: Any
    loss: Any
    weights: list[Any]
    feed: list[np.ndarray]


def _weights(*shapes: tuple[int, ...]) -> list[Any]:
    rng = np.random.default_rng(0)
    return [
        K.variable(rng.normal(size=s) * (0.5 if len(s) > 1 else 0.1), dtype="float32")
        for s in shapes
    ]


def _data(*shape: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(ROWS, *shape)).astype("float32")
    classes = (x.reshape(ROWS, -1)[:, :2].sum(axis=1) > 0).astype(int)
    return x, np.eye(2, dtype="float32")[classes]


def mlp() -> Net:
    x, y = K.placeholder((None, 6)), K.placeholder((None, 2))
    w1, b1, w2, b2 = ws = _weights((6, 16), (16,), (16, 2), (2,))
    h = K.relu(K.bias_add(K.dot(x, w1), b1))
    p = K.softmax(K.bias_add(K.dot(h, w2), b2))
    return Net([x, y], p, K.mean(K.categorical_crossentropy(y, p)), ws, [*_data(6)])


def cnn() -> Net:
    x, y = K.placeholder((None, 8, 8, 1)), K.placeholder((None, 2))
    k1, b1, k2, w, b = ws = _weights((3, 3, 1, 4), (4,), (3, 3, 4, 4), (16, 2), (2,))
    h = K.pool2d(K.relu(K.bias_add(K.conv2d(x, k1, padding="same"), b1)), (2, 2), (2, 2))
    h = K.pool2d(K.relu(K.conv2d(h, k2, padding="same")), (2, 2), (2, 2), pool_mode="avg")
    p = K.sigmoid(K.bias_add(K.dot(K.batch_flatten(h), w), b))
    return Net([x, y], p, K.mean(K.binary_crossentropy(y, p)), ws, [*_data(8, 8, 1)])


def lstm() -> Net:
    x, y = K.placeholder((None, 5, 3)), K.placeholder((None, 2))
    w, u, b, v = ws = _weights((3, 16), (4, 16), (16,), (4, 2))

    def step(row: Any, states: list[Any]) -> Any:
        z = K.bias_add(K.dot(row, w) + K.dot(states[0], u), b)
        i, f, g, o = [z[:, 4 * n : 4 * n + 4] for n in range(4)]
        c = K.sigmoid(f) * states[1] + K.sigmoid(i) * K.tanh(g)
        h = K.sigmoid(o) * K.tanh(c)
        return h, [h, c]

    zeros = K.zeros_like(K.dot(x[:, 0], w)[:, :4])
    last = K.rnn(step, x, [zeros, zeros])[0]
    p = K.dot(last, v)
    return Net([x, y], p, K.mean(K.square(p - y)), ws, [*_data(5, 3)])


def adam(net: Net, rate: float = 0.01) -> list[Any]:
    """The updates of a step of Adam."""
    steps = K.variable(0.0)
    updates = [K.update_add(steps, 1.0)]
    t = steps + 1.0
    rate = rate * K.sqrt(1.0 - K.pow(0.999, t)) / (1.0 - K.pow(0.9, t))
    for w, g in zip(net.weights, K.gradients(net.loss, net.weights), strict=True):
        m, v = K.zeros(K.int_shape(w)), K.zeros(K.int_shape(w))
        m_t, v_t = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * K.square(g)
        new = w - rate * m_t / (K.sqrt(v_t) + 1e-7)
        updates += [K.update(m, m_t), K.update(v, v_t), K.update(w, new)]
    return updates


def trained(build: Callable[[], Net], steps: int, **options: Any) -> tuple[list[Any], list[float]]:
    """The weights after so many steps, and the losses."""
    net = build()
    f = K.function(net.inputs, [net.loss], adam(net), **options)
    losses = [f(net.feed)[0].item() for _ in range(steps)]
    return [K.get_value(w) for w in net.weights], losses
