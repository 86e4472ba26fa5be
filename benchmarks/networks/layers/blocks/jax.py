"""Blocks of JAX by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks.networks.layers.weights import Weights


class Blocks(Weights):
    """Formulas, normalizations, recurrences."""

    silu, softplus, softmax, glu, sin, cos, cumsum, roll = map(
        staticmethod,
        (
            jax.nn.silu,
            jax.nn.softplus,
            jax.nn.softmax,
            jax.nn.glu,
            jnp.sin,
            jnp.cos,
            jnp.cumsum,
            jnp.roll,
        ),
    )

    def constant(self, name: str, make: Callable[[], np.ndarray]) -> Any:
        """An array that is made once."""
        return jnp.asarray(self.known(name, make))

    @staticmethod
    def transpose(x: Any, *axes: int) -> Any:
        """The axes in another order."""
        return x.transpose(*axes)

    @staticmethod
    def sum_over(x: Any, axis: int) -> Any:
        """The sum over one axis."""
        return x.sum(axis)

    @staticmethod
    def mean_over(x: Any, axis: int) -> Any:
        """The mean over one axis."""
        return x.mean(axis)

    @staticmethod
    def logsumexp(x: Any) -> Any:
        """Over the last axis."""
        return jax.nn.logsumexp(x, -1)

    @staticmethod
    def positive(x: Any) -> Any:
        """One where `x` is positive, else zero."""
        return (x > 0).astype("float32")

    @staticmethod
    def descending(x: Any) -> Any:
        """Sorted along the last axis, the largest first."""
        return jnp.sort(x, descending=True)

    def rms_norm(self, x: Any) -> Any:
        """Over the last axis."""
        square = jnp.mean(jnp.square(x), -1, keepdims=True)
        return x * lax.rsqrt(square + 1e-5) * self.vector(x.shape[-1], 1.0)

    @staticmethod
    def unit(x: Any) -> Any:
        """Rows of length 1."""
        return x * lax.rsqrt(jnp.maximum(jnp.sum(jnp.square(x), -1, keepdims=True), 1e-12))

    @staticmethod
    def weighed(q: Any, k: Any, v: Any, bias: Any) -> Any:
        """Attention whose scores are not scaled, but have a bias."""
        return jax.nn.softmax(q @ k.swapaxes(-1, -2) + bias) @ v

    # --- images and series ----------------------------------------------------------------------

    def group_norm(self, x: Any, groups: int) -> Any:
        """Over the places and channels of each group."""
        size = x.shape[-1]
        y = x.reshape(len(x), -1, groups, size // groups)
        mean, var = y.mean((1, 3), keepdims=True), y.var((1, 3), keepdims=True)
        y = ((y - mean) * lax.rsqrt(var + 1e-5)).reshape(x.shape)
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
        n, height, width, size = x.shape
        y = jnp.broadcast_to(x[:, :, None, :, None], (n, height, 2, width, 2, size))
        return y.reshape(n, 2 * height, 2 * width, size)

    def depthwise_row(self, x: Any, size: int, *, causal: bool = False) -> Any:
        """A kernel for each channel of series: a sum, because XLA's convolution by groups is slow
        on a processor.
        """
        kernel = self.weight((size, x.shape[-1]), "rows")
        before = size - 1 if causal else size // 2
        steps = x.shape[1]
        x = jnp.pad(x, ((0, 0), (before, size - 1 - before), (0, 0)))
        return sum(x[:, i : i + steps] * kernel[i] for i in range(size))

    # --- recurrences ----------------------------------------------------------------------------

    @staticmethod
    def selective(u: Any, delta: Any, a: Any, b: Any, c: Any) -> Any:
        """h = exp(delta · a) · h + delta · u · b, and y = h · c, step by step."""

        def step(h: Any, row: Any) -> Any:
            u, d, b, c = row
            h = jnp.exp(d[..., None] * a) * h + (d * u)[..., None] * b[:, None]
            return h, jnp.sum(h * c[:, None], -1)

        rows = [x.swapaxes(0, 1) for x in (u, delta, b, c)]
        zeros = jnp.zeros((*u[:, 0].shape, a.shape[-1]), u.dtype)
        return lax.scan(step, zeros, rows)[1].swapaxes(0, 1)

    @staticmethod
    def chain(scores: Any, moves: Any) -> Any:
        """The logarithm of the sum over all ways through a chain."""

        def step(before: Any, row: Any) -> Any:
            return jax.nn.logsumexp(before[:, :, None] + moves, 1) + row, None

        last, _ = lax.scan(step, scores[:, 0], scores[:, 1:].swapaxes(0, 1))
        return jax.nn.logsumexp(last, -1)

    @staticmethod
    def repeated(step: Callable[[Any], Any], x: Any, count: int) -> Any:
        """A function of a function of … `x`."""
        return lax.scan(lambda x, _: (step(x), None), x, length=count)[0]
