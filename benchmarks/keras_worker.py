"""A process that trains one model of Keras 3 on one backend, block by block, when asked.

The backend is in KERAS_BACKEND: one of Keras' own, or `backplane.ENGINE`.
"""

from __future__ import annotations

import os
import resource
import sys
from time import process_time
from typing import Any

import numpy as np

from benchmarks.workers import serve

BATCHES = 30
"""Steps of an epoch, which is a block."""
UNTIMED = 5
"""Steps at the begin of an epoch that are not timed."""


def mlp(keras: Any) -> tuple[Any, Any, Any]:
    """An MLP 784-512-512-10, batch 128."""
    layers = keras.layers
    hidden = [layers.Dense(512, activation="relu") for _ in range(2)]
    model = keras.Sequential([keras.Input((784,)), *hidden, layers.Dense(10)])
    return model, _normal(128, 784), 10


def small_mlp(keras: Any) -> tuple[Any, Any, Any]:
    """An MLP 20-64-4, batch 32: what a step costs besides arithmetic."""
    layers = keras.layers
    hidden = layers.Dense(64, activation="relu")
    return keras.Sequential([keras.Input((20,)), hidden, layers.Dense(4)]), _normal(32, 20), 4


def cnn(keras: Any) -> tuple[Any, Any, Any]:
    """Two convolutions with batch normalization, pooling and dropout, 28 × 28, batch 64."""
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            layers.Conv2D(16, 3, activation="relu"),
            layers.BatchNormalization(),
            layers.MaxPooling2D(),
            layers.Conv2D(32, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dropout(0.2),
            layers.Dense(10),
        ]
    )
    return model, _normal(64, 28, 28, 1), 10


def lstm(keras: Any) -> tuple[Any, Any, Any]:
    """An LSTM of 32 units, 32 steps of 16 numbers, batch 64."""
    layers = keras.layers
    model = keras.Sequential([keras.Input((32, 16)), layers.LSTM(32), layers.Dense(10)])
    return model, _normal(64, 32, 16), 10


def gru(keras: Any) -> tuple[Any, Any, Any]:
    """A bidirectional GRU of 32 units, 32 steps of 16 numbers, batch 64."""
    layers = keras.layers
    both = layers.Bidirectional(layers.GRU(32))
    return (
        keras.Sequential([keras.Input((32, 16)), both, layers.Dense(10)]),
        _normal(64, 32, 16),
        10,
    )


def transformer(keras: Any) -> tuple[Any, Any, Any]:
    """A transformer of two layers, width 64, four heads, 32 tokens, batch 16."""
    layers = keras.layers
    tokens = keras.Input((32,), dtype="int32")
    x = layers.Embedding(1000, 64)(tokens)
    for _ in range(2):
        attended = layers.MultiHeadAttention(4, 16, dropout=0.1)(x, x)
        x = layers.LayerNormalization()(layers.Add()([x, attended]))
        dense = layers.Dense(64)(layers.Dense(128, activation="gelu")(x))
        x = layers.LayerNormalization()(layers.Add()([x, layers.Dropout(0.1)(dense)]))
    model = keras.Model(tokens, layers.Dense(10)(layers.GlobalAveragePooling1D()(x)))
    rows = np.random.default_rng(0).integers(0, 1000, (16 * BATCHES, 32)).astype("int32")
    return model, (rows, 16), 10


MODELS = {m.__name__: m for m in (small_mlp, mlp, cnn, lstm, gru, transformer)}


def _normal(batch: int, *shape: int) -> tuple[np.ndarray, int]:
    """Rows for an epoch, and how many are a batch."""
    rows = np.random.default_rng(0).normal(size=(batch * BATCHES, *shape))
    return rows.astype("float32"), batch


class Server:
    """Trains the model of one program."""

    def __init__(self, stack: str, name: str) -> None:
        if os.environ["KERAS_BACKEND"].startswith("backplane"):
            import backplane.keras3  # noqa: F401
        import keras

        if keras.backend.backend() == "torch" or stack == "backplane.torch":
            import torch

            torch.set_num_threads(1)
        keras.utils.set_random_seed(0)
        self.keras = keras
        self.held = _peak()
        self.name = name
        self.model: Any = None

    def first(self) -> dict[str, float]:
        """Build and compile the model and train a step: seconds."""
        start = process_time()
        self.model, (self.rows, self.batch), classes = MODELS[self.name](self.keras)
        loss = self.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self.model.compile("adam", loss, metrics=["accuracy"])
        self.labels = np.random.default_rng(1).integers(0, classes, len(self.rows))
        self.model.fit(self.rows[: self.batch], self.labels[: self.batch], verbose=0)
        return {"first": process_time() - start}

    def block(self) -> dict[str, float]:
        """Seconds per step of `fit`, and per batch of `predict`, of one epoch each."""
        clock = _clock(self.keras)()
        options = {"batch_size": self.batch, "verbose": 0, "callbacks": [clock]}
        self.model.fit(self.rows, self.labels, shuffle=False, **options)
        fit = (process_time() - clock.began) / (BATCHES - UNTIMED)
        self.model.predict(self.rows, **options)
        return {"fit": fit, "predict": (process_time() - clock.began) / (BATCHES - UNTIMED)}

    def memory(self) -> float:
        """Bytes that the process held at most since the first step, beyond the libraries."""
        return _peak() - self.held


def _clock(keras: Any) -> Any:
    class Clock(keras.callbacks.Callback):
        """Notes when the untimed steps are over."""

        began = 0.0

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if batch == UNTIMED - 1:
                self.began = process_time()

        on_predict_batch_end = on_train_batch_end

    return Clock


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


if __name__ == "__main__":
    serve(Server, *sys.argv[1:])
