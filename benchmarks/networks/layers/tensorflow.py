"""Layers of TensorFlow by hand, for one `tf.function` of a whole step: images channels last, and
the library's own fused functions wherever there are any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.networks.layers.blocks.tensorflow import Blocks


class Layers(Blocks):
    """Images are (samples, *spatial, channels)."""

    xla = False
    """Whether XLA compiles the program."""

    def make(self, value: np.ndarray, role: str) -> Any:
        """A variable, made outside of the program that is traced."""
        with tf.init_scope():
            return tf.Variable(value, trainable=role != "state")

    relu, relu6, tanh, sigmoid = map(staticmethod, (tf.nn.relu, tf.nn.relu6, tf.tanh, tf.sigmoid))
    exp, square, sqrt, mean, stop = map(
        staticmethod, (tf.exp, tf.square, tf.sqrt, tf.reduce_mean, tf.stop_gradient)
    )

    # --- images ---------------------------------------------------------------------------------

    @staticmethod
    def image(x: Any) -> Any:
        """As it is."""
        return x

    channels_last = watched = image

    @staticmethod
    def leaky_relu(x: Any) -> Any:
        """Slope 0.2 below zero."""
        return tf.nn.leaky_relu(x, 0.2)

    def conv(
        self, x: Any, filters: int, size: int, strides: int = 1, *, dilation: int = 1,
        bias: bool = True,
    ) -> Any:  # fmt: skip
        """In two dimensions padded alike at both ends, in one dimension causal."""
        rank = len(x.shape) - 2
        kernel = self.weight((*[size] * rank, x.shape[-1], filters))
        if rank == 1:
            x = tf.pad(x, [[0, 0], [(size - 1) * dilation, 0], [0, 0]])
            y = _conv1d(x, kernel, dilation, self.xla)
        else:
            x, padding = _padded(x, size // 2, strides)
            y = tf.nn.conv2d(x, kernel, strides, padding)
        return tf.nn.bias_add(y, self.vector(filters)) if bias else y

    def depthwise(self, x: Any, size: int, strides: int = 1) -> Any:
        """A kernel for each channel."""
        kernel = self.weight((size, size, x.shape[-1], 1), "depthwise")
        x, padding = _padded(x, size // 2, strides)
        return tf.nn.depthwise_conv2d(x, kernel, [1, strides, strides, 1], padding)

    def conv_transpose(self, x: Any, filters: int, size: int, strides: int) -> Any:
        """An image `strides` times as large."""
        n, height, width, channels = x.shape
        kernel = self.weight((size, size, filters, channels), "transposed")
        shape = [n, height * strides, width * strides, filters]
        y = tf.nn.conv2d_transpose(x, kernel, shape, strides, "SAME")
        return tf.nn.bias_add(y, self.vector(filters))

    def batch_norm(self, x: Any, scale: float = 1.0) -> Any:
        """With the statistics of the batch, or with their moving averages."""
        size = x.shape[-1]
        gamma, beta = self.vector(size, scale), self.vector(size)
        (_, mean), (_, var) = self.state(size, 0.0), self.state(size, 1.0)
        given = {} if self.training else {"mean": mean, "variance": var}
        x4 = tf.reshape(x, [-1, 1, 1, size]) if len(x.shape) < 4 else x
        y, new_mean, new_var = tf.compat.v1.nn.fused_batch_norm(
            x4, gamma, beta, epsilon=1e-3, is_training=self.training, **given
        )
        if self.training:
            for average, new in ((mean, new_mean), (var, new_var)):
                average.assign_sub(0.01 * (average - new))
        return tf.reshape(y, x.shape)

    @staticmethod
    def max_pool(x: Any, size: int, strides: int) -> Any:
        """Of numbers that are not negative."""
        half = size // 2 if size > strides else 0
        x = tf.pad(x, [[0, 0], [half, half], [half, half], [0, 0]]) if half else x
        return tf.nn.max_pool2d(x, size, strides, "VALID")

    @staticmethod
    def avg_pool(x: Any, size: int) -> Any:
        """Means of squares."""
        return tf.nn.avg_pool2d(x, size, size, "VALID")

    @staticmethod
    def global_pool(x: Any) -> Any:
        """The mean of each channel."""
        return tf.reduce_mean(x, [1, 2])

    @staticmethod
    def join(images: Sequence[Any]) -> Any:
        """The channels of images one after the other."""
        return tf.concat(list(images), -1)

    @staticmethod
    def flatten(x: Any) -> Any:
        """Images as rows."""
        return tf.reshape(x, [x.shape[0], -1])

    @staticmethod
    def as_image(x: Any, height: int, width: int, channels: int) -> Any:
        """Rows as images."""
        return tf.reshape(x, [-1, height, width, channels])

    @staticmethod
    def columns(x: Any) -> Any:
        """Images as sequences of their columns."""
        n, height, width, channels = x.shape
        return tf.reshape(tf.transpose(x, [0, 2, 1, 3]), [n, width, height * channels])

    # --- rows and sequences ---------------------------------------------------------------------

    @staticmethod
    def concat(parts: Sequence[Any], axis: int = -1) -> Any:
        """Rows one after the other."""
        return tf.concat(list(parts), axis)

    @staticmethod
    def reshape(x: Any, *sizes: int) -> Any:
        """All axes but the first in another shape."""
        return tf.reshape(x, [-1, *sizes])

    def dense(self, x: Any, units: int, *, bias: bool = True) -> Any:
        """A product with a matrix over the last axis. Of three axes the first two become one,
        because TensorFlow's product of a stack is slower.
        """
        rows = tf.reshape(x, [-1, x.shape[-1]]) if len(x.shape) > 2 else x
        y = tf.matmul(rows, self.weight((x.shape[-1], units), "matrix"))
        y = tf.nn.bias_add(y, self.vector(units)) if bias else y
        return tf.reshape(y, [*x.shape[:-1], units]) if len(x.shape) > 2 else y

    @staticmethod
    def tied(x: Any, table: Any) -> Any:
        """A product with the transposed table of an embedding."""
        y = tf.matmul(tf.reshape(x, [-1, x.shape[-1]]), table, transpose_b=True)
        return tf.reshape(y, [*x.shape[:-1], table.shape[0]])

    def table(self, rows: int, width: int) -> Any:
        """The rows of an embedding."""
        return self.weight((rows, width), "table", 0.02)

    @staticmethod
    def lookup(table: Any, ids: Any) -> Any:
        """Rows of an embedding. The gradient is of these rows alone."""
        return tf.gather(table, ids)

    # --- graphs ---------------------------------------------------------------------------------

    @staticmethod
    def propagate(graph: Any, x: Any) -> Any:
        """The product of a sparse matrix and the rows of nodes."""
        rows, columns = (
            tf.raw_ops.SparseTensorToCSRSparseMatrix(indices=i, values=v, dense_shape=shape)
            for i, v, shape in graph
        )

        @tf.custom_gradient
        def product(x: Any) -> Any:
            y = tf.raw_ops.SparseMatrixMatMul(a=rows, b=x)
            y.set_shape(x.shape)
            return y, lambda g: tf.raw_ops.SparseMatrixMatMul(a=columns, b=g)

        return product(x)

    @staticmethod
    def at(x: Any, ids: Any) -> Any:
        """The rows of the nodes at one end of all edges."""
        return tf.gather(x, ids)

    @staticmethod
    def segment_sum(x: Any, ids: Any, count: int) -> Any:
        """The sums of the rows with equal ids."""
        return tf.math.unsorted_segment_sum(x, ids, count)

    @staticmethod
    def segment_max(x: Any, ids: Any, count: int) -> Any:
        """The maxima of the rows with equal ids."""
        return tf.math.unsorted_segment_max(x, ids, count)

    def layer_norm(self, x: Any) -> Any:
        """Over the last axis."""
        size = x.shape[-1]
        gamma, beta = self.vector(size, 1.0), self.vector(size)
        mean, var = tf.nn.moments(x, -1, keepdims=True)
        return tf.nn.batch_normalization(x, mean, var, beta, gamma, 1e-5)

    @staticmethod
    def gelu(x: Any, *, exact: bool = False) -> Any:
        """With the error function, or with the tangent that approximates it."""
        return tf.nn.gelu(x, approximate=not exact)

    @staticmethod
    def attention(
        q: Any, k: Any, v: Any, heads: int, *, causal: bool = False, mask: Any = None
    ) -> Any:
        """TensorFlow has no function for it."""
        n, steps, width = q.shape
        q, k, v = (
            tf.transpose(tf.reshape(x, [n, -1, heads, width // heads]), [0, 2, 1, 3])
            for x in (q * (width // heads) ** -0.5, k, v)
        )
        scores = tf.matmul(q, k, transpose_b=True)
        if causal:
            scores += np.triu(np.full((steps, steps), -1e9, "float32"), 1)
        if mask is not None:
            scores += (mask - 1.0)[:, None, None] * 1e9
        y = tf.transpose(tf.matmul(tf.nn.softmax(scores), v), [0, 2, 1, 3])
        return tf.reshape(y, [n, steps, width])

    @staticmethod
    def dot_attention(q: Any, keys: Any) -> Any:
        """Luong's: the mean of the keys, weighed by their products with the queries."""
        return tf.matmul(tf.nn.softmax(tf.matmul(q, keys, transpose_b=True)), keys)

    # --- recurrences ----------------------------------------------------------------------------

    def lstm(
        self, x: Any, units: int, *, mask: Any = None, noise: Any = None, reverse: bool = False,
        start: Any = None,
    ) -> tuple[Any, list[Any]]:  # fmt: skip
        """All outputs, in the order of time, and the last states."""
        rows, recurrent = self._cell(x, units, 4)

        def step(row: Any, states: list[Any]) -> list[Any]:
            h, c = states
            z = row + tf.matmul(h if noise is None else h * noise, recurrent)
            i, f, g, o = tf.split(z, 4, 1)
            c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
            return [tf.sigmoid(o) * tf.tanh(c), c]

        zeros = tf.zeros((x.shape[0], units))
        return _run(step, rows, start or [zeros, zeros], mask, reverse)

    def gru(
        self, x: Any, units: int, *, mask: Any = None, noise: Any = None, reverse: bool = False
    ) -> tuple[Any, list[Any]]:
        """All outputs, in the order of time, and the last state."""
        rows, recurrent = self._cell(x, units, 3)

        def step(row: Any, states: list[Any]) -> list[Any]:
            (h,) = states
            b = tf.matmul(h if noise is None else h * noise, recurrent)
            gates = tf.sigmoid(row[:, : 2 * units] + b[:, : 2 * units])
            z, r = tf.split(gates, 2, 1)
            return [z * h + (1 - z) * tf.tanh(row[:, 2 * units :] + r * b[:, 2 * units :])]

        return _run(step, rows, [tf.zeros((x.shape[0], units))], mask, reverse)

    def _cell(self, x: Any, units: int, gates: int) -> tuple[Any, Any]:
        n, steps, width = x.shape
        kernel = self.weight((width, gates * units), "matrix")
        recurrent = self.weight((units, gates * units), "matrix", units**-0.5)
        rows = tf.reshape(tf.transpose(x, [1, 0, 2]), [-1, width])
        rows = tf.nn.bias_add(tf.matmul(rows, kernel), self.vector(gates * units))
        return tf.reshape(rows, [steps, n, gates * units]), recurrent

    def conv_lstm(self, x: Any, filters: int, size: int) -> Any:
        """The last output over a sequence of images, (samples, steps, height, width, channels)."""
        n, steps, height, width, channels = x.shape
        kernel = self.weight((size, size, channels, 4 * filters))
        recurrent = self.weight((size, size, filters, 4 * filters), "kernel", 0.1)
        images = tf.reshape(tf.transpose(x, [1, 0, 2, 3, 4]), [-1, height, width, channels])
        rows = tf.nn.bias_add(tf.nn.conv2d(images, kernel, 1, "SAME"), self.vector(4 * filters))
        h = c = tf.zeros((n, height, width, filters))
        for row in tf.unstack(tf.reshape(rows, [steps, n, height, width, 4 * filters])):
            z = row + tf.nn.conv2d(h, recurrent, 1, "SAME")
            i, f, g, o = tf.split(z, 4, -1)
            c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
            h = tf.sigmoid(o) * tf.tanh(c)
        return h

    # --- losses ---------------------------------------------------------------------------------

    @staticmethod
    def cross_entropy(scores: Any, labels: Any) -> Any:
        """The mean over all places."""
        return tf.reduce_mean(_cross_entropies(scores, labels))

    @staticmethod
    def cross_entropy_where(scores: Any, labels: Any, weights: Any) -> Any:
        """The mean over the places whose weight is one."""
        each = _cross_entropies(scores, labels)
        return tf.reduce_sum(each * weights) / tf.reduce_sum(weights)

    @staticmethod
    def binary(scores: Any, target: Any) -> Any:
        """The mean of the binary cross-entropy; `target` is a number or a tensor."""
        targets = tf.fill(scores.shape, target) if isinstance(target, float) else target
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(targets, scores))

    @staticmethod
    def ctc(scores: Any, labels: Any, lengths: Any, label_lengths: Any) -> Any:
        """The mean over the samples. TensorFlow's kernel reads sparse labels."""
        scores = tf.transpose(scores, [1, 0, 2])
        lengths, label_lengths = lengths[:, 0], label_lengths[:, 0]
        places = tf.where(tf.sequence_mask(label_lengths, labels.shape[1]))
        shape = tf.shape(labels, "int64")
        sparse = tf.SparseTensor(places, tf.gather_nd(labels, places), shape)
        return tf.reduce_mean(tf.nn.ctc_loss(sparse, scores, None, lengths, blank_index=-1))

    @staticmethod
    def gradient(function: Callable[[Any], Any], x: Any) -> Any:
        """The gradient of the sum of `function(x)`."""
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(function(x))
        return tape.gradient(y, x)

    @staticmethod
    def row_sum(x: Any) -> Any:
        """The sum over all axes but the first."""
        return tf.reduce_sum(x, list(range(1, len(x.shape))))


