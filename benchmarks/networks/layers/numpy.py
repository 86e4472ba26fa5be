"""Layers by hand in NumPy and SciPy: those of transformers and of convolutional networks. Images
are (samples, height, width, channels). Each layer computes its result at once and keeps what its
gradient reads. Arrays that nobody else holds are written over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.sparse import csr_array
from scipy.special import erf

from benchmarks.networks.layers.weights import Weights

Array = np.ndarray
BLOCK = 32768
"""Elements that stay in the cache over all the passes that NumPy makes."""


class Value:
    """An array, its gradient, and the function that hands that on."""

    def __init__(
        self, layers: Layers, array: Array, back: Callable[[Array], None] | None = None
    ) -> None:
        self.layers, self.array, self.back = layers, array, back
        self.gradient: Array | None = None
        self.own = False
        """Whether nobody else holds the gradient."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The array's."""
        return self.array.shape

    def receive(self, g: Array, own: bool = True) -> None:
        """Add to the gradient; `own` if the caller does not need `g` any more."""
        if self.gradient is None:
            self.gradient, self.own = g, own
        elif self.own:
            self.gradient += g
        else:
            self.gradient, self.own = self.gradient + g, True

    def __add__(self, other: Value) -> Value:
        def back(g: Array) -> None:
            self.receive(g, own=False)
            other.receive(g, own=False)

        return self.layers.made(self.array + other.array, back)


