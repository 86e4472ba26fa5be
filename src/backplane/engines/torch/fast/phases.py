"""Transposed convolution as a convolution without strides, where these divide the kernel's sizes.

Elements of the result that are a stride apart are one *phase*. All elements of a phase are sums
over the same elements of the kernel. So a convolution with a part of the kernel for each phase
gives the phases as channels, which are then laid side by side. PyTorch's own kernel works on blocks
of 16 channels of the result, most of which are empty where an image has three: it takes 0.9 ms for
16 images of 32 × 32 × 3 out of 32 channels on one core, and this takes 0.25.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from backplane.core.windows import Window, WindowGrid
from backplane.engines.kernels import limit
from backplane.engines.table import Ints, Value


class Phases(NamedTuple):
    """Windows of two axes whose sizes are multiples of their strides."""

    parts: Ints
    """The number of elements of a window that belong to one phase, for each axis."""
    strides: Ints

    @classmethod
    def of(
        cls, slid: Sequence[Window], channels: int | None, groups: int, dtype: str
    ) -> Phases | None:
        """The form for windows over images of so many channels; None if PyTorch's kernel serves."""
        divisible = all(w.size % w.stride == 0 and w.dilation == 1 for w in slid)
        plain = len(slid) != 2 or groups > 1 or all(w.stride == 1 for w in slid)
        if plain or not divisible or channels is None or channels >= limit("torch.phases", dtype):
            return None
        parts = tuple([w.size // w.stride for w in slid])
        return cls(parts, tuple([w.stride for w in slid]))

    def input_grad(self, g: Value, kernel: Value, grid: WindowGrid) -> Value:
        """The transposed convolution of `g`, channels last."""
        (m, n), (down, right) = self.parts, self.strides
        inputs, outputs = kernel.shape[-2:]
        weights = kernel.reshape(m, down, n, right, inputs, outputs).flip(0, 2)
        weights = weights.permute(1, 3, 4, 5, 0, 2).reshape(-1, outputs, m, n)
        y = torch.conv2d(g.permute(0, 3, 1, 2), weights, padding=(m - 1, n - 1))
        height, width = y.shape[2:]
        split = y.permute(0, 2, 3, 1).reshape(-1, height, width, down, right, inputs)
        whole = split.transpose(2, 3).reshape(-1, height * down, width * right, inputs)
        return _inside(whole, grid)


def _inside(whole: Value, grid: WindowGrid) -> Value:
    """`whole` without padding, and with zeros where no window reached."""
    ends = [before + n for (before, _), n in zip(grid.pairs, grid.sizes, strict=True)]
    lacking = [max(end - n, 0) for end, n in zip(ends, whole.shape[1:-1], strict=True)]
    if any(lacking):
        whole = torch.constant_pad_nd(whole, (0, 0, 0, lacking[1], 0, lacking[0]))
    (top, _), (left, _) = grid.pairs
    return whole[:, top : ends[0], left : ends[1]]
