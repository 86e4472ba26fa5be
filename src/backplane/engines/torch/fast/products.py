"""Convolution by im2col: a product of the windows, as rows, and the kernel as it lies.

PyTorch's convolutions want the output channels first in the memory of a kernel. Any other kernel
they copy at each call, and oneDNN lays it out once more. Where a kernel is large and slides over
few places, that is most of the work. With kernels in K's order, processor time of programs on one
core, float32, batch 8, that compute the convolution, or it and its gradient by x, or it and the
one by the kernel: 3 × 3 over 2 × 2 and 512 channels, with PyTorch's kernels 26, 54 and 63 ms, with
products 2.1, 5.1 and 6.0; 3 × 3 over 4 × 4 and 256 channels, 4.7, 9.0 and 16.1 against 1.4, 3.2
and 3.8. Over 8 × 8 and 128 channels the forward convolution takes the same either way.

The product is oneDNN's where that is faster than MKL's (`linear.by_onednn`), which takes 0.45 of
the time on an AMD EPYC.

Initial values of variables have the output channels first (`convolution._order`). Then a
convolution with both gradients takes 35 ms at 2 × 2 and 512 channels with batch 2, as products
6.4; at 4 × 4 and 256 channels 10.0 and 8.8, at 8 × 8 and 256 channels 29.8 either way.
"""

from __future__ import annotations

import math
from functools import cached_property

import torch

from backplane.core.windows import WindowGrid
from backplane.engines.table import Ints, Lowering, Value
from backplane.engines.torch.shaping import pad_amounts


class Products(WindowGrid):
    """Windows over spatial axes of known sizes, channels last."""

    def serves(self, x: Value, outputs: int, groups: int, few: float) -> bool:
        """Whether the product is the faster form: on the CPU, where windows have one element, which
        takes half to three quarters of the time, or where there are fewer than `few` windows for
        each output channel. `x` is an operand of the convolution or of its gradients.
        """
        if groups > 1 or not x.is_cpu:
            return False
        # While PyTorch traces for any batch, the batch is no number, and asking would fix it.
        batch = x.shape[0]
        return self.elements == 1 or (type(batch) is int and batch * self.places < few * outputs)

    @cached_property
    def places(self) -> int:
        """The number of windows over one image."""
        return math.prod(self.counts)

    @cached_property
    def plain(self) -> bool:
        """Whether the windows are the elements of x themselves, in their order."""
        return self.elements == 1 and self.counts == self.sizes == self.padded

    def conv(self, product: Lowering, x: Value, kernel: Value, *bias: Value) -> Value:
        """Cross-correlation, plus a bias if there is one."""
        rows = self._rows(x)
        y = product(rows, kernel.reshape(rows.shape[-1], kernel.shape[-1]), *bias)
        return y.reshape(x.shape[0], *self.counts, kernel.shape[-1])

    def kernel_grad(self, product: Lowering, x: Value, g: Value, shape: Ints) -> Value:
        """The gradient by the kernel, with the output channels first in memory."""
        matrix = product(g.reshape(-1, g.shape[-1]).t(), self._rows(x))
        return matrix.reshape(shape[-1], *shape[:-1]).permute(*range(1, len(shape)), 0)

    def input_grad(self, product: Lowering, g: Value, kernel: Value) -> Value:
        """The gradient by x."""
        batch = g.shape[0]
        inputs, outputs = kernel.shape[-2:]
        rows = product(g.reshape(-1, outputs), kernel.reshape(-1, outputs).t())
        if self.plain:
            return rows.reshape(batch, *self.sizes, inputs)
        parts = rows.reshape(batch, *self.counts, self.elements, inputs)
        # Zeros like the product: under `vmap`, what is added must not have more axes.
        x = parts.new_zeros((batch, *self.padded, inputs))
        for i, place in enumerate(self.indices):
            x[place].add_(parts[..., i, :])
        return x[self.inside] if self.is_padded else x

    def _rows(self, x: Value) -> Value:
        inputs = x.shape[-1]
        if self.plain:
            return x.reshape(-1, inputs)
        if self.is_padded:
            x = torch.constant_pad_nd(x, pad_amounts(self.around))
        parts = [x[place] for place in self.indices]
        whole = torch.cat(parts, -1) if len(parts) > 1 else parts[0]
        return whole.reshape(-1, self.elements * inputs)
