"""Windows along spatial axes: how many there are, what padding adds, what each one reads.

Convolution and pooling take all their geometry from here: spec rules, decompositions and lowerings.
A size may be an int, None if it is unknown, or a scalar of a graph or an engine, which has
arithmetic too. For such scalars the caller passes the `maximum` of two of them.

Source of "same": https://www.tensorflow.org/api_docs/python/tf/nn#notes_on_padding_2
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, Self, TypedDict

Ints = tuple[int, ...]
Pair = tuple[int, int]
Padding = str | tuple[Pair, ...]
"""`"valid"`, `"same"`, or (before, after) for each spatial axis."""
Slice = tuple[int | None, int | None, int]


class Sliding(TypedDict):
    """The movement of a kernel: `strides` and `dilation` have an int for each spatial axis."""

    strides: Ints
    padding: Padding
    dilation: Ints


class Convolving(Sliding):
    """All parameters of a convolution and of its gradients."""

    groups: int


class Pooling(TypedDict):
    """The parameters of all poolings: `pool` and `strides` have an int for each spatial axis."""

    pool: Ints
    strides: Ints
    padding: Padding


Amount = Any
"""A number of elements: an int, or a scalar of whoever computes with it."""


class Window(NamedTuple):
    """The windows along one axis.

    Attributes:
        size: Elements of a window.
        stride: Step from one window to the next.
        dilation: Step from one element of a window to the next.
        padding: `"valid"`, `"same"`, or the elements added before and after.
    """

    size: int
    stride: int = 1
    dilation: int = 1
    padding: str | Pair = "valid"

    @property
    def span(self) -> int:
        """The number of elements from the first to the last of a window."""
        return (self.size - 1) * self.dilation + 1

    def count(self, n: Amount, maximum: Callable[[Any, int], Any] = max) -> Amount:
        """The number of windows that fit along an axis of `n` elements; None if `n` is None."""
        if n is None:
            return None
        if self.padding == "same":
            return -(-n // self.stride)
        before, after = (0, 0) if isinstance(self.padding, str) else self.padding
        return maximum((n + (before + after - self.span)) // self.stride + 1, 0)

    def ends(self, n: Amount, maximum: Callable[[Any, int], Any] = max) -> tuple[Amount, Amount]:
        """The elements that padding adds before and after an axis of `n` elements.

        With `"same"` there are ⌈n / stride⌉ windows, and the smaller half of the padding comes
        first. Where the stride makes the result independent of `n`, `n` is not read.
        """
        if not isinstance(self.padding, str):
            return self.padding
        if self.padding == "valid":
            return (0, 0)
        total: Amount
        if self.stride == 1 or self.span == 1:
            total = self.span - 1
        else:
            last = (n + (self.stride - 1)) // self.stride * self.stride
            total = maximum(last - n + (self.span - self.stride), 0)
        before = total // 2
        return (before, total - before)

    def part(self, offset: int) -> Slice:
        """The slice of the padded axis that reads element `offset` of every window.

        It ends relative to the end of the axis, so that the size of the axis need not be known.
        """
        start = offset * self.dilation
        stop = start + 1 - self.span
        return (start or None, stop or None, self.stride)


def windows(
    size: Sequence[int],
    strides: Sequence[int],
    padding: Padding,
    dilation: Sequence[int] | None = None,
) -> list[Window]:
    """One `Window` for each spatial axis."""
    ends: Sequence[str | Pair] = [padding] * len(size) if isinstance(padding, str) else padding
    dilation = dilation or (1,) * len(size)
    return [Window(*each) for each in zip(size, strides, dilation, ends, strict=True)]


class WindowGrid:
    """Windows over spatial axes whose sizes are all known. Equal arguments share one instance."""

    def __init__(self, sizes: Ints, windows: tuple[Window, ...]) -> None:
        self.sizes = sizes
        self.windows = windows

    @classmethod
    @lru_cache(maxsize=1024)
    def of(
        cls, sizes: Ints, size: Ints, strides: Ints, padding: Padding, dilation: Ints | None = None
    ) -> Self:
        """Windows of `size` elements over axes of `sizes` elements."""
        return cls(sizes, tuple(windows(size, strides, padding, dilation)))

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """The padding (before, after) of each axis."""
        return tuple([w.ends(n) for n, w in zip(self.sizes, self.windows, strict=True)])

    @cached_property
    def padded(self) -> Ints:
        """The sizes with padding."""
        return tuple([n + a + b for n, (a, b) in zip(self.sizes, self.pairs, strict=True)])

    @cached_property
    def counts(self) -> Ints:
        """The number of windows along each axis: the spatial sizes of the result."""
        return tuple([w.count(n) for n, w in zip(self.sizes, self.windows, strict=True)])

    @cached_property
    def indices(self) -> list[tuple[slice, ...]]:
        """For each element of a window, in row-major order, the index that reads it in all windows
        from a padded array (batch, *spatial, channels).
        """
        parts = [[slice(*w.part(i)) for i in range(w.size)] for w in self.windows]
        return [(slice(None), *index) for index in itertools.product(*parts)]

    @cached_property
    def around(self) -> tuple[Pair, ...]:
        """The padding of all axes of an array (batch, *spatial, channels)."""
        return ((0, 0), *self.pairs, (0, 0))

    @cached_property
    def inside(self) -> tuple[slice, ...]:
        """The index that reads such an array from itself with its padding."""
        ends = zip(self.pairs, self.sizes, strict=True)
        return (slice(None), *[slice(before, before + n) for (before, _), n in ends])

    @cached_property
    def rest(self) -> Ints:
        """The elements at the end of each padded axis that no window reaches."""
        axes = zip(self.padded, self.counts, self.windows, strict=True)
        return tuple([n - (count - 1) * w.stride - w.span for n, count, w in axes])

    @cached_property
    def gradient_pairs(self) -> tuple[Pair, ...]:
        """The padding of a gradient, spread by the strides, over which the kernel slides turned
        around, step by step, to give the gradient by what the windows read. Negative amounts cut.
        """
        axes = zip(self.windows, self.pairs, self.rest, strict=True)
        return tuple([(w.span - 1 - a, w.span - 1 - b + rest) for w, (a, b), rest in axes])

    @cached_property
    def elements(self) -> int:
        """The number of elements of a window."""
        return math.prod([w.size for w in self.windows])

    @property
    def is_padded(self) -> bool:
        """Whether padding adds anything."""
        return any(map(any, self.pairs))
