"""What convolution, pooling, padding and resizing are: plain loops over places and windows.

The functions take what the K functions of the same meaning take. None of them is fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

Steps = int | Sequence[int]


def steps(value: Steps, count: int) -> tuple[int, ...]:
    """One step per axis."""
    return (value,) * count if isinstance(value, int) else tuple(value)


def last(x: np.ndarray, data_format: str | None) -> np.ndarray:
    """`x` with its channels last."""
    return np.moveaxis(x, 1, -1) if data_format == "channels_first" else x


def back(y: np.ndarray, data_format: str | None) -> np.ndarray:
    """`last` undone."""
    return np.moveaxis(y, -1, 1) if data_format == "channels_first" else y


class Windows:
    """Where windows lie along the spatial axes of a tensor of given sizes."""

    def __init__(
        self, sizes: Sequence[int], window: Sequence[int], strides: Steps, padding: str, rate: Steps
    ) -> None:
        self.sizes, self.window = tuple(sizes), tuple(window)
        self.strides, self.rate = steps(strides, len(sizes)), steps(rate, len(sizes))
        self.before, self.counts = [], []
        for n, k, s, d in zip(self.sizes, self.window, self.strides, self.rate, strict=True):
            span = (k - 1) * d + 1
            if padding == "same":
                count = (n + s - 1) // s
                before = max((count - 1) * s + span - n, 0) // 2
            else:
                before = span - 1 if padding == "causal" else 0
                count = (n + before - span) // s + 1
            self.before.append(before)
            self.counts.append(count)

    def pairs(self) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
        """(place of the window, place in it, place in the tensor), where the latter exists."""
        for place in np.ndindex(*self.counts):
            for offset in np.ndindex(*self.window):
                at = tuple(
                    p * s + o * d - b
                    for p, s, o, d, b in zip(
                        place, self.strides, offset, self.rate, self.before, strict=True
                    )
                )
                if all(0 <= i < n for i, n in zip(at, self.sizes, strict=True)):
                    yield place, offset, at


def conv(
    x: np.ndarray,
    kernel: np.ndarray,
    strides: Steps = 1,
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Steps = 1,
) -> np.ndarray:
    x = last(x, data_format)
    windows = Windows(x.shape[1:-1], kernel.shape[:-2], strides, padding, dilation_rate)
    y = np.zeros((len(x), *windows.counts, kernel.shape[-1]))
    for place, offset, at in windows.pairs():
        for b in range(len(x)):
            for c in range(x.shape[-1]):
                y[(b, *place)] += x[(b, *at, c)] * kernel[(*offset, c)]
    return back(y, data_format)


def depthwise(
    x: np.ndarray,
    kernel: np.ndarray,
    strides: Steps = 1,
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Steps = 1,
) -> np.ndarray:
    x = last(x, data_format)
    *window, channels, multiplier = kernel.shape
    windows = Windows(x.shape[1:-1], window, strides, padding, dilation_rate)
    y = np.zeros((len(x), *windows.counts, channels * multiplier))
    for place, offset, at in windows.pairs():
        for b in range(len(x)):
            for c in range(channels):
                for m in range(multiplier):
                    product = x[(b, *at, c)] * kernel[(*offset, c, m)]
                    y[(b, *place, c * multiplier + m)] += product
    return back(y, data_format)


def separable(
    x: np.ndarray, kernel: np.ndarray, pointwise: np.ndarray, *args: Any, **kwargs: Any
) -> np.ndarray:
    data_format = kwargs.get("data_format")
    y = last(depthwise(x, kernel, *args, **kwargs), data_format)
    return back(y @ pointwise.reshape(pointwise.shape[-2:]), data_format)


def conv_transpose(
    x: np.ndarray,
    kernel: np.ndarray,
    output_shape: Sequence[int],
    strides: Steps = 1,
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Steps = 1,
) -> np.ndarray:
    x = last(x, data_format)
    sizes = output_shape[2:] if data_format == "channels_first" else output_shape[1:-1]
    windows = Windows(sizes, kernel.shape[:-2], strides, padding, dilation_rate)
    y = np.zeros((len(x), *sizes, kernel.shape[-2]))
    for place, offset, at in windows.pairs():
        for b in range(len(x)):
            for c in range(x.shape[-1]):
                y[(b, *at)] += x[(b, *place, c)] * kernel[(*offset, slice(None), c)]
    return back(y, data_format)


def pool(
    x: np.ndarray,
    pool_size: Steps,
    strides: Steps = 1,
    padding: str = "valid",
    data_format: str | None = None,
    pool_mode: str = "max",
) -> np.ndarray:
    x = last(x, data_format)
    window = steps(pool_size, x.ndim - 2)
    windows = Windows(x.shape[1:-1], window, strides, padding, 1)
    seen: dict[tuple[int, ...], list[np.ndarray]] = {}
    for place, _, at in windows.pairs():
        seen.setdefault(place, []).append(x[(slice(None), *at)])
    combine: Callable[..., np.ndarray] = np.max if pool_mode == "max" else np.mean
    y = np.zeros((len(x), *windows.counts, x.shape[-1]), x.dtype)
    for place, found in seen.items():
        y[(slice(None), *place)] = combine(found, axis=0)
    return back(y, data_format)


def local_conv(
    x: np.ndarray,
    kernel: np.ndarray,
    kernel_size: Sequence[int],
    strides: Sequence[int],
    output_shape: Sequence[int],
    data_format: str | None = None,
) -> np.ndarray:
    x = last(x, data_format)
    y = np.zeros((len(x), *output_shape, kernel.shape[-1]))
    for number, place in enumerate(np.ndindex(*output_shape)):
        starts = [p * s for p, s in zip(place, strides, strict=True)]
        part = tuple(slice(i, i + k) for i, k in zip(starts, kernel_size, strict=True))
        for b in range(len(x)):
            window = x[(b, *part)]
            if data_format == "channels_first":
                window = np.moveaxis(window, -1, 0)
            y[(b, *place)] = window.reshape(-1) @ kernel[number]
    return back(y, data_format)


def pad(
    x: np.ndarray, pairs: Sequence[Sequence[int]], data_format: str | None = None
) -> np.ndarray:
    x = last(x, data_format)
    sizes = [n + before + after for n, (before, after) in zip(x.shape[1:-1], pairs, strict=True)]
    y = np.zeros((len(x), *sizes, x.shape[-1]), x.dtype)
    for at in np.ndindex(*x.shape[1:-1]):
        to = tuple(i + before for i, (before, _) in zip(at, pairs, strict=True))
        y[(slice(None), *to)] = x[(slice(None), *at)]
    return back(y, data_format)


def repeat(x: np.ndarray, factors: Sequence[int], data_format: str) -> np.ndarray:
    x = last(x, data_format)
    sizes = [n * f for n, f in zip(x.shape[1:-1], factors, strict=True)]
    y = np.zeros((len(x), *sizes, x.shape[-1]), x.dtype)
    for to in np.ndindex(*sizes):
        at = tuple(i // f for i, f in zip(to, factors, strict=True))
        y[(slice(None), *to)] = x[(slice(None), *at)]
    return back(y, data_format)


def bilinear(x: np.ndarray, factors: Sequence[int], data_format: str) -> np.ndarray:
    x = last(x, data_format)
    rows, columns = x.shape[1:3]
    y = np.zeros((len(x), rows * factors[0], columns * factors[1], x.shape[-1]))
    for i in range(y.shape[1]):
        for j in range(y.shape[2]):
            top, down = divmod(i / factors[0], 1)
            left, right = divmod(j / factors[1], 1)
            r, c = int(top), int(left)
            below, beside = min(r + 1, rows - 1), min(c + 1, columns - 1)
            upper = x[:, r, c] * (1 - right) + x[:, r, beside] * right
            lower = x[:, below, c] * (1 - right) + x[:, below, beside] * right
            y[:, i, j] = upper * (1 - down) + lower * down
    return back(y, data_format)
