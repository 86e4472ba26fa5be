"""Models of Keras 3 whose steps are measured: a function makes the model, the rows of an epoch with
the size of a batch, and tells the number of classes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

BATCHES = 30
"""Steps of an epoch, which is a block."""
UNTIMED = 5
"""Steps at the beginning of an epoch that are not timed."""
LARGE_BATCHES, LARGE_UNTIMED = 6, 2
"""The same for models whose steps take long."""

Made = tuple[Any, tuple[np.ndarray, int], int]


def mlp(keras: Any) -> Made:
    """An MLP 784-512-512-10, batch 128."""
    layers = keras.layers
    hidden = [layers.Dense(512, activation="relu") for _ in range(2)]
    model = keras.Sequential([keras.Input((784,)), *hidden, layers.Dense(10)])
    return model, _normal(128, 784), 10


def small_mlp(keras: Any) -> Made:
    """An MLP 20-64-4, batch 32: what a step costs besides arithmetic."""
    layers = keras.layers
    hidden = layers.Dense(64, activation="relu")
    return keras.Sequential([keras.Input((20,)), hidden, layers.Dense(4)]), _normal(32, 20), 4


def cnn(keras: Any) -> Made:
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


def lstm(keras: Any) -> Made:
    """An LSTM of 32 units, 32 steps of 16 numbers, batch 64."""
    layers = keras.layers
    model = keras.Sequential([keras.Input((32, 16)), layers.LSTM(32), layers.Dense(10)])
    return model, _normal(64, 32, 16), 10


def gru(keras: Any) -> Made:
    """A bidirectional GRU of 32 units, 32 steps of 16 numbers, batch 64."""
    layers = keras.layers
    both = layers.Bidirectional(layers.GRU(32))
    model = keras.Sequential([keras.Input((32, 16)), both, layers.Dense(10)])
    return model, _normal(64, 32, 16), 10


def transformer(keras: Any) -> Made:
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
    return model, _tokens(16, 32), 10


def resnet50(keras: Any) -> Made:
    """`keras.applications.ResNet50`, 64 × 64, batch 8."""
    return _application(keras, keras.applications.ResNet50)


def mobilenet_v3(keras: Any) -> Made:
    """`keras.applications.MobileNetV3Small`, 64 × 64, batch 8."""
    return _application(keras, keras.applications.MobileNetV3Small)


def efficientnet(keras: Any) -> Made:
    """`keras.applications.EfficientNetB0`, 64 × 64, batch 8."""
    return _application(keras, keras.applications.EfficientNetB0)


def bert(keras: Any) -> Made:
    """An encoder like BERT: four layers of width 128, four heads, 64 tokens, batch 16."""
    layers = keras.layers
    tokens = keras.Input((64,), dtype="int32")
    x = layers.LayerNormalization()(_embedded(keras, tokens))
    for _ in range(4):
        attended = layers.MultiHeadAttention(4, 32, dropout=0.1)(x, x)
        x = layers.LayerNormalization()(layers.Add()([x, attended]))
        x = layers.LayerNormalization()(layers.Add()([x, _dense(layers, x)]))
    pooled = layers.Dense(128, activation="tanh")(x[:, 0])
    return keras.Model(tokens, layers.Dense(10)(pooled)), _tokens(16, 64, LARGE_BATCHES), 10


def gpt(keras: Any) -> Made:
    """A decoder like GPT: four layers of width 128, four heads, 64 tokens, batch 16."""
    layers = keras.layers
    tokens = keras.Input((64,), dtype="int32")
    x = _embedded(keras, tokens)
    for _ in range(4):
        y = layers.LayerNormalization()(x)
        attended = layers.MultiHeadAttention(4, 32, dropout=0.1)(y, y, use_causal_mask=True)
        x = layers.Add()([x, attended])
        x = layers.Add()([x, _dense(layers, layers.LayerNormalization()(x))])
    last = layers.LayerNormalization()(x)[:, -1]
    return keras.Model(tokens, layers.Dense(1000)(last)), _tokens(16, 64, LARGE_BATCHES), 1000


LARGE = {m.__name__: m for m in (resnet50, mobilenet_v3, efficientnet, bert, gpt)}
MODELS = {m.__name__: m for m in (small_mlp, mlp, cnn, lstm, gru, transformer)} | LARGE


def _application(keras: Any, make: Any) -> Made:
    model = make(weights=None, input_shape=(64, 64, 3), classes=10, classifier_activation=None)
    return model, _normal(8, 64, 64, 3, batches=LARGE_BATCHES), 10


def _embedded(keras: Any, tokens: Any) -> Any:
    """Vectors of tokens, to which the vectors of their places are added."""
    layers = keras.layers

    class Places(layers.Layer):  # type: ignore[misc, name-defined]
        """The vectors of 64 places are weights."""

        def build(self, shape: Any) -> None:
            self.vectors = self.add_weight((64, 128))

        def call(self, x: Any) -> Any:
            return x + self.vectors

    return layers.Dropout(0.1)(Places()(layers.Embedding(1000, 128)(tokens)))


def _dense(layers: Any, x: Any) -> Any:
    return layers.Dropout(0.1)(layers.Dense(128)(layers.Dense(512, activation="gelu")(x)))


def _normal(batch: int, *shape: int, batches: int = BATCHES) -> tuple[np.ndarray, int]:
    """Rows for an epoch, and how many are a batch."""
    rows = np.random.default_rng(0).normal(size=(batch * batches, *shape))
    return rows.astype("float32"), batch


def _tokens(batch: int, length: int, batches: int = BATCHES) -> tuple[np.ndarray, int]:
    """Rows of numbers below 1000 for an epoch, and how many are a batch."""
    rows = np.random.default_rng(0).integers(0, 1000, (batch * batches, length))
    return rows.astype("int32"), batch
