"""Two 3 × 3 convolutions with relu and a 2 × 2 maximum in PyTensor, with gradients by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt


class Convolutions:
    """Convolution, bias, relu; convolution, maximum, bias, relu of a few images, as a graph.

    The maximum comes before bias and relu, which do not change where it is.
    """

    def __init__(
        self, weights: list[Any], x: Any, sizes: tuple[int, int], arrays: Sequence[np.ndarray]
    ) -> None:
        self.kernels = weights[0], weights[2]
        self.images, side = sizes
        self.first, self.second = arrays[1].size, arrays[3].size
        self.side, self.half = side - 2, (side - 4) // 2
        n, one = self.side, [x[:, i : i + side - 2] for i in range(3)]
        rows = pt.concatenate([row[:, :, j : j + n] for row in one for j in range(3)], axis=3)
        self.rows = rows.reshape((-1, 9))
        self.h = pt.maximum(pt.dot(self.rows, weights[0].reshape((9, -1))) + weights[1], 0)
        self.windows, h = self._windows()
        # The larger one of two rows, then of two columns.
        tiles = h.reshape((self.images * self.half, 2, 2 * self.half * self.second))
        self.tiles = tiles[:, 0], tiles[:, 1]
        pairs = pt.maximum(*self.tiles).reshape((-1, 2, self.second))
        self.pairs = pairs[:, 0], pairs[:, 1]
        out = pt.maximum(pt.maximum(*self.pairs) + weights[3], 0)
        self.out = out.reshape((self.images, self.half**2 * self.second))

    def _windows(self) -> tuple[list[Any], Any]:
        """For each row of the second convolution's windows a matrix; their products, added up."""
        n = self.side - 2
        h = self.h.reshape((self.images, self.side, self.side, self.first))
        columns = pt.concatenate([h[:, :, j : j + n] for j in range(3)], axis=3)
        rows = [columns[:, i : i + n].reshape((-1, 3 * self.first)) for i in range(3)]
        matrices = self.kernels[1].reshape((3, 3 * self.first, self.second))
        a, b, c = (pt.dot(row, matrices[i]) for i, row in enumerate(rows))
        return rows, a + b + c

    def gradients(self, d: Any) -> list[Any]:
        """The gradients of both kernels and biases; `d` is zero where the result is."""
        d = d.reshape((-1, self.second))
        to_bias = d.sum(axis=0)
        for (a, b), width in ((self.pairs, self.second), (self.tiles, 2 * self.half * self.second)):
            d = d.reshape((-1, width))
            won = d * pt.ge(a, b)
            d = pt.concatenate([won, d - won], axis=1)
        d = d.reshape((-1, self.second))
        to_kernel = pt.concatenate([pt.dot(rows.T, d) for rows in self.windows])
        d_first = self._input_gradient(d).reshape((-1, self.first)) * pt.gt(self.h, 0)
        return [
            pt.dot(self.rows.T, d_first).reshape((3, 3, 1, self.first)),
            d_first.sum(axis=0),
            to_kernel.reshape((3, 3, self.first, self.second)),
            to_bias,
        ]

    def _input_gradient(self, d: Any) -> Any:
        """Three columns of cotangents next to each other, times the kernel's three rows."""
        n, m = self.side, self.side - 2
        aside = pt.zeros((self.images, m, 2, self.second), dtype="float32")
        wide = pt.concatenate([aside, d.reshape((self.images, m, m, self.second)), aside], axis=2)
        columns = pt.concatenate([wide[:, :, j : j + n] for j in range(3)], axis=3)
        turned = self.kernels[1][:, ::-1].transpose((1, 3, 0, 2))
        turned = turned.reshape((3 * self.second, 3 * self.first))
        products = pt.dot(columns.reshape((-1, 3 * self.second)), turned)
        products = products.reshape((self.images, m, n, 3 * self.first))
        rows = [products[:, :, :, i * self.first : (i + 1) * self.first] for i in range(3)]
        above = pt.zeros((self.images, 1, n, self.first), dtype="float32")
        a, b, c = (
            pt.concatenate([above] * i + [row] + [above] * (2 - i), axis=1)
            for i, row in enumerate(rows)
        )
        return a + b + c
