"""What convolution and pooling share: layout, padding, sizes.

The canonical layout is channels last. PyTorch's kernels take channels first, but as a matter of
shape only: the permuted view of a channels-last tensor is what PyTorch calls the memory format
`channels_last`, which its kernels take as it is and prefer. One spatial axis becomes the second of
two, because PyTorch has that memory format for two and three.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from backplane.core.spec import Spec
from backplane.engines.base import Padding, Value, resolve_padding
from backplane.engines.torch.shaping import pad_amounts

Sizes = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]
T = TypeVar("T")


def channels_first(x: Value) -> Value:
    """(batch, *spatial, channels) seen as (batch, channels, *spatial)."""
    rank = x.ndim
    return x.permute(0, rank - 1, *range(1, rank - 1))


def channels_last(x: Value) -> Value:
    """(batch, channels, *spatial) seen as (batch, *spatial, channels)."""
    return x.permute(0, *range(2, x.ndim), 1)


def pad(x: Value, pairs: Pairs, value: Any = 0) -> Value:
    """`x`, channels last, with its spatial axes padded."""
    return torch.constant_pad_nd(x, pad_amounts([(0, 0), *pairs, (0, 0)]), value)


def crop(x: Value, pairs: Pairs, sizes: Sequence[int]) -> Value:
    """Undo `pad`: a view."""
    inside = [slice(before, before + n) for n, (before, _) in zip(sizes, pairs, strict=True)]
    return x[(slice(None), *inside)]


def padded_sizes(sizes: Sequence[int], pairs: Pairs) -> list[int]:
    """Spatial sizes with padding."""
    return [n + before + after for n, (before, after) in zip(sizes, pairs, strict=True)]


def spatial(spec: Spec | Value, kernel: bool = False) -> tuple[Any, ...]:
    """The sizes of the spatial axes of a tensor or a kernel, two at least."""
    sizes = tuple(spec.shape[:-2] if kernel else spec.shape[1:-1])
    return sizes if len(sizes) > 1 else (1, *sizes)


def prepared(plan: Callable[..., T], *sizes: tuple[int | None, ...]) -> Callable[..., T]:
    """`plan`, a function of `sizes`; called now if all of them are known."""
    if any(None in known for known in sizes):
        return plan
    found = plan(*sizes)
    return lambda *sizes: found


@dataclass(frozen=True, slots=True)
class Windows:
    """How windows slide over two or three spatial axes."""

    strides: Sizes
    dilation: Sizes
    padding: Padding

    @classmethod
    def of(cls, strides: Sizes, dilation: Sizes, padding: Padding) -> Windows:
        """For one to three spatial axes."""
        if len(strides) > 1:
            return cls(strides, dilation, padding)
        pairs = padding if isinstance(padding, str) else ((0, 0), *padding)
        return cls((1, *strides), (1, *dilation), pairs)

    def pairs(self, sizes: Sequence[int], window: Sequence[int]) -> Pairs:
        """(before, after) per axis."""
        return resolve_padding(self.padding, sizes, window, self.strides, self.dilation)

    def counts(self, sizes: Sequence[int], window: Sequence[int], pairs: Pairs) -> list[int]:
        """The number of windows per axis."""
        spans = [(k - 1) * d + 1 for k, d in zip(window, self.dilation, strict=True)]
        whole = padded_sizes(sizes, pairs)
        places = zip(whole, spans, self.strides, strict=True)
        return [max((n - span) // s + 1, 0) for n, span, s in places]
