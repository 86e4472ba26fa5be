"""Networks in K that train on a mesh: the same losses, however the mesh splits them.

`losses(name, mesh)` trains one. Weights are split by the axis `model`, if the mesh has it, and
batches by the axis `batch`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from backplane import backend as K

BATCH = 16
Program = tuple[Any, Callable[[np.random.Generator], list[np.ndarray]]]


def weight(rng: np.random.Generator, *shape: int, layout: Sequence[Any] | None = None) -> Any:
    """A variable with small numbers."""
    made = K.variable(rng.normal(size=shape) * 0.5 / np.sqrt(np.prod(shape[:-1])))
    if layout is not None and "model" in (K.get_mesh() or ()):
        K.shard(made, layout)
    return made


def descent(loss: Any, weights: Sequence[Any], rate: float) -> list[Any]:
    slopes = K.gradients(loss, weights)
    return [(w, w - rate * g) for w, g in zip(weights, slopes, strict=True)]


def momentum(loss: Any, weights: Sequence[Any], rate: float) -> list[Any]:
    updates = []
    for w, g in zip(weights, K.gradients(loss, weights), strict=True):
        v = K.zeros(K.int_shape(w))
        step = 0.9 * v - rate * g
        updates += [(v, step), (w, w + step)]
    return updates


def adam(loss: Any, weights: Sequence[Any], rate: float) -> list[Any]:
    t = K.variable(0.0)
    now = t + 1.0
    updates = [(t, now)]
    for w, g in zip(weights, K.gradients(loss, weights), strict=True):
        m, v = K.zeros(K.int_shape(w)), K.zeros(K.int_shape(w))
        new_m, new_v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * K.square(g)
        scale = rate * K.sqrt(1.0 - K.pow(0.99, now)) / (1.0 - K.pow(0.9, now))
        updates += [(m, new_m), (v, new_v), (w, w - scale * new_m / (K.sqrt(new_v) + 1e-3))]
    return updates


def mlp() -> Program:
    """Two layers with dropout between them."""
    rng = np.random.default_rng(0)
    x, y = K.placeholder((None, 16)), K.placeholder((None, 4))
    hidden = weight(rng, 16, 32, layout=(None, "model"))
    bias = weight(rng, 32, layout=("model",))
    last = weight(rng, 32, 4, layout=("model", None))
    h = K.dropout(K.relu(K.dot(x, hidden) + bias), 0.3)
    loss = K.mean(K.square(K.dot(h, last) - y))
    train = K.function([x, y], [loss], updates=descent(loss, [hidden, bias, last], 0.1))
    return train, lambda rng: [rng.normal(size=(BATCH, 16)), rng.normal(size=(BATCH, 4))]


def convnet() -> Program:
    """Two convolutions with batch normalization and pooling, and a layer behind them."""
    rng = np.random.default_rng(0)
    x, y = K.placeholder((None, 8, 8, 3)), K.placeholder((None,), dtype="int32")
    first = weight(rng, 3, 3, 3, 8, layout=(None, None, None, "model"))
    second = weight(rng, 3, 3, 8, 8)
    last = weight(rng, 8, 5)
    gamma, beta = K.ones((8,)), K.zeros((8,))
    h = K.conv2d(x, first, padding="same")
    h, _, _ = K.normalize_batch_in_training(h, gamma, beta, [0, 1, 2])
    h = K.pool2d(K.relu(h), (2, 2), (2, 2), pool_mode="max")
    h = K.relu(K.conv2d(h, second, strides=(2, 2), padding="same"))
    h = K.mean(h, axis=(1, 2))
    loss = K.mean(K.sparse_categorical_crossentropy(y, K.softmax(K.dot(h, last))))
    weights = [first, second, last, gamma, beta]
    train = K.function([x, y], [loss], updates=momentum(loss, weights, 0.02))
    return train, lambda rng: [rng.normal(size=(BATCH, 8, 8, 3)), rng.integers(0, 5, BATCH)]


def _norm(x: Any) -> Any:
    centred = x - K.mean(x, axis=-1, keepdims=True)
    return centred / K.sqrt(K.mean(K.square(centred), axis=-1, keepdims=True) + 1e-5)


def transformer() -> Program:
    """Two blocks of attention with two heads over sequences of eight tokens, trained by Adam."""
    rng, width, words = np.random.default_rng(0), 16, 11
    tokens = K.placeholder((None, 8), dtype="int32")
    table = weight(rng, words, width)
    weights = [table]
    h = K.gather(table, tokens)
    for _ in range(2):
        qkv = [weight(rng, width, width, layout=(None, "model")) for _ in range(3)]
        out = weight(rng, width, width, layout=("model", None))
        wide = weight(rng, width, 32, layout=(None, "model"))
        back = weight(rng, 32, width, layout=("model", None))
        weights += [*qkv, out, wide, back]
        heads = [
            K.permute_dimensions(K.reshape(K.dot(_norm(h), w), (-1, 8, 2, 8)), (0, 2, 1, 3))
            for w in qkv
        ]
        q, k, v = [K.reshape(head, (-1, 8, 8)) for head in heads]
        mixed = K.batch_dot(K.softmax(K.batch_dot(q, k, axes=[2, 2]) / np.sqrt(8.0)), v)
        mixed = K.permute_dimensions(K.reshape(mixed, (-1, 2, 8, 8)), (0, 2, 1, 3))
        h = h + K.dropout(K.dot(K.reshape(mixed, (-1, 8, width)), out), 0.1)
        h = h + K.dot(K.relu(K.dot(_norm(h), wide)), back)
    scores = K.softmax(K.dot(_norm(h), K.transpose(table)))
    loss = K.mean(K.sparse_categorical_crossentropy(tokens, scores))
    train = K.function([tokens], [loss], updates=adam(loss, weights, 0.003))
    return train, lambda rng: [rng.integers(0, words, (BATCH, 8))]


PROGRAMS: dict[str, Callable[[], Program]] = {
    "mlp": mlp, "convnet": convnet, "transformer": transformer,
}  # fmt: skip


def losses(
    name: str, mesh: Mapping[str, int] | None, steps: int = 100, portable: bool = True
) -> np.ndarray:
    """The losses of so many steps on a mesh."""
    K.clear_session()
    K.set_random_seed(7, portable=portable)
    with K.set_mesh(mesh):
        train, batch = PROGRAMS[name]()
        rng = np.random.default_rng(1)
        return np.array([train(batch(rng))[0] for _ in range(steps)])
