"""Two 3 × 3 convolutions with relu and a 2 × 2 maximum, forward and backward, by hand.

One image after the other: what a line writes is still in the cache when the next one reads it.
Products do the arithmetic; the buffers they read are small, and allocated once.
"""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

Array = np.ndarray


class First:
    """Convolution of images with one channel: nine shifted copies of an image, and a product."""

    def __init__(
        self, kernel: Array, bias: Array, images: Array, into: tuple[Array, Array]
    ) -> None:
        self.kernel, self.bias = kernel.reshape(9, -1), bias
        self.into = [into[0].reshape(9, -1), into[1]]
        n = images.shape[1] - 2
        self.shifts = sliding_window_view(images[..., 0], (n, n), (1, 2))
        self.shifted = np.empty((3, 3, n, n), kernel.dtype)
        self.out = np.empty((len(images), n, n, kernel.shape[3]), kernel.dtype)
        self.on = np.empty(self.out.shape[1:], bool)
        self.part, self.ones = np.empty_like(self.kernel), np.ones(n * n, kernel.dtype)

    def forward(self, i: int) -> None:
        """Write image `i` of the result."""
        self.shifted[...] = self.shifts[i]
        out = self.out[i]
        np.dot(self.shifted.reshape(9, -1).T, self.kernel, out=out.reshape(len(self.ones), -1))
        out += self.bias
        np.maximum(out, 0, out=out)

    def backward(self, i: int, d: Array) -> None:
        """Add the gradients of image `i`; `d` is overwritten."""
        np.greater(self.out[i], 0, out=self.on)
        d *= self.on
        rows = d.reshape(len(self.ones), -1)
        self.shifted[...] = self.shifts[i]
        np.dot(self.shifted.reshape(9, -1), rows, out=self.part)
        kernel, bias = self.into
        kernel += self.part
        bias += np.dot(self.ones, rows)  # quicker than a sum over the first axis


class Second:
    """Convolution of many channels: the windows of an image laid out in rows, and a product."""

    def __init__(self, kernel: Array, images: Array, into: Array) -> None:
        *_, channels, filters = kernel.shape
        self.kernel, self.into = kernel, into.reshape(-1, filters)
        dtype, n = kernel.dtype, images.shape[1] - 2
        self.views = sliding_window_view(images, (3, 3), (1, 2)).transpose(0, 1, 2, 4, 5, 3)
        self.windows = np.empty((n, n, 3, 3, channels), dtype)
        self.rows = self.windows.reshape(n * n, -1)
        self.part = np.empty_like(self.into)
        # For the gradient by the input: cotangents with two columns of zeros at each side, three
        # columns of them next to each other, and their products with the kernel's three rows.
        self.wide = np.zeros((n, n + 4, filters), dtype)
        self.view = sliding_window_view(self.wide, 3, 1).transpose(0, 1, 3, 2)
        self.columns = np.empty((n, n + 2, 3, filters), dtype)
        self.products = np.empty((n, n + 2, 3, channels), dtype)
        self.d = np.empty((n + 2, n + 2, channels), dtype)

    def forward(self, i: int, out: Array) -> None:
        """Write the result for image `i` into `out`."""
        self.windows[...] = self.views[i]
        filters = out.shape[-1]
        np.dot(self.rows, self.kernel.reshape(-1, filters), out=out.reshape(-1, filters))

    def turned(self) -> Array:
        """The kernel as `backward` multiplies with it."""
        *_, channels, filters = self.kernel.shape
        return self.kernel[:, ::-1].transpose(1, 3, 0, 2).reshape(3 * filters, 3 * channels)

    def backward(self, i: int, d: Array, turned: Array) -> Array:
        """Add the gradient by the kernel; return that by image `i`, in a buffer."""
        filters = d.shape[-1]
        self.windows[...] = self.views[i]
        np.dot(self.rows.T, d.reshape(-1, filters), out=self.part)
        self.into += self.part
        n = len(d)
        self.wide[:, 2:-2] = d
        self.columns[...] = self.view
        rows = self.columns.reshape(-1, 3 * filters)
        np.dot(rows, turned, out=self.products.reshape(len(rows), -1))
        self.d[:n] = self.products[:, :, 0]
        self.d[n:] = 0
        for k in (1, 2):
            self.d[k : k + n] += self.products[:, :, k]
        return self.d


class Convolutions:
    """Convolution, bias, relu; convolution, maximum, bias, relu.

    The maximum comes before bias and relu, which do not change where it is: a quarter of the work.
    """

    def __init__(self, weights: list[Array], images: Array, into: list[Array]) -> None:
        k1, b1, k2, b2 = weights
        self.first = First(k1, b1, images, into[:2])
        self.second = Second(k2, self.first.out, into[2])
        self.bias, self.into = b2, into
        batch, half, filters = len(images), (images.shape[1] - 4) // 2, len(b2)
        self.tiles = np.empty((batch, half, 2, half, 2, filters), b2.dtype)
        self.out = np.empty((batch, half, half, filters), b2.dtype)
        self.top = np.empty_like(self.out)
        self.rows = np.empty((half, half, 2, filters), b2.dtype)
        self.d = np.empty((2 * half, 2 * half, filters), b2.dtype)
        self.won = np.empty((half, 2, half, 2, filters), bool)
        self.on = np.empty(self.out.shape, bool)

    def forward(self) -> Array:
        """The result for all images."""
        for i, tiles in enumerate(self.tiles):
            self.first.forward(i)
            self.second.forward(i, tiles.reshape(self.d.shape))
            np.maximum(tiles[:, 0], tiles[:, 1], out=self.rows)
            np.maximum(self.rows[:, :, 0], self.rows[:, :, 1], out=self.top[i])
        np.add(self.top, self.bias, out=self.out)
        return np.maximum(self.out, 0, out=self.out)

    def backward(self, d: Array) -> None:
        """Write all four gradients; `d` is overwritten."""
        np.greater(self.out, 0, out=self.on)
        d *= self.on
        np.sum(d.reshape(-1, d.shape[-1]), axis=0, out=self.into[3])
        for gradient in self.into[:3]:
            gradient[...] = 0
        turned = self.second.turned()
        for i, tiles in enumerate(self.tiles):
            np.equal(tiles, self.top[i][:, None, :, None], out=self.won)
            np.multiply(d[i][:, None, :, None], self.won, out=self.d.reshape(tiles.shape))
            self.first.backward(i, self.second.backward(i, self.d, turned))