@cache
def _has_gradients_of_dilations() -> bool:
    """Not on processors for which TensorFlow takes its own kernels instead of oneDNN's."""

    def gradient() -> Any:
        return tf.raw_ops.Conv2DBackpropFilter(
            input=tf.ones((1, 1, 3, 1)), filter_sizes=(1, 2, 1, 1),
            out_backprop=tf.ones((1, 1, 1, 1)), strides=[1] * 4, padding="VALID",
            dilations=(1, 1, 2, 1),
        )  # fmt: skip

    with tf.init_scope():
        try:
            tf.function(gradient, autograph=False)()
        except (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError):
            return False
    return True


def _conv1d(x: Any, kernel: Any, dilation: int, xla: bool) -> Any:
    if dilation == 1 or xla or _has_gradients_of_dilations():
        return tf.nn.conv1d(x, kernel, 1, "VALID", dilations=dilation)
    return tf.nn.with_space_to_batch(
        x, [dilation], "VALID", lambda part, *_: tf.nn.conv1d(part, kernel, 1, "VALID"),
        filter_shape=kernel.shape[:1],
    )  # fmt: skip


def _padded(x: Any, half: int, strides: int) -> tuple[Any, str]:
    """Images and how a convolution pads them, so that both ends get the same."""
    if strides == 1 or not half:
        return x, "SAME"
    return tf.pad(x, [[0, 0], [half, half], [half, half], [0, 0]]), "VALID"


def _cross_entropies(scores: Any, labels: Any) -> Any:
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, scores)


def _run(
    step: Any, rows: Any, states: list[Any], mask: Any, reverse: bool
) -> tuple[Any, list[Any]]:
    """`rows` is time first. Where the mask is False, states and output stay. The steps are written
    out.
    """
    split = tf.unstack(rows)
    columns = None if mask is None else tf.unstack(tf.transpose(mask)[..., None])
    outputs = []
    for t in range(len(split))[::-1] if reverse else range(len(split)):
        new = step(split[t], states)
        if columns is not None:
            new = [tf.where(columns[t], a, b) for a, b in zip(new, states, strict=True)]
        states = new
        outputs.append(states[0])
    return tf.stack(outputs[::-1] if reverse else outputs, 1), states


def both_ways(graph: Any) -> Any:
    """The entries of a matrix of SciPy in order, and those of the transposed one."""
    return [_entries(m.tocsr().tocoo()) for m in (graph, graph.T)]


def _entries(m: Any) -> Any:
    places = np.stack([m.row, m.col], 1).astype("int64")
    return tf.constant(places), tf.constant(m.data), tf.constant(m.shape, tf.int64)
