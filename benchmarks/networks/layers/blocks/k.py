"""Blocks in K, as a user writes them: plain formulas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from backplane import backend as K
from benchmarks.networks.layers.weights import Weights


class Blocks(Weights):
    """Formulas, normalizations, recurrences."""

    softplus, softmax, sin, cos, cumsum = map(
        staticmethod, (K.softplus, K.softmax, K.sin, K.cos, K.cumsum)
    )

    def constant(self, name: str, make: Callable[[], np.ndarray]) -> Any:
        """An array that is made once."""
        value = self.known(name, make)
        return K.constant(value, dtype=value.dtype.name)

    @staticmethod
    def silu(x: Any) -> Any:
        """x · sigmoid(x)."""
        return x * K.sigmoid(x)

    @staticmethod
    def glu(x: Any) -> Any:
        """One half of the last axis, gated by the other."""
        half = K.int_shape(x)[-1] // 2
        return x[..., :half] * K.sigmoid(x[..., half:])

    @staticmethod
    def transpose(x: Any, *axes: int) -> Any:
        """The axes in another order."""
        return K.permute_dimensions(x, axes)

    @staticmethod
    def sum_over(x: Any, axis: int) -> Any:
        """The sum over one axis."""
        return K.sum(x, axis=axis)

    @staticmethod
    def mean_over(x: Any, axis: int) -> Any:
        """The mean over one axis."""
        return K.mean(x, axis=axis)

    @staticmethod
    def logsumexp(x: Any) -> Any:
        """Over the last axis."""
        return K.logsumexp(x, axis=-1)

    @staticmethod
    def positive(x: Any) -> Any:
        """One where `x` is positive, else zero."""
        return K.cast(x > 0, "float32")

    @staticmethod
    def descending(x: Any) -> Any:
        """Sorted along the last axis, the largest first."""
        return -K.sort(-x)

    @staticmethod
    def roll(x: Any, steps: int, axis: int) -> Any:
        """Moved along an axis, and around its end."""
        places = [slice(None)] * axis
        there, back = (*places, slice(-steps, None)), (*places, slice(None, -steps))
        return K.concatenate([x[there], x[back]], axis=axis)

    def rms_norm(self, x: Any) -> Any:
        """Over the last axis."""
        size = K.int_shape(x)[-1]
        square = K.mean(K.square(x), axis=-1, keepdims=True)
        return x / K.sqrt(square + 1e-5) * self.vector(size, 1.0)

    @staticmethod
    def unit(x: Any) -> Any:
        """Rows of length 1."""
        return K.l2_normalize(x, axis=-1)

    @staticmethod
    def weighed(q: Any, k: Any, v: Any, bias: Any) -> Any:
        """Attention whose scores are not scaled, but have a bias."""
        return K.matmul(K.softmax(K.matmul(q, _turned(k)) + bias), v)

    # --- images and series ----------------------------------------------------------------------

    def group_norm(self, x: Any, groups: int) -> Any:
        """Over the places and channels of each group."""
        _, height, width, size = K.int_shape(x)
        y = K.reshape(x, (-1, height * width, groups, size // groups))
        centred = y - K.mean(y, axis=[1, 3], keepdims=True)
        y = centred / K.sqrt(K.mean(K.square(centred), axis=[1, 3], keepdims=True) + 1e-5)
        y = K.reshape(y, (-1, height, width, size))
        return y * self.vector(size, 1.0) + self.vector(size)

    @staticmethod
    def scaled(x: Any, rows: Any) -> Any:
        """The channels of images times rows of numbers."""
        return x * rows[:, None, None, :]

    @staticmethod
    def shifted(x: Any, rows: Any) -> Any:
        """The channels of images plus rows of numbers."""
        return x + rows[:, None, None, :]

    @staticmethod
    def doubled(x: Any) -> Any:
        """Each pixel four times."""
        return K.resize_images(x, 2, 2, "channels_last")

    def depthwise_row(self, x: Any, size: int, *, causal: bool = False) -> Any:
        """A kernel for each channel of series."""
        channels = K.int_shape(x)[-1]
        kernel = K.reshape(self.weight((size, channels), "rows"), (1, size, channels, 1))
        before = size - 1 if causal else size // 2
        x = K.expand_dims(K.temporal_padding(x, (before, size - 1 - before)), 1)
        return K.squeeze(K.depthwise_conv2d(x, kernel, padding="valid"), 1)

    # --- recurrences ----------------------------------------------------------------------------

    @staticmethod
    def selective(u: Any, delta: Any, a: Any, b: Any, c: Any) -> Any:
        """h = exp(delta · a) · h + delta · u · b, and y = h · c, step by step."""

        def step(row: Sequence[Any], states: list[Any]) -> tuple[Any, list[Any]]:
            u, d, b, c = row
            h = K.exp(d[:, :, None] * a) * states[0] + (d * u)[:, :, None] * b[:, None, :]
            return K.sum(h * c[:, None, :], axis=-1), [h]

        zeros = K.tile(K.zeros_like(u[:, 0, :, None]), (1, 1, K.int_shape(a)[-1]))
        return K.rnn(step, [u, delta, b, c], [zeros])[1]

    @staticmethod
    def chain(scores: Any, moves: Any) -> Any:
        """The logarithm of the sum over all ways through a chain."""

        def step(row: Any, states: list[Any]) -> tuple[Any, list[Any]]:
            new = K.logsumexp(states[0][:, :, None] + moves, axis=1) + row
            return new, [new]

        return K.logsumexp(K.rnn(step, scores[:, 1:], [scores[:, 0]])[0], axis=-1)

    @staticmethod
    def repeated(step: Callable[[Any], Any], x: Any, count: int) -> Any:
        """A function of a function of … `x`."""
        return K.foldl(lambda x, _: step(x), K.zeros((count,)), initializer=x)


def _turned(x: Any) -> Any:
    last = K.ndim(x) - 1
    return K.permute_dimensions(x, (*range(last - 1), last, last - 1))
