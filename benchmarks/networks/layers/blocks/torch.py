"""Blocks of PyTorch by hand, with the library's fused functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from benchmarks.networks.layers.weights import Weights


class Blocks(Weights):
    """Formulas, normalizations, recurrences. Images have their channels first."""

    silu, softplus, glu, sin, cos, cumsum = map(
        staticmethod, (F.silu, F.softplus, F.glu, torch.sin, torch.cos, torch.cumsum)
    )

    def constant(self, name: str, make: Callable[[], np.ndarray]) -> Any:
        """An array that is made once."""
        return self.known(name, lambda: torch.from_numpy(make()).to(torch.get_default_device()))

    @staticmethod
    def softmax(x: Any) -> Any:
        """Over the last axis."""
        return torch.softmax(x, -1)

    @staticmethod
    def transpose(x: Any, *axes: int) -> Any:
        """The axes in another order."""
        return x.permute(*axes)

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
        return torch.logsumexp(x, -1)

    @staticmethod
    def positive(x: Any) -> Any:
        """One where `x` is positive, else zero."""
        return (x > 0).float()

    @staticmethod
    def descending(x: Any) -> Any:
        """Sorted along the last axis, the largest first."""
        return torch.sort(x, descending=True)[0]

    @staticmethod
    def roll(x: Any, steps: int, axis: int) -> Any:
        """Moved along an axis, and around its end."""
        return torch.roll(x, steps, axis)

    def rms_norm(self, x: Any) -> Any:
        """Over the last axis."""
        size = x.shape[-1]
        return F.rms_norm(x, (size,), self.vector(size, 1.0), 1e-5)

    @staticmethod
    def unit(x: Any) -> Any:
        """Rows of length 1."""
        return F.normalize(x, dim=-1)

    @staticmethod
    def weighed(q: Any, k: Any, v: Any, bias: Any) -> Any:
        """Attention whose scores are not scaled, but have a bias."""
        return torch.softmax(q @ k.transpose(-1, -2) + bias, -1) @ v

    # --- images and series ----------------------------------------------------------------------

    def group_norm(self, x: Any, groups: int) -> Any:
        """Over the places and channels of each group."""
        size = x.shape[1]
        return F.group_norm(x, groups, self.vector(size, 1.0), self.vector(size), 1e-5)

    @staticmethod
    def scaled(x: Any, rows: Any) -> Any:
        """The channels of images times rows of numbers."""
        return x * rows[:, :, None, None]

    @staticmethod
    def shifted(x: Any, rows: Any) -> Any:
        """The channels of images plus rows of numbers."""
        return x + rows[:, :, None, None]

    @staticmethod
    def doubled(x: Any) -> Any:
        """Each pixel four times."""
        return F.interpolate(x, scale_factor=2)

    def depthwise_row(self, x: Any, size: int, *, causal: bool = False) -> Any:
        """A kernel for each channel of series."""
        channels = x.shape[1]
        kernel = self.weight((size, channels), "rows")
        before = size - 1 if causal else size // 2
        return F.conv1d(F.pad(x, (before, size - 1 - before)), kernel, groups=channels)

    # --- recurrences ----------------------------------------------------------------------------

    @staticmethod
    def selective(u: Any, delta: Any, a: Any, b: Any, c: Any) -> Any:
        """h = exp(delta · a) · h + delta · u · b, and y = h · c: all but the recurrence itself is
        done at once for all steps.
        """
        kept = torch.exp(delta.transpose(0, 1)[..., None] * a).unbind()
        fed = ((delta * u).transpose(0, 1)[..., None] * b.transpose(0, 1)[:, :, None]).unbind()
        h, states = torch.zeros_like(fed[0]), []
        for keep, feed in zip(kept, fed, strict=True):
            h = torch.addcmul(feed, keep, h)
            states.append(h)
        return (torch.stack(states, 1) @ c[..., None])[..., 0]

    @staticmethod
    def chain(scores: Any, moves: Any) -> Any:
        """The logarithm of the sum over all ways through a chain."""
        first, *others = scores.unbind(1)
        for row in others:
            first = torch.logsumexp(first[:, :, None] + moves, 1) + row
        return torch.logsumexp(first, -1)

    @staticmethod
    def repeated(step: Callable[[Any], Any], x: Any, count: int) -> Any:
        """A function of a function of … `x`."""
        for _ in range(count):
            x = step(x)
        return x
