"""Layers of PyTorch by hand: images channels first in the memory format `channels_last`, and the
library's own fused functions wherever there are any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from benchmarks.networks.layers.blocks.torch import Blocks

LARGE = 1 << 16
"""Rows from which on the gradient of a table is the rows that were looked up."""
ORDER = {"kernel", "depthwise", "transposed"}
"""The roles of convolutions' kernels."""


class Layers(Blocks):
    """Images are (samples, channels, *spatial)."""

    def make(self, value: np.ndarray, role: str) -> Any:
        """A leaf; matrices and kernels with the outputs first, as PyTorch keeps them."""
        w = torch.from_numpy(value).to(torch.get_default_device())
        if role == "matrix":
            w = w.t().contiguous()
        elif role == "rows":
            w = w.t().unsqueeze(1).contiguous()
        elif role in ORDER and value.ndim == 4:
            order = (2, 3, 0, 1) if role == "depthwise" else (3, 2, 0, 1)
            w = w.permute(*order).contiguous(memory_format=torch.channels_last)
        elif role in ORDER:
            w = w.permute(2, 1, 0).contiguous()
        return w.clone().requires_grad_(role != "state")

    relu, relu6, tanh, sigmoid = map(staticmethod, (F.relu, F.relu6, torch.tanh, torch.sigmoid))
    exp, square, sqrt, mean = map(staticmethod, (torch.exp, torch.square, torch.sqrt, torch.mean))

    @staticmethod
    def stop(x: Any) -> Any:
        """No gradient flows to `x`."""
        return x.detach()

    # --- images ---------------------------------------------------------------------------------

    @staticmethod
    def image(x: Any) -> Any:
        """A view with the channels first."""
        return x.movedim(x.ndim - 1, 1)

    @staticmethod
    def channels_last(x: Any) -> Any:
        """A view with the channels last."""
        return x.movedim(1, x.ndim - 1)

    @staticmethod
    def leaky_relu(x: Any) -> Any:
        """Slope 0.2 below zero."""
        return F.leaky_relu(x, 0.2)

    def conv(
        self, x: Any, filters: int, size: int, strides: int = 1, *, dilation: int = 1,
        bias: bool = True,
    ) -> Any:  # fmt: skip
        """In two dimensions padded alike at both ends, in one dimension causal."""
        rank = x.ndim - 2
        kernel = self.weight((*[size] * rank, x.shape[1], filters))
        b = self.vector(filters) if bias else None
        if rank == 1:
            x = F.pad(x, ((size - 1) * dilation, 0))
            return F.conv1d(x, kernel, b, dilation=dilation)
        return F.conv2d(x, kernel, b, strides, size // 2)

    def depthwise(self, x: Any, size: int, strides: int = 1) -> Any:
        """A kernel for each channel."""
        channels = x.shape[1]
        kernel = self.weight((size, size, channels, 1), "depthwise")
        return F.conv2d(x, kernel, None, strides, size // 2, groups=channels)

    def conv_transpose(self, x: Any, filters: int, size: int, strides: int) -> Any:
        """An image `strides` times as large."""
        kernel = self.weight((size, size, filters, x.shape[1]), "transposed")
        padding = (size - strides) // 2
        return F.conv_transpose2d(x, kernel, self.vector(filters), strides, padding)

    def batch_norm(self, x: Any, scale: float = 1.0) -> Any:
        """With the statistics of the batch, or with their moving averages."""
        size = x.shape[1]
        gamma, beta = self.vector(size, scale), self.vector(size)
        (_, mean), (_, var) = self.state(size, 0.0), self.state(size, 1.0)
        return F.batch_norm(x, mean, var, gamma, beta, self.training, 0.01, 1e-3)

    @staticmethod
    def max_pool(x: Any, size: int, strides: int) -> Any:
        """Of numbers that are not negative."""
        return F.max_pool2d(x, size, strides, size // 2 if size > strides else 0)

    @staticmethod
    def avg_pool(x: Any, size: int) -> Any:
        """Means of squares."""
        return F.avg_pool2d(x, size)

    @staticmethod
    def global_pool(x: Any) -> Any:
        """The mean of each channel."""
        return x.mean((2, 3))

    @staticmethod
    def join(images: Sequence[Any]) -> Any:
        """The channels of images one after the other."""
        return torch.cat(list(images), 1)

    @staticmethod
    def flatten(x: Any) -> Any:
        """Images as rows."""
        return x.permute(0, 2, 3, 1).flatten(1)

    @staticmethod
    def as_image(x: Any, height: int, width: int, channels: int) -> Any:
        """Rows as images."""
        return x.reshape(-1, height, width, channels).permute(0, 3, 1, 2)

    @staticmethod
    def columns(x: Any) -> Any:
        """Images as sequences of their columns."""
        return x.permute(0, 3, 2, 1).flatten(2)

    @staticmethod
    def watched(x: Any) -> Any:
        """An operand that derivatives are taken by."""
        return x.detach().requires_grad_()

    # --- rows and sequences ---------------------------------------------------------------------

    @staticmethod
    def concat(parts: Sequence[Any], axis: int = -1) -> Any:
        """Rows one after the other."""
        return torch.cat(list(parts), axis)

    @staticmethod
    def reshape(x: Any, *sizes: int) -> Any:
        """All axes but the first in another shape."""
        return x.reshape(-1, *sizes)

    def dense(self, x: Any, units: int, *, bias: bool = True) -> Any:
        """A product with a matrix over the last axis."""
        w = self.weight((x.shape[-1], units), "matrix")
        return F.linear(x, w, self.vector(units) if bias else None)

    @staticmethod
    def tied(x: Any, table: Any) -> Any:
        """A product with the transposed table of an embedding."""
        return F.linear(x, table)

    def table(self, rows: int, width: int) -> Any:
        """The rows of an embedding."""
        return self.weight((rows, width), "table", 0.02)

    @staticmethod
    def lookup(table: Any, ids: Any) -> Any:
        """Rows of an embedding."""
        return F.embedding(ids, table, sparse=len(table) >= LARGE)

    # --- graphs ---------------------------------------------------------------------------------

    @staticmethod
    def propagate(graph: Any, x: Any) -> Any:
        """The product of a sparse matrix and the rows of nodes: weighted sums of rows, by the
        kernel of `embedding_bag`, which takes half of the time of a CSR matrix's product.
        """
        return _Propagation.apply(x, *graph)

    @staticmethod
    def at(x: Any, ids: Any) -> Any:
        """The rows of the nodes at one end of all edges. The gradient is slow for int32."""
        return x.index_select(0, ids.long())

    @staticmethod
    def segment_sum(x: Any, ids: Any, count: int) -> Any:
        """The sums of the rows with equal ids."""
        return x.new_zeros(count, x.shape[1]).index_add(0, ids.long(), x)

    @staticmethod
    def segment_max(x: Any, ids: Any, count: int) -> Any:
        """The maxima of the rows with equal ids."""
        places = ids.long()[:, None].expand_as(x)
        return x.new_full((count, x.shape[1]), -torch.inf).scatter_reduce(0, places, x, "amax")

    def layer_norm(self, x: Any) -> Any:
        """Over the last axis."""
        size = x.shape[-1]
        return F.layer_norm(x, (size,), self.vector(size, 1.0), self.vector(size), 1e-5)

    @staticmethod
    def gelu(x: Any, *, exact: bool = False) -> Any:
        """With the error function, or with the tangent that approximates it."""
        return F.gelu(x, approximate="none" if exact else "tanh")

    @staticmethod
    def attention(
        q: Any, k: Any, v: Any, heads: int, *, causal: bool = False, mask: Any = None
    ) -> Any:
        """PyTorch's own kernel for it."""
        n, steps, width = q.shape
        q, k, v = (x.view(n, -1, heads, width // heads).transpose(1, 2) for x in (q, k, v))
        seen = None if mask is None else mask[:, None, None].bool()
        y = F.scaled_dot_product_attention(q, k, v, seen, is_causal=causal)
        return y.transpose(1, 2).reshape(n, steps, width)

    @staticmethod
    def dot_attention(q: Any, keys: Any) -> Any:
        """Luong's: the mean of the keys, weighed by their products with the queries."""
        return torch.softmax(q @ keys.transpose(1, 2), -1) @ keys

    # --- recurrences ----------------------------------------------------------------------------

    def lstm(
        self, x: Any, units: int, *, mask: Any = None, noise: Any = None, reverse: bool = False,
        start: Any = None,
    ) -> tuple[Any, list[Any]]:  # fmt: skip
        """All outputs, in the order of time, and the last states. The product with the inputs is
        done once for all steps; `nn.LSTM` knows neither masks nor dropped states.
        """
        cell = kernel, recurrent, bias = self._cell(x, units, 4)
        if mask is None and noise is None and not reverse:
            return _library_lstm(x, cell, start)
        rows = F.linear(x.transpose(0, 1), kernel, bias)

        def step(row: Any, states: list[Any]) -> list[Any]:
            h, c = states
            z = torch.addmm(row, h if noise is None else h * noise, recurrent.t())
            i, f, g, o = z.chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            return [torch.sigmoid(o) * torch.tanh(c), c]

        zeros = x.new_zeros(len(x), units)
        return _run(step, rows, start or [zeros, zeros], mask, reverse)

    def gru(
        self, x: Any, units: int, *, mask: Any = None, noise: Any = None, reverse: bool = False
    ) -> tuple[Any, list[Any]]:
        """All outputs, in the order of time, and the last state."""
        kernel, recurrent, bias = self._cell(x, units, 3)
        rows = F.linear(x.transpose(0, 1), kernel, bias)

        def step(row: Any, states: list[Any]) -> list[Any]:
            (h,) = states
            b = (h if noise is None else h * noise) @ recurrent.t()
            gates = torch.sigmoid(row[:, : 2 * units] + b[:, : 2 * units])
            z, r = gates.chunk(2, 1)
            new = torch.tanh(torch.addcmul(row[:, 2 * units :], r, b[:, 2 * units :]))
            return [torch.lerp(new, h, z)]

        return _run(step, rows, [x.new_zeros(len(x), units)], mask, reverse)

    def _cell(self, x: Any, units: int, gates: int) -> tuple[Any, Any, Any]:
        return (
            self.weight((x.shape[-1], gates * units), "matrix"),
            self.weight((units, gates * units), "matrix", units**-0.5),
            self.vector(gates * units),
        )

    def conv_lstm(self, x: Any, filters: int, size: int) -> Any:
        """The last output over a sequence of images, (samples, steps, height, width, channels)."""
        n, steps, height, width, channels = x.shape
        kernel = self.weight((size, size, channels, 4 * filters))
        recurrent = self.weight((size, size, filters, 4 * filters), "kernel", 0.1)
        images = x.transpose(0, 1).reshape(steps * n, height, width, channels).permute(0, 3, 1, 2)
        rows = F.conv2d(images, kernel, self.vector(4 * filters), padding=size // 2)
        h = c = images.new_zeros((n, height, width, filters)).permute(0, 3, 1, 2)
        for row in rows.unflatten(0, (steps, n)):
            z = row + F.conv2d(h, recurrent, None, padding=size // 2)
            i, f, g, o = z.chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        return h

    # --- losses ---------------------------------------------------------------------------------

    @staticmethod
    def cross_entropy(scores: Any, labels: Any) -> Any:
        """The mean over all places."""
        return F.cross_entropy(scores.flatten(0, -2), labels.flatten().long())

    @staticmethod
    def cross_entropy_where(scores: Any, labels: Any, weights: Any) -> Any:
        """The mean over the places whose weight is one."""
        each = F.cross_entropy(scores.flatten(0, -2), labels.flatten().long(), reduction="none")
        return (each * weights.flatten()).sum() / weights.sum()

    @staticmethod
    def binary(scores: Any, target: Any) -> Any:
        """The mean of the binary cross-entropy; `target` is a number or a tensor."""
        if isinstance(target, float):
            target = torch.full_like(scores, target)
        return F.binary_cross_entropy_with_logits(scores, target)

    @staticmethod
    def ctc(scores: Any, labels: Any, lengths: Any, label_lengths: Any) -> Any:
        """The mean over the samples."""
        logs = torch.log_softmax(scores, -1).transpose(0, 1)
        lengths, label_lengths = lengths[:, 0].long(), label_lengths[:, 0].long()
        blank = scores.shape[-1] - 1
        return F.ctc_loss(logs, labels.long(), lengths, label_lengths, blank, "none").mean()

    @staticmethod
    def gradient(function: Callable[[Any], Any], x: Any) -> Any:
        """The gradient of the sum of `function(x)`."""
        x = x if x.requires_grad else x.requires_grad_()
        return torch.autograd.grad(function(x).sum(), x, create_graph=True)[0]

    @staticmethod
    def row_sum(x: Any) -> Any:
        """The sum over all axes but the first."""
        return x.flatten(1).sum(1)


def _run(
    step: Any, rows: Any, states: list[Any], mask: Any, reverse: bool
) -> tuple[Any, list[Any]]:
    """`rows` is time first. Where the mask is False, states and output stay."""
    order = range(len(rows))[::-1] if reverse else range(len(rows))
    columns = None if mask is None else mask.t().unsqueeze(-1).unbind()
    split = rows.unbind()
    outputs = []
    for t in order:
        new = step(split[t], states)
        if columns is not None:
            new = [torch.where(columns[t], a, b) for a, b in zip(new, states, strict=True)]
        states = new
        outputs.append(states[0])
    return torch.stack(outputs[::-1] if reverse else outputs, 1), states


def _library_lstm(x: Any, cell: Any, start: Any) -> tuple[Any, list[Any]]:
    """The kernel behind `nn.LSTM`, whose gates have the same order."""
    kernel, recurrent, bias = cell
    zeros = x.new_zeros(1, len(x), recurrent.shape[1])
    states = [zeros, zeros] if start is None else [s.unsqueeze(0) for s in start]
    weights = [kernel, recurrent, bias, torch.zeros_like(bias)]
    y, h, c = torch.lstm(x, states, weights, True, 1, 0.0, True, False, True)
    return y, [h[0], c[0]]


class _Propagation(torch.autograd.Function):
    """The product of a matrix in compressed rows. Its gradient is that of the transposed matrix."""

    @staticmethod
    def forward(ctx: Any, x: Any, rows: Any, columns: Any) -> Any:
        ctx.columns = columns
        return _weighted(x, rows)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return _weighted(g.contiguous(), ctx.columns), None, None


def _weighted(x: Any, rows: Any) -> Any:
    offsets, places, weights = rows
    return F.embedding_bag(
        places, x, offsets, mode="sum", per_sample_weights=weights, include_last_offset=True
    )


def both_ways(graph: Any) -> Any:
    """The compressed rows of a matrix of SciPy, and those of the transposed one."""
    forms = graph.tocsr(), graph.T.tocsr()
    return [tuple(map(torch.from_numpy, (m.indptr, m.indices, m.data))) for m in forms]
