"""Layers in K, in the plain documented way, as Keras' own layers call it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from backplane import backend as K
from benchmarks.networks.layers.blocks.k import Blocks

FAR = -1e9
"""Added to the scores of places that attention must not see."""


class Layers(Blocks):
    """Channels last everywhere. `updates` collects the new moving averages."""

    def __init__(self, *, training: bool = True) -> None:
        super().__init__(training=training)
        self.updates: list[Any] = []

    def make(self, value: np.ndarray, role: str) -> Any:
        """A variable."""
        return K.variable(value)

    relu, tanh, sigmoid = map(staticmethod, (K.relu, K.tanh, K.sigmoid))
    exp, square, sqrt, mean, stop = map(
        staticmethod, (K.exp, K.square, K.sqrt, K.mean, K.stop_gradient)
    )

    # --- images ---------------------------------------------------------------------------------

    def image(self, x: Any) -> Any:
        """As it is."""
        return x

    channels_last = image

    def relu6(self, x: Any) -> Any:
        """min(relu(x), 6)."""
        return K.relu(x, max_value=6)

    def leaky_relu(self, x: Any) -> Any:
        """Slope 0.2 below zero."""
        return K.relu(x, alpha=0.2)

    def conv(
        self, x: Any, filters: int, size: int, strides: int = 1, *, dilation: int = 1,
        bias: bool = True,
    ) -> Any:  # fmt: skip
        """In two dimensions padded alike at both ends, in one dimension causal."""
        rank = K.ndim(x) - 2
        kernel = self.weight((*[size] * rank, K.int_shape(x)[-1], filters))
        if rank == 1:
            y = K.conv1d(x, kernel, padding="causal", dilation_rate=dilation)
        else:
            x, padding = _padded(x, size, strides)
            y = K.conv2d(x, kernel, (strides, strides), padding)
        return K.bias_add(y, self.vector(filters)) if bias else y

    def depthwise(self, x: Any, size: int, strides: int = 1) -> Any:
        """A kernel for each channel."""
        kernel = self.weight((size, size, K.int_shape(x)[-1], 1), "depthwise")
        x, padding = _padded(x, size, strides)
        return K.depthwise_conv2d(x, kernel, (strides, strides), padding)

    def conv_transpose(self, x: Any, filters: int, size: int, strides: int) -> Any:
        """An image `strides` times as large."""
        _, height, width, channels = K.int_shape(x)
        kernel = self.weight((size, size, filters, channels), "transposed")
        shape = (K.shape(x)[0], height * strides, width * strides, filters)
        y = K.conv2d_transpose(x, kernel, shape, (strides, strides), "same")
        return K.bias_add(y, self.vector(filters))

    def batch_norm(self, x: Any, scale: float = 1.0) -> Any:
        """With the statistics of the batch, or with their moving averages."""
        size = K.int_shape(x)[-1]
        gamma, beta = self.vector(size, scale), self.vector(size)
        _, mean = self.state(size, 0.0)
        _, var = self.state(size, 1.0)
        if not self.training:
            return K.batch_normalization(x, mean, var, beta, gamma, epsilon=1e-3)
        axes = list(range(K.ndim(x) - 1))
        y, new_mean, new_var = K.normalize_batch_in_training(x, gamma, beta, axes, epsilon=1e-3)
        # As in the other libraries' versions, the last call counts where a layer is called twice.
        self.updates = [update for update in self.updates if update.variable not in (mean, var)]
        self.updates += [
            K.moving_average_update(mean, new_mean, 0.99),
            K.moving_average_update(var, new_var, 0.99),
        ]
        return y

    def max_pool(self, x: Any, size: int, strides: int) -> Any:
        """Of numbers that are not negative: zeros around them change nothing."""
        x, padding = _padded(x, size, strides) if size > strides else (x, "valid")
        return K.pool2d(x, (size, size), (strides, strides), padding)

    def avg_pool(self, x: Any, size: int) -> Any:
        """Means of squares."""
        return K.pool2d(x, (size, size), (size, size), pool_mode="avg")

    def global_pool(self, x: Any) -> Any:
        """The mean of each channel."""
        return K.mean(x, axis=[1, 2])

    def join(self, images: Sequence[Any]) -> Any:
        """The channels of images one after the other."""
        return K.concatenate(list(images))

    def flatten(self, x: Any) -> Any:
        """Images as rows."""
        return K.batch_flatten(x)

    def as_image(self, x: Any, height: int, width: int, channels: int) -> Any:
        """Rows as images."""
        return K.reshape(x, (-1, height, width, channels))

    def columns(self, x: Any) -> Any:
        """Images as sequences of their columns."""
        _, height, width, channels = K.int_shape(x)
        x = K.permute_dimensions(x, (0, 2, 1, 3))
        return K.reshape(x, (-1, width, height * channels))

    def watched(self, x: Any) -> Any:
        """An operand that derivatives are taken by."""
        return x

    # --- rows and sequences ---------------------------------------------------------------------

    def concat(self, parts: Sequence[Any], axis: int = -1) -> Any:
        """Rows one after the other."""
        return K.concatenate(list(parts), axis=axis)

    def reshape(self, x: Any, *sizes: int) -> Any:
        """All axes but the first in another shape."""
        return K.reshape(x, (-1, *sizes))

    def dense(self, x: Any, units: int, *, bias: bool = True) -> Any:
        """A product with a matrix over the last axis."""
        y = K.dot(x, self.weight((K.int_shape(x)[-1], units), "matrix"))
        return K.bias_add(y, self.vector(units)) if bias else y

    def tied(self, x: Any, table: Any) -> Any:
        """A product with the transposed table of an embedding."""
        return K.dot(x, K.transpose(table))

    def table(self, rows: int, width: int) -> Any:
        """The rows of an embedding."""
        return self.weight((rows, width), "table", 0.02)

    def lookup(self, table: Any, ids: Any) -> Any:
        """Rows of an embedding."""
        return K.gather(table, ids)

    # --- graphs ---------------------------------------------------------------------------------

    @staticmethod
    def propagate(graph: Any, x: Any) -> Any:
        """The product of a sparse matrix and the rows of nodes."""
        return K.dot(graph, x)

    @staticmethod
    def at(x: Any, ids: Any) -> Any:
        """The rows of the nodes at one end of all edges."""
        return K.gather(x, ids)

    @staticmethod
    def segment_sum(x: Any, ids: Any, count: int) -> Any:
        """The sums of the rows with equal ids."""
        return K.segment_sum(x, ids, count)

    @staticmethod
    def segment_max(x: Any, ids: Any, count: int) -> Any:
        """The maxima of the rows with equal ids."""
        return K.segment_max(x, ids, count)

    def layer_norm(self, x: Any) -> Any:
        """Over the last axis."""
        size = K.int_shape(x)[-1]
        gamma, beta = self.vector(size, 1.0), self.vector(size)
        centred = x - K.mean(x, axis=-1, keepdims=True)
        variance = K.mean(K.square(centred), axis=-1, keepdims=True)
        return centred / K.sqrt(variance + 1e-5) * gamma + beta

    def gelu(self, x: Any, *, exact: bool = False) -> Any:
        """With the error function, or with the tangent that approximates it."""
        if exact:
            return 0.5 * x * (1.0 + K.erf(x / np.sqrt(2.0)))
        return 0.5 * x * (1.0 + K.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * K.pow(x, 3))))

    def attention(
        self, q: Any, k: Any, v: Any, heads: int, *, causal: bool = False, mask: Any = None
    ) -> Any:
        """Scaled products of queries and keys weigh the values, head by head."""
        _, steps, width = K.int_shape(q)
        q, k, v = (_split(x, heads) for x in (q, k, v))
        scores = K.batch_dot(q, k, axes=(2, 2)) / np.sqrt(width // heads)
        if causal:
            scores += K.constant(np.triu(np.full((1, steps, K.int_shape(k)[1]), FAR), 1))
        if mask is not None:
            scores += (1.0 - K.expand_dims(K.repeat_elements(mask, heads, 0), 1)) * FAR
        y = K.reshape(K.batch_dot(K.softmax(scores), v), (-1, heads, steps, width // heads))
        return K.reshape(K.permute_dimensions(y, (0, 2, 1, 3)), (-1, steps, width))

    def dot_attention(self, q: Any, keys: Any) -> Any:
        """Luong's: the mean of the keys, weighed by their products with the queries."""
        return K.batch_dot(K.softmax(K.batch_dot(q, keys, axes=(2, 2))), keys)

    # --- recurrences ----------------------------------------------------------------------------

    def lstm(
        self, x: Any, units: int, *, mask: Any = None, noise: Any = None, reverse: bool = False,
        start: Any = None,
    ) -> tuple[Any, list[Any]]:  # fmt: skip
        """All outputs, in the order of time, and the last states. `noise` drops states."""
        kernel, recurrent, bias = self._cell(x, units, 4)

        def step(row: Any, states: list[Any]) -> tuple[Any, list[Any]]:
            h, c = states
            z = K.dot(row, kernel) + K.dot(h if noise is None else h * noise, recurrent)
            z = K.bias_add(z, bias)
            i, f, g, o = (z[:, n * units : (n + 1) * units] for n in range(4))
            c = K.sigmoid(f) * c + K.sigmoid(i) * K.tanh(g)
            h = K.sigmoid(o) * K.tanh(c)
            return h, [h, c]

        return _run(step, x, start or _zeros(x, units, 2), mask, reverse)

    def gru(
        self, x: Any, units: int, *, mask: Any = None, noise: Any = None, reverse: bool = False
    ) -> tuple[Any, list[Any]]:
        """All outputs, in the order of time, and the last state."""
        kernel, recurrent, bias = self._cell(x, units, 3)

        def step(row: Any, states: list[Any]) -> tuple[Any, list[Any]]:
            h = states[0]
            a = K.bias_add(K.dot(row, kernel), bias)
            b = K.dot(h if noise is None else h * noise, recurrent)
            z = K.sigmoid(a[:, :units] + b[:, :units])
            r = K.sigmoid(a[:, units : 2 * units] + b[:, units : 2 * units])
            h = z * h + (1 - z) * K.tanh(a[:, 2 * units :] + r * b[:, 2 * units :])
            return h, [h]

        return _run(step, x, _zeros(x, units, 1), mask, reverse)

    def _cell(self, x: Any, units: int, gates: int) -> tuple[Any, Any, Any]:
        return (
            self.weight((K.int_shape(x)[-1], gates * units), "matrix"),
            self.weight((units, gates * units), "matrix", units**-0.5),
            self.vector(gates * units),
        )

    def conv_lstm(self, x: Any, filters: int, size: int) -> Any:
        """The last output over a sequence of images, (samples, steps, height, width, channels)."""
        kernel = self.weight((size, size, K.int_shape(x)[-1], 4 * filters))
        recurrent = self.weight((size, size, filters, 4 * filters), "kernel", 0.1)
        bias = self.vector(4 * filters)

        def step(image: Any, states: list[Any]) -> tuple[Any, list[Any]]:
            h, c = states
            z = K.conv2d(image, kernel, padding="same") + K.conv2d(h, recurrent, padding="same")
            z = K.bias_add(z, bias)
            i, f, g, o = (z[..., n * filters : (n + 1) * filters] for n in range(4))
            c = K.sigmoid(f) * c + K.sigmoid(i) * K.tanh(g)
            h = K.sigmoid(o) * K.tanh(c)
            return h, [h, c]

        start = K.tile(K.zeros_like(x[:, 0, :, :, :1]), (1, 1, 1, filters))
        return K.rnn(step, x, [start, start])[0]

    # --- losses ---------------------------------------------------------------------------------

    def cross_entropy(self, scores: Any, labels: Any) -> Any:
        """The mean over all places."""
        return K.mean(K.sparse_categorical_crossentropy(labels, scores, from_logits=True))

    def cross_entropy_where(self, scores: Any, labels: Any, weights: Any) -> Any:
        """The mean over the places whose weight is one."""
        each = K.sparse_categorical_crossentropy(labels, scores, from_logits=True)
        return K.sum(each * weights) / K.sum(weights)

    def binary(self, scores: Any, target: Any) -> Any:
        """The mean of the binary cross-entropy; `target` is a number or a tensor."""
        if isinstance(target, float):
            target = target * K.ones_like(scores)
        return K.mean(K.binary_crossentropy(target, scores, from_logits=True))

    def ctc(self, scores: Any, labels: Any, lengths: Any, label_lengths: Any) -> Any:
        """The mean over the samples."""
        return K.mean(K.ctc_batch_cost(labels, K.softmax(scores), lengths, label_lengths))

    def gradient(self, function: Callable[[Any], Any], x: Any) -> Any:
        """The gradient of the sum of `function(x)`."""
        return K.gradients(K.sum(function(x)), [x])[0]

    def row_sum(self, x: Any) -> Any:
        """The sum over all axes but the first."""
        return K.sum(x, axis=list(range(1, K.ndim(x))))


def _padded(x: Any, size: int, strides: int) -> tuple[Any, str]:
    """With strides "same" would pad more at one end, so the padding is written out."""
    if strides == 1 or size == 1:
        return x, "same"
    half = size // 2
    return K.spatial_2d_padding(x, ((half, half), (half, half))), "valid"


def _split(x: Any, heads: int) -> Any:
    """(samples, steps, width) as (samples · heads, steps, width / heads)."""
    _, steps, width = K.int_shape(x)
    x = K.permute_dimensions(K.reshape(x, (-1, steps, heads, width // heads)), (0, 2, 1, 3))
    return K.reshape(x, (-1, steps, width // heads))


def _zeros(x: Any, units: int, count: int) -> list[Any]:
    zeros = K.tile(K.zeros_like(x[:, 0, :1]), (1, units))
    return [zeros] * count


def _run(step: Any, x: Any, start: list[Any], mask: Any, reverse: bool) -> tuple[Any, list[Any]]:
    _, outputs, states = K.rnn(step, x, start, go_backwards=reverse, mask=mask)
    return (K.reverse(outputs, 1) if reverse else outputs), states