class Layers(Weights):
    """Layers that note what they compute."""

    def __init__(self, *, training: bool = True) -> None:
        super().__init__(training=training)
        self.tape: list[Value] = []

    def made(self, array: Array, back: Callable[[Array], None]) -> Value:
        """A result."""
        found = Value(self, array, back if self.training else None)
        if self.training:
            self.tape.append(found)
        return found

    def gradients(self, loss: Value) -> list[Array]:
        """The gradients of all weights."""
        loss.receive(np.ones((), "float32"))
        while self.tape:
            value = self.tape.pop()
            if value.gradient is not None and value.back is not None:
                value.back(value.gradient)
        found = [self.values[name].gradient for name in self.trained()]
        for value in self.values.values():
            value.gradient = None
        return found

    def make(self, value: Array, role: str) -> Value:
        """A leaf."""
        return Value(self, value.copy())

    # --- images ---------------------------------------------------------------------------------

    def image(self, x: Array) -> Value:
        """Channels stay last."""
        return Value(self, x)

    @staticmethod
    def channels_last(x: Value) -> Value:
        """They are."""
        return x

    def relu(self, x: Value) -> Value:
        """Its gradient is 0 at 0."""
        y = np.maximum(x.array, 0)
        return self.made(y, lambda g: x.receive(g * (y > 0)))

    def conv(self, x: Value, filters: int, size: int) -> Value:
        """Windows of one image at a time as the rows of a matrix, and a product."""
        kernel, bias = self.weight((size, size, x.shape[-1], filters)), self.vector(filters)
        if size == 1:
            return self._rows(x, kernel, bias)
        y = _correlated(x.array, kernel.array)
        y += bias.array

        def back(g: Array) -> None:
            rows = g.reshape(-1, filters)
            bias.receive(np.ones(len(rows), "float32") @ rows)
            total = np.zeros((size * size * x.shape[-1], filters), "float32")
            for windows, part in zip(_windows(x.array, size), g, strict=True):
                total += windows.T @ part.reshape(-1, filters)
            kernel.receive(total.reshape(kernel.shape))
            if x.back is not None:
                turned = kernel.array[::-1, ::-1].swapaxes(2, 3)
                x.receive(_correlated(g, np.ascontiguousarray(turned)))

        return self.made(y, back)

    def conv_transpose(self, x: Value, filters: int, size: int, strides: int) -> Value:
        """Windows that do not overlap: a product."""
        assert size == strides, "windows would overlap"
        n, height, width, channels = x.shape
        kernel = self.weight((size, size, filters, channels), "transposed")
        bias = self.vector(filters)
        wide, rows = kernel.array.reshape(-1, channels), x.array.reshape(-1, channels)
        tiles = (rows @ wide.T).reshape(n, height, width, size, size, filters)
        y = np.empty((n, height, size, width, size, filters), "float32")
        np.add(tiles.transpose(0, 1, 3, 2, 4, 5), bias.array, out=y)

        def back(g: Array) -> None:
            whole = g.reshape(-1, filters)
            bias.receive(np.ones(len(whole), "float32") @ whole)
            parts = g.reshape(y.shape).transpose(0, 1, 3, 2, 4, 5).reshape(len(rows), -1)
            kernel.receive((parts.T @ rows).reshape(kernel.shape))
            x.receive((parts @ wide).reshape(x.shape))

        return self.made(y.reshape(n, height * size, width * size, filters), back)

    def max_pool(self, x: Value, size: int, strides: int) -> Value:
        """Of numbers that are not negative, and whose gradients are 0 where they are 0."""
        assert size == strides, "windows would overlap"
        n, height, width, channels = x.shape
        tiles = x.array.reshape(n, height // size, size, width // size, size, channels)
        y = tiles.max(2).max(3)

        def back(g: Array) -> None:
            won = tiles == y[:, :, None, :, None]
            x.receive((won * g[:, :, None, :, None]).reshape(x.shape))

        return self.made(y, back)

    def join(self, images: Sequence[Value]) -> Value:
        """The channels of images one after the other."""
        ends = np.cumsum([x.shape[-1] for x in images])[:-1]

        def back(g: Array) -> None:
            for x, part in zip(images, np.split(g, ends, -1), strict=True):
                x.receive(np.ascontiguousarray(part))

        return self.made(np.concatenate([x.array for x in images], -1), back)

    # --- rows -----------------------------------------------------------------------------------

    def dense(self, x: Value, units: int) -> Value:
        """A product with a matrix over the last axis."""
        return self._rows(x, self.weight((x.shape[-1], units), "matrix"), self.vector(units))

    def _rows(self, x: Value, w: Value, bias: Value) -> Value:
        matrix = w.array.reshape(-1, w.shape[-1])
        rows = x.array.reshape(-1, len(matrix))
        y = rows @ matrix
        y += bias.array

        def back(g: Array) -> None:
            g = g.reshape(y.shape)
            bias.receive(np.ones(len(g), "float32") @ g)
            w.receive((rows.T @ g).reshape(w.shape))
            if x.back is not None:
                x.receive((g @ matrix.T).reshape(x.shape))

        return self.made(y.reshape(*x.shape[:-1], -1), back)

    def tied(self, x: Value, table: Value) -> Value:
        """A product with the transposed table of an embedding."""
        rows = x.array.reshape(-1, x.shape[-1])

        def back(g: Array) -> None:
            g = g.reshape(len(rows), -1)
            table.receive(g.T @ rows)
            x.receive((g @ table.array).reshape(x.shape))

        return self.made((rows @ table.array.T).reshape(*x.shape[:-1], -1), back)

    def table(self, rows: int, width: int) -> Value:
        """The rows of an embedding."""
        return self.weight((rows, width), "table", 0.02)

    def lookup(self, table: Value, ids: Array) -> Value:
        """Rows of an embedding. SciPy adds gradients up in a tenth of the time of `np.add.at`."""
        flat = ids.reshape(-1)

        def back(g: Array) -> None:
            parts = np.ones(len(flat), "float32"), flat, np.arange(len(flat) + 1)
            ones = csr_array(parts, shape=(len(flat), len(table.array)))
            table.receive(ones.T @ g.reshape(len(flat), -1))

        return self.made(table.array[ids], back)

    def layer_norm(self, x: Value) -> Value:
        """Over the last axis."""
        size = x.shape[-1]
        gamma, beta = self.vector(size, 1.0), self.vector(size)
        mean = np.full((size, 1), 1 / size, "float32")
        normal = x.array - x.array @ mean
        scale = np.einsum("...i,...i->...", normal, normal)[..., None]
        scale = 1 / np.sqrt(scale * np.float32(1 / size) + np.float32(1e-5))
        normal *= scale
        y = normal * gamma.array
        y += beta.array

        def back(g: Array) -> None:
            rows = g.reshape(-1, size)
            beta.receive(np.ones(len(rows), "float32") @ rows)
            gamma.receive(np.einsum("ij,ij->j", rows, normal.reshape(rows.shape)))
            d = g * gamma.array
            along = np.einsum("...i,...i->...", d, normal)[..., None] * np.float32(1 / size)
            d -= d @ mean
            d -= normal * along
            d *= scale
            x.receive(d)

        return self.made(y, back)

    def gelu(self, x: Value, *, exact: bool = False) -> Value:
        """Block by block, together with the derivative."""
        y, slope = np.empty_like(x.array), np.empty_like(x.array)
        flat = [a.reshape(-1) for a in (x.array, y, slope)]
        for i in range(0, y.size, BLOCK):
            (_by_erf if exact else _by_tanh)(*[a[i : i + BLOCK] for a in flat])
        return self.made(y, lambda g: x.receive(g * slope))

    def attention(
        self, q: Value, k: Value, v: Value, heads: int, *, causal: bool = False, mask: Any = None
    ) -> Value:
        """Batched products of all heads."""
        n, steps, width = q.shape
        shape, scale = (n, steps, heads, width // heads), np.float32((width // heads) ** -0.5)
        qs, ks, vs = (
            np.ascontiguousarray(t.array.reshape(shape).swapaxes(1, 2)) for t in (q, k, v)
        )
        p = qs @ ks.swapaxes(2, 3)
        p *= scale
        if causal:
            p += np.triu(np.full((steps, steps), -1e9, "float32"), 1)
        if mask is not None:
            p += ((mask - 1) * np.float32(1e9))[:, None, None]
        p -= p.max(-1, keepdims=True)
        np.exp(p, out=p)
        p /= p.sum(-1, keepdims=True)
        y = (p @ vs).swapaxes(1, 2).reshape(n, steps, width)

        def back(g: Array) -> None:
            g = np.ascontiguousarray(g.reshape(shape).swapaxes(1, 2))
            d = g @ vs.swapaxes(2, 3)
            found = {v: p.swapaxes(2, 3) @ g}
            d -= np.einsum("...i,...i->...", d, p)[..., None]
            d *= p
            d *= scale
            found |= {q: d @ ks, k: d.swapaxes(2, 3) @ qs}
            for t, slope in found.items():
                t.receive(slope.swapaxes(1, 2).reshape(n, steps, width))

        return self.made(y, back)

    # --- losses ---------------------------------------------------------------------------------

    def cross_entropy(self, scores: Value, labels: Array) -> Value:
        """The mean over all places."""
        return self.cross_entropy_where(scores, labels, np.ones(labels.shape, "float32"))

    def cross_entropy_where(self, scores: Value, labels: Array, weights: Array) -> Value:
        """The mean over the places whose weight is one."""
        flat, share = labels.reshape(-1), (weights / weights.sum()).reshape(-1, 1)
        p = scores.array.reshape(len(flat), -1)
        p = p - p.max(-1, keepdims=True)
        places = np.arange(len(flat)), flat
        chosen = p[places]
        np.exp(p, out=p)
        total = p.sum(-1, keepdims=True)
        loss = ((np.log(total) - chosen[:, None]) * share).sum()

        def back(g: Array) -> None:
            np.multiply(p, share / total, out=p)
            p[places] -= share[:, 0]
            scores.receive(p.reshape(scores.shape))

        return self.made(loss, back)


def _by_tanh(x: Array, y: Array, slope: Array) -> None:
    a, b = np.float32((2 / np.pi) ** 0.5), np.float32((2 / np.pi) ** 0.5 * 0.044715)
    square = x * x
    t = square * b
    t += a
    t *= x
    np.tanh(t, out=t)
    half = x * np.float32(0.5)
    np.multiply(half, t, out=y)
    y += half
    square *= 3 * b
    square += a
    square *= half  # x / 2 times the derivative of the argument of tanh
    np.multiply(t, t, out=slope)
    np.subtract(1, slope, out=slope)
    slope *= square
    t += 1
    t *= np.float32(0.5)
    slope += t


def _by_erf(x: Array, y: Array, slope: Array) -> None:
    share = erf(x * np.float32(0.5**0.5))
    share += 1
    share *= np.float32(0.5)
    np.multiply(x, share, out=y)
    np.multiply(x, x, out=slope)
    slope *= np.float32(-0.5)
    np.exp(slope, out=slope)
    slope *= x
    slope *= np.float32((2 * np.pi) ** -0.5)
    slope += share


def _windows(x: Array, size: int) -> Any:
    """For each image its windows as rows, in a buffer."""
    height, width, channels = x.shape[1:]
    edge = size // 2
    padded = np.zeros((height + 2 * edge, width + 2 * edge, channels), "float32")
    view = sliding_window_view(padded, (size, size), (0, 1)).transpose(0, 1, 3, 4, 2)
    rows = np.empty(view.shape, "float32")
    for image in x:
        padded[edge : edge + height, edge : edge + width] = image
        rows[...] = view
        yield rows.reshape(height * width, -1)


def _correlated(x: Array, kernel: Array) -> Array:
    """The convolution of images, padded so that they keep their size."""
    size, filters = len(kernel), kernel.shape[-1]
    y = np.empty((*x.shape[:3], filters), "float32")
    matrix = kernel.reshape(-1, filters)
    for windows, out in zip(_windows(x, size), y, strict=True):
        np.dot(windows, matrix, out=out.reshape(-1, filters))
    return y
