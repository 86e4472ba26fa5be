"""Layers of JAX by hand, for `jax.jit` of a whole step: plain functions of `jax.numpy`, `jax.nn`
and `jax.lax`, images channels last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.sparse import BCSR

from benchmarks.networks.layers.blocks.jax import Blocks

LARGE = 1 << 16
"""Rows from which on a step of descent writes only the rows of a table that were looked up."""
LAYOUT = {1: ("NWC", "WIO", "NWC"), 2: ("NHWC", "HWIO", "NHWC")}


class Layers(Blocks):
    """Before a step, `values` become what it traces; `updates` are the new moving averages."""

    def __init__(self, *, training: bool = True) -> None:
        super().__init__(training=training)
        self.updates: dict[str, Any] = {}
        self.rows: Iterator[Any] | None = None
        """Zeros that are added to what is looked up in large tables, so that there is a gradient of
        the rows alone.
        """
        self.looked_up: list[tuple[str, Any]] = []
        """The large tables that were looked up, and where."""

    def make(self, value: np.ndarray, role: str) -> Any:
        """An array."""
        return value

    relu, relu6, tanh, sigmoid = map(
        staticmethod, (jax.nn.relu, jax.nn.relu6, jnp.tanh, jax.nn.sigmoid)
    )
    exp, square, sqrt, mean, stop = map(
        staticmethod, (jnp.exp, jnp.square, jnp.sqrt, jnp.mean, lax.stop_gradient)
    )

    # --- images ---------------------------------------------------------------------------------

    @staticmethod
    def image(x: Any) -> Any:
        """As it is."""
        return x

    channels_last = image

    @staticmethod
    def leaky_relu(x: Any) -> Any:
        """Slope 0.2 below zero."""
        return jax.nn.leaky_relu(x, 0.2)

    def conv(
        self, x: Any, filters: int, size: int, strides: int = 1, *, dilation: int = 1,
        bias: bool = True,
    ) -> Any:  # fmt: skip
        """In two dimensions padded alike at both ends, in one dimension causal."""
        rank = x.ndim - 2
        kernel = self.weight((*[size] * rank, x.shape[-1], filters))
        half = size // 2
        padding = [((size - 1) * dilation, 0)] if rank == 1 else [(half, half)] * rank
        y = lax.conv_general_dilated(
            x, kernel, (strides,) * rank, padding,
            rhs_dilation=(dilation,) * rank, dimension_numbers=LAYOUT[rank],
        )  # fmt: skip
        return y + self.vector(filters) if bias else y

    def depthwise(self, x: Any, size: int, strides: int = 1) -> Any:
        """A kernel for each channel."""
        channels = x.shape[-1]
        kernel = self.weight((size, size, channels, 1), "depthwise")
        return lax.conv_general_dilated(
            x, kernel.reshape(size, size, 1, channels), (strides, strides),
            [(size // 2, size // 2)] * 2, dimension_numbers=LAYOUT[2], feature_group_count=channels,
        )  # fmt: skip

    def conv_transpose(self, x: Any, filters: int, size: int, strides: int) -> Any:
        """An image `strides` times as large."""
        kernel = self.weight((size, size, filters, x.shape[-1]), "transposed")
        y = lax.conv_transpose(
            x, kernel, (strides, strides), "SAME",
            dimension_numbers=LAYOUT[2], transpose_kernel=True,
        )  # fmt: skip
        return y + self.vector(filters)

    def batch_norm(self, x: Any, scale: float = 1.0) -> Any:
        """With the statistics of the batch, or with their moving averages."""
        size = x.shape[-1]
        gamma, beta = self.vector(size, scale), self.vector(size)
        (mean_name, mean), (var_name, var) = self.state(size, 0.0), self.state(size, 1.0)
        if self.training:
            axes = tuple(range(x.ndim - 1))
            new_mean, new_var = jnp.mean(x, axes), jnp.var(x, axes)
            self.updates[mean_name] = 0.99 * mean + 0.01 * new_mean
            self.updates[var_name] = 0.99 * var + 0.01 * new_var
            mean, var = new_mean, new_var
        return (x - mean) * (lax.rsqrt(var + 1e-3) * gamma) + beta

    @staticmethod
    def max_pool(x: Any, size: int, strides: int) -> Any:
        """Of numbers that are not negative."""
        half = size // 2 if size > strides else 0
        window, steps = (1, size, size, 1), (1, strides, strides, 1)
        padding = [(0, 0), (half, half), (half, half), (0, 0)]
        return lax.reduce_window(x, -jnp.inf, lax.max, window, steps, padding)

    @staticmethod
    def avg_pool(x: Any, size: int) -> Any:
        """Means of squares."""
        n, height, width, channels = x.shape
        return x.reshape(n, height // size, size, width // size, size, channels).mean((2, 4))

    @staticmethod
    def global_pool(x: Any) -> Any:
        """The mean of each channel."""
        return x.mean((1, 2))

    @staticmethod
    def join(images: Sequence[Any]) -> Any:
        """The channels of images one after the other."""
        return jnp.concatenate(images, -1)

    @staticmethod
    def flatten(x: Any) -> Any:
        """Images as rows."""
        return x.reshape(len(x), -1)

    @staticmethod
    def as_image(x: Any, height: int, width: int, channels: int) -> Any:
        """Rows as images."""
        return x.reshape(-1, height, width, channels)

    @staticmethod
    def columns(x: Any) -> Any:
        """Images as sequences of their columns."""
        n, height, width, channels = x.shape
        return x.swapaxes(1, 2).reshape(n, width, height * channels)

    @staticmethod
    def watched(x: Any) -> Any:
        """An operand that derivatives are taken by."""
        return x

    # --- rows and sequences ---------------------------------------------------------------------

    @staticmethod
    def concat(parts: Sequence[Any], axis: int = -1) -> Any:
        """Rows one after the other."""
        return jnp.concatenate(parts, axis)

    @staticmethod
    def reshape(x: Any, *sizes: int) -> Any:
        """All axes but the first in another shape."""
        return x.reshape(-1, *sizes)

    def dense(self, x: Any, units: int, *, bias: bool = True) -> Any:
        """A product with a matrix over the last axis."""
        y = x @ self.weight((x.shape[-1], units), "matrix")
        return y + self.vector(units) if bias else y

    @staticmethod
    def tied(x: Any, table: Any) -> Any:
        """A product with the transposed table of an embedding."""
        return x @ table.T

    def table(self, rows: int, width: int) -> Any:
        """The rows of an embedding."""
        return self.weight((rows, width), "table", 0.02)

    def lookup(self, table: Any, ids: Any) -> Any:
        """Rows of an embedding."""
        found = jnp.take(table, ids, axis=0)
        if len(table) < LARGE:
            return found
        self.looked_up.append((next(n for n, v in self.values.items() if v is table), ids))
        return found if self.rows is None else found + next(self.rows)

    # --- graphs ---------------------------------------------------------------------------------

    @staticmethod
    def propagate(graph: Any, x: Any) -> Any:
        """The product of a sparse matrix and the rows of nodes."""
        return _propagated(*graph, x)

    @staticmethod
    def at(x: Any, ids: Any) -> Any:
        """The rows of the nodes at one end of all edges."""
        return x.at[ids].get(mode="promise_in_bounds")

    @staticmethod
    def segment_sum(x: Any, ids: Any, count: int) -> Any:
        """The sums of the rows with equal ids."""
        return jax.ops.segment_sum(x, ids, count)

    @staticmethod
    def segment_max(x: Any, ids: Any, count: int) -> Any:
        """The maxima of the rows with equal ids."""
        return jax.ops.segment_max(x, ids, count)

    def layer_norm(self, x: Any) -> Any:
        """Over the last axis."""
        size = x.shape[-1]
        gamma, beta = self.vector(size, 1.0), self.vector(size)
        mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) * lax.rsqrt(var + 1e-5) * gamma + beta

    @staticmethod
    def gelu(x: Any, *, exact: bool = False) -> Any:
        """With the error function, or with the tangent that approximates it."""
        return jax.nn.gelu(x, approximate=not exact)

    @staticmethod
    def attention(
        q: Any, k: Any, v: Any, heads: int, *, causal: bool = False, mask: Any = None
    ) -> Any:
        """JAX's own function for it."""
        n, steps, width = q.shape
        q, k, v = (x.reshape(n, -1, heads, width // heads) for x in (q, k, v))
        seen = None if mask is None else (mask > 0)[:, None, None]
        y = jax.nn.dot_product_attention(q, k, v, mask=seen, is_causal=causal)
        return y.reshape(n, steps, width)

    @staticmethod
    def dot_attention(q: Any, keys: Any) -> Any:
        """Luong's: the mean of the keys, weighed by their products with the queries."""
        return jax.nn.softmax(q @ keys.swapaxes(1, 2)) @ keys

    # --- recurrences ----------------------------------------------------------------------------

    def lstm(
        self, x: Any, units: int, *, mask: Any = None, noise: Any = None, reverse: bool = False,
        start: Any = None,
    ) -> tuple[Any, list[Any]]:  # fmt: skip
        """All outputs, in the order of time, and the last states."""
        rows, recurrent = self._cell(x, units, 4)

        def step(row: Any, states: list[Any]) -> list[Any]:
            h, c = states
            z = row + (h if noise is None else h * noise) @ recurrent
            i, f, g, o = jnp.split(z, 4, 1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            return [jax.nn.sigmoid(o) * jnp.tanh(c), c]

        zeros = jnp.zeros((len(x), units), x.dtype)
        return _run(step, rows, start or [zeros, zeros], mask, reverse)

    def gru(
        self, x: Any, units: int, *, mask: Any = None, noise: Any = None, reverse: bool = False
    ) -> tuple[Any, list[Any]]:
        """All outputs, in the order of time, and the last state."""
        rows, recurrent = self._cell(x, units, 3)

        def step(row: Any, states: list[Any]) -> list[Any]:
            (h,) = states
            b = (h if noise is None else h * noise) @ recurrent
            gates = jax.nn.sigmoid(row[:, : 2 * units] + b[:, : 2 * units])
            z, r = gates[:, :units], gates[:, units:]
            return [z * h + (1 - z) * jnp.tanh(row[:, 2 * units :] + r * b[:, 2 * units :])]

        return _run(step, rows, [jnp.zeros((len(x), units), x.dtype)], mask, reverse)

    def _cell(self, x: Any, units: int, gates: int) -> tuple[Any, Any]:
        kernel = self.weight((x.shape[-1], gates * units), "matrix")
        recurrent = self.weight((units, gates * units), "matrix", units**-0.5)
        return x.swapaxes(0, 1) @ kernel + self.vector(gates * units), recurrent

    def conv_lstm(self, x: Any, filters: int, size: int) -> Any:
        """The last output over a sequence of images, (samples, steps, height, width, channels)."""
        n, steps, height, width, channels = x.shape
        kernel = self.weight((size, size, channels, 4 * filters))
        recurrent = self.weight((size, size, filters, 4 * filters), "kernel", 0.1)
        bias = self.vector(4 * filters)

        def conv(x: Any, kernel: Any) -> Any:
            return lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=LAYOUT[2])

        images = x.swapaxes(0, 1).reshape(steps * n, height, width, channels)
        rows = (conv(images, kernel) + bias).reshape(steps, n, height, width, -1)

        def step(states: Any, row: Any) -> Any:
            h, c = states
            i, f, g, o = jnp.split(row + conv(h, recurrent), 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

        zeros = jnp.zeros((n, height, width, filters), x.dtype)
        return lax.scan(step, (zeros, zeros), rows)[0][0]

    # --- losses ---------------------------------------------------------------------------------

    @staticmethod
    def cross_entropy(scores: Any, labels: Any) -> Any:
        """The mean over all places."""
        return _cross_entropies(scores, labels).mean()

    @staticmethod
    def cross_entropy_where(scores: Any, labels: Any, weights: Any) -> Any:
        """The mean over the places whose weight is one."""
        return (_cross_entropies(scores, labels) * weights).sum() / weights.sum()

    @staticmethod
    def binary(scores: Any, target: Any) -> Any:
        """The mean of the binary cross-entropy; `target` is a number or a tensor."""
        return jnp.mean(jax.nn.softplus(scores) - scores * target)

    @staticmethod
    def ctc(scores: Any, labels: Any, lengths: Any, label_lengths: Any) -> Any:
        """The mean over the samples: the forward recursion over the labels with blanks between
        them, in logarithms.
        """
        n, steps, classes = scores.shape
        extended = jnp.full((n, 2 * labels.shape[1] + 1), classes - 1).at[:, 1::2].set(labels)
        logs = jax.nn.log_softmax(scores)
        logs = jnp.take_along_axis(logs, extended[:, None, :].repeat(steps, 1), 2).swapaxes(0, 1)
        far = -1e30
        before = jnp.pad(extended, ((0, 0), (2, 0)), constant_values=-1)[:, :-2]
        skips = jnp.where((extended != classes - 1) & (extended != before), 0.0, far)
        start = jnp.where(jnp.arange(extended.shape[1]) < 2, logs[0], far)

        def step(alpha: Any, given: Any) -> Any:
            row, t = given
            one = jnp.pad(alpha, ((0, 0), (1, 0)), constant_values=far)[:, :-1]
            two = jnp.pad(alpha, ((0, 0), (2, 0)), constant_values=far)[:, :-2] + skips
            new = jnp.logaddexp(jnp.logaddexp(alpha, one), two) + row
            return jnp.where(t < lengths, new, alpha), None

        alpha, _ = lax.scan(step, start, (logs[1:], jnp.arange(1, steps)))
        ends = jnp.take_along_axis(
            alpha, jnp.concatenate([2 * label_lengths, 2 * label_lengths - 1], 1), 1
        )
        return -jax.nn.logsumexp(ends, 1).mean()

    @staticmethod
    def gradient(function: Callable[[Any], Any], x: Any) -> Any:
        """The gradient of the sum of `function(x)`."""
        return jax.grad(lambda x: jnp.sum(function(x)))(x)

    @staticmethod
    def row_sum(x: Any) -> Any:
        """The sum over all axes but the first."""
        return x.sum(tuple(range(1, x.ndim)))


def _cross_entropies(scores: Any, labels: Any) -> Any:
    logs = jax.nn.log_softmax(scores)
    return -jnp.take_along_axis(logs, labels[..., None], -1)[..., 0]


def _run(
    step: Any, rows: Any, states: list[Any], mask: Any, reverse: bool
) -> tuple[Any, list[Any]]:
    """`rows` is time first. Where the mask is False, states and output stay."""
    columns = None if mask is None else mask.T[..., None]

    def body(states: Any, given: Any) -> Any:
        row, seen = given
        new = step(row, states)
        if seen is not None:
            new = [jnp.where(seen, a, b) for a, b in zip(new, states, strict=True)]
        return new, new[0]

    states, outputs = lax.scan(body, list(states), (rows, columns), reverse=reverse)
    return outputs.swapaxes(0, 1), states


@jax.custom_vjp
def _propagated(graph: Any, transposed: Any, x: Any) -> Any:
    return graph @ x


_propagated.defvjp(
    lambda graph, transposed, x: (graph @ x, transposed),
    lambda transposed, g: (None, None, transposed @ g),
)


def both_ways(graph: Any) -> Any:
    """A matrix of SciPy and the transposed one, in compressed rows."""
    return [_rows(graph.tocsr()), _rows(graph.T.tocsr())]


def _rows(m: Any) -> Any:
    return BCSR(tuple(map(jnp.array, (m.data, m.indices, m.indptr))), shape=m.shape)
