"""Blocks of TensorFlow by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.networks.layers.weights import Weights


class Blocks(Weights):
    """Formulas, normalizations, recurrences."""

    silu, softplus, softmax, sin, cos, cumsum, roll = map(
        staticmethod,
        (tf.nn.silu, tf.nn.softplus, tf.nn.softmax, tf.sin, tf.cos, tf.cumsum, tf.roll),
    )

    def constant(self, name: str, make: Callable[[], np.ndarray]) -> Any:
        """An array that is made once."""
        return tf.constant(self.known(name, make))

    @staticmethod
    def glu(x: Any) -> Any:
        """One half of the last axis, gated by the other."""
        y, gate = tf.split(x, 2, -1)
        return y * tf.sigmoid(gate)

    @staticmethod
    def transpose(x: Any, *axes: int) -> Any:
        """The axes in another order."""
        return tf.transpose(x, axes)

    @staticmethod
    def sum_over(x: Any, axis: int) -> Any:
        """The sum over one axis."""
        return tf.reduce_sum(x, axis)

    @staticmethod
    def mean_over(x: Any, axis: int) -> Any:
        """The mean over one axis."""
        return tf.reduce_mean(x, axis)

    @staticmethod
    def logsumexp(x: Any) -> Any:
        """Over the last axis."""
        return tf.reduce_logsumexp(x, -1)

    @staticmethod
    def positive(x: Any) -> Any:
        """One where `x` is positive, else zero."""
        return tf.cast(x > 0, "float32")

    @staticmethod
    def descending(x: Any) -> Any:
        """Sorted along the last axis, the largest first."""
        return tf.nn.top_k(x, x.shape[-1])[0]

    def rms_norm(self, x: Any) -> Any:
        """Over the last axis."""
        square = tf.reduce_mean(tf.square(x), -1, keepdims=True)
        return x * tf.math.rsqrt(square + 1e-5) * self.vector(x.shape[-1], 1.0)

    @staticmethod
    def unit(x: Any) -> Any:
        """Rows of length 1."""
        return tf.math.l2_normalize(x, -1)

    @staticmethod
    def weighed(q: Any, k: Any, v: Any, bias: Any) -> Any:
        """Attention whose scores are not scaled, but have a bias."""
        return tf.matmul(tf.nn.softmax(tf.matmul(q, k, transpose_b=True) + bias), v)

    # --- images and series ----------------------------------------------------------------------

    def group_norm(self, x: Any, groups: int) -> Any:
        """Over the places and channels of each group."""
        n, height, width, size = x.shape
        y = tf.reshape(x, [n, height * width, groups, size // groups])
        mean, var = tf.nn.moments(y, [1, 3], keepdims=True)
        y = tf.reshape((y - mean) * tf.math.rsqrt(var + 1e-5), x.shape)
        return y * self.vector(size, 1.0) + self.vector(size)

    @staticmethod
    def scaled(x: Any, rows: Any) -> Any:
        """The channels of images times rows of numbers."""
        return x * rows[:, None, None]

    @staticmethod
    def shifted(x: Any, rows: Any) -> Any:
        """The channels of images plus rows of numbers."""
        return x + rows[:, None, None]

    @staticmethod
    def doubled(x: Any) -> Any:
        """Each pixel four times."""
        _, height, width, _ = x.shape
        return tf.image.resize(x, [2 * height, 2 * width], "nearest")

    def depthwise_row(self, x: Any, size: int, *, causal: bool = False) -> Any:
        """A kernel for each channel of series."""
        kernel = self.weight((size, x.shape[-1]), "rows")
        before = size - 1 if causal else size // 2
        x = tf.pad(x, [[0, 0], [before, size - 1 - before], [0, 0]])
        y = tf.nn.depthwise_conv2d(x[:, None], kernel[None, ..., None], [1, 1, 1, 1], "VALID")
        return y[:, 0]

    # --- recurrences ----------------------------------------------------------------------------

    @staticmethod
    def selective(u: Any, delta: Any, a: Any, b: Any, c: Any) -> Any:
        """h = exp(delta · a) · h + delta · u · b, and y = h · c: all but the recurrence itself is
        done at once for all steps.
        """
        kept = tf.unstack(tf.exp(delta[..., None] * a), axis=1)
        fed = tf.unstack((delta * u)[..., None] * b[:, :, None], axis=1)
        h, states = tf.zeros_like(fed[0]), []
        for keep, feed in zip(kept, fed, strict=True):
            h = feed + keep * h
            states.append(h)
        return tf.reduce_sum(tf.stack(states, 1) * c[:, :, None], -1)

    @staticmethod
    def chain(scores: Any, moves: Any) -> Any:
        """The logarithm of the sum over all ways through a chain."""
        first, *others = tf.unstack(scores, axis=1)
        for row in others:
            first = tf.reduce_logsumexp(first[:, :, None] + moves, 1) + row
        return tf.reduce_logsumexp(first, -1)

    @staticmethod
    def repeated(step: Callable[[Any], Any], x: Any, count: int) -> Any:
        """A function of a function of … `x`, written out."""
        for _ in range(count):
            x = step(x)
        return x
