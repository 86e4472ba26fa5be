"""The standard programs of `backplane bench`: small networks, one training step each.

    python -m backplane.cli.workloads NAME SECONDS

trains one of them on the configured engine and prints a JSON object: seconds to the first result,
and seconds per step. Each engine has a process of its own.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

BATCH = 64


def _weights(K: Any, *shapes: tuple[int, ...]) -> list[Any]:
    rng = np.random.default_rng(0)
    return [K.variable(rng.normal(0, 0.05, shape)) for shape in shapes]


def mlp(K: Any) -> tuple[Any, Any, list[Any]]:
    """Three dense layers of 512 on 784 inputs. Returns input, logits and weights."""
    x = K.placeholder(shape=(None, 784))
    weights = _weights(K, (784, 512), (512, 512), (512, 10))
    return x, K.dot(K.relu(K.dot(K.relu(K.dot(x, weights[0])), weights[1])), weights[2]), weights


def cnn(K: Any) -> tuple[Any, Any, list[Any]]:
    """Two convolutions with pooling on images of 28 × 28, then a dense layer."""
    x = K.placeholder(shape=(None, 28, 28, 1))
    weights = _weights(K, (3, 3, 1, 32), (3, 3, 32, 64), (5 * 5 * 64, 10))
    h = K.pool2d(K.relu(K.conv2d(x, weights[0])), (2, 2), strides=(2, 2))
    h = K.pool2d(K.relu(K.conv2d(h, weights[1])), (2, 2), strides=(2, 2))
    return x, K.dot(K.batch_flatten(h), weights[2]), weights


def rnn(K: Any) -> tuple[Any, Any, list[Any]]:
    """A recurrence of 128 units over 32 steps of 64 numbers, then a dense layer."""
    x = K.placeholder(shape=(None, 32, 64))
    weights = _weights(K, (64, 128), (128, 128), (128, 10))

    def step(row: Any, states: list[Any]) -> tuple[Any, list[Any]]:
        h = K.tanh(K.dot(row, weights[0]) + K.dot(states[0], weights[1]))
        return h, [h]

    start = K.dot(K.zeros_like(x[:, 0]), weights[0])
    return x, K.dot(K.rnn(step, x, [start])[0], weights[2]), weights


WORKLOADS: dict[str, Callable[[Any], tuple[Any, Any, list[Any]]]] = {
    "mlp": mlp,
    "cnn": cnn,
    "rnn": rnn,
}


def trainer(K: Any, name: str) -> Callable[[], Any]:
    """A function that trains the network called `name` for one step and returns its loss."""
    x, logits, weights = WORKLOADS[name](K)
    labels = K.placeholder(shape=(None, 10))
    loss = K.mean(K.categorical_crossentropy(labels, logits, from_logits=True))
    slopes = K.gradients(loss, weights)
    updates = [(w, w - 0.01 * g) for w, g in zip(weights, slopes, strict=True)]
    f = K.function([x, labels], [loss], updates=updates)
    rng = np.random.default_rng(1)
    feeds = [
        rng.standard_normal((BATCH, *K.int_shape(x)[1:])).astype("float32"),
        np.eye(10, dtype="float32")[rng.integers(0, 10, BATCH)],
    ]
    return lambda: f(feeds)[0]


def measured(name: str, seconds: float) -> dict[str, float]:
    """Seconds to the first result, the import of K included, and the median step after it."""
    start = perf_counter()
    from backplane import backend as K

    train = trainer(K, name)
    train()
    first = perf_counter() - start
    steps: list[float] = []
    while sum(steps) < seconds or len(steps) < 5:
        start = perf_counter()
        train()
        steps.append(perf_counter() - start)
    return {"first": first, "step": statistics.median(steps)}


if __name__ == "__main__":
    print(json.dumps(measured(sys.argv[1], float(sys.argv[2]))))
