"""Layers of Keras 3, for a functional model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from benchmarks.networks.layers.weights import Weights


class _Tied(keras.layers.Layer):
    """A product with the transposed table of an embedding."""

    def __init__(self, embedding: Any) -> None:
        super().__init__()
        self.embedding = embedding

    def call(self, x: Any) -> Any:
        """Scores of all words."""
        return keras.ops.matmul(x, keras.ops.transpose(self.embedding.embeddings))


class Layers(Weights):
    """Every method adds a layer to the model. Images are channels last."""

    def make(self, value: np.ndarray, role: str) -> Any:
        """An initializer."""
        return lambda shape, dtype=None: keras.ops.convert_to_tensor(value)

    # --- images ---------------------------------------------------------------------------------

    @staticmethod
    def image(x: Any) -> Any:
        """As it is."""
        return x

    channels_last = image

    @staticmethod
    def relu(x: Any) -> Any:
        """max(x, 0)."""
        return keras.layers.ReLU()(x)

    @staticmethod
    def relu6(x: Any) -> Any:
        """min(relu(x), 6)."""
        return keras.layers.ReLU(max_value=6)(x)

    @staticmethod
    def tanh(x: Any) -> Any:
        """The hyperbolic tangent."""
        return keras.layers.Activation("tanh")(x)

    @staticmethod
    def sigmoid(x: Any) -> Any:
        """The logistic function."""
        return keras.layers.Activation("sigmoid")(x)

    def conv(
        self, x: Any, filters: int, size: int, strides: int = 1, *, dilation: int = 1,
        bias: bool = True,
    ) -> Any:  # fmt: skip
        """In two dimensions padded alike at both ends, in one dimension causal."""
        rank = len(x.shape) - 2
        made = {"kernel_initializer": self.weight((*[size] * rank, x.shape[-1], filters))}
        if bias:
            made["bias_initializer"] = self.vector(filters)
        if rank == 1:
            layer = keras.layers.Conv1D(
                filters, size, padding="causal", dilation_rate=dilation, use_bias=bias, **made
            )
            return layer(x)
        x, padding = _padded(x, size, strides)
        return keras.layers.Conv2D(filters, size, strides, padding, use_bias=bias, **made)(x)

    def depthwise(self, x: Any, size: int, strides: int = 1) -> Any:
        """A kernel for each channel."""
        kernel = self.weight((size, size, x.shape[-1], 1), "depthwise")
        x, padding = _padded(x, size, strides)
        return keras.layers.DepthwiseConv2D(
            size, strides, padding, use_bias=False, depthwise_initializer=kernel
        )(x)

    def conv_transpose(self, x: Any, filters: int, size: int, strides: int) -> Any:
        """An image `strides` times as large."""
        kernel = self.weight((size, size, filters, x.shape[-1]), "transposed")
        return keras.layers.Conv2DTranspose(
            filters, size, strides, "same",
            kernel_initializer=kernel, bias_initializer=self.vector(filters),
        )(x)  # fmt: skip

    def batch_norm(self, x: Any, scale: float = 1.0) -> Any:
        """With the statistics of the batch, or with their moving averages."""
        size = x.shape[-1]
        gamma, _ = self.vector(size, scale), self.vector(size)
        self.state(size, 0.0), self.state(size, 1.0)
        return keras.layers.BatchNormalization(gamma_initializer=gamma)(x)

    @staticmethod
    def max_pool(x: Any, size: int, strides: int) -> Any:
        """Of numbers that are not negative."""
        x, padding = _padded(x, size, strides) if size > strides else (x, "valid")
        return keras.layers.MaxPooling2D(size, strides, padding)(x)

    @staticmethod
    def avg_pool(x: Any, size: int) -> Any:
        """Means of squares."""
        return keras.layers.AveragePooling2D(size)(x)

    @staticmethod
    def global_pool(x: Any) -> Any:
        """The mean of each channel."""
        return keras.layers.GlobalAveragePooling2D()(x)

    @staticmethod
    def join(images: Sequence[Any]) -> Any:
        """The channels of images one after the other."""
        return keras.layers.Concatenate()(list(images))

    # --- rows and sequences ---------------------------------------------------------------------

    def dense(self, x: Any, units: int) -> Any:
        """A product with a matrix over the last axis."""
        return keras.layers.Dense(
            units,
            kernel_initializer=self.weight((x.shape[-1], units), "matrix"),
            bias_initializer=self.vector(units),
        )(x)

    @staticmethod
    def tied(x: Any, table: Any) -> Any:
        """A product with the transposed table of an embedding."""
        return _Tied(table)(x)

    def table(self, rows: int, width: int) -> Any:
        """An embedding."""
        made = self.weight((rows, width), "table", 0.02)
        return keras.layers.Embedding(rows, width, embeddings_initializer=made)

    @staticmethod
    def lookup(table: Any, ids: Any) -> Any:
        """Rows of an embedding."""
        return table(ids)

    def layer_norm(self, x: Any) -> Any:
        """Over the last axis."""
        size = x.shape[-1]
        self.vector(size, 1.0), self.vector(size)
        return keras.layers.LayerNormalization(epsilon=1e-5)(x)

    @staticmethod
    def gelu(x: Any) -> Any:
        """With the tangent that approximates it."""
        return keras.ops.gelu(x, approximate=True)

    @staticmethod
    def attention(q: Any, k: Any, v: Any, heads: int, *, causal: bool) -> Any:
        """Keras' own function for it."""
        _, steps, width = q.shape
        q, k, v = (keras.ops.reshape(x, (-1, steps, heads, width // heads)) for x in (q, k, v))
        y = keras.ops.dot_product_attention(q, k, v, is_causal=causal)
        return keras.ops.reshape(y, (-1, steps, width))


def _padded(x: Any, size: int, strides: int) -> tuple[Any, str]:
    """With strides "same" would pad more at one end, so the padding is a layer."""
    if strides == 1 or size == 1:
        return x, "same"
    return keras.layers.ZeroPadding2D(size // 2)(x), "valid"
