"""Lowerings: pooling and its gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from backplane.core.spec import Spec
from backplane.engines.base import Lowering, Padding, Table, Value, host_shape
from backplane.engines.torch.dtypes import SIGNED, TORCH, compared
from backplane.engines.torch.windows import (
    Pairs,
    Sizes,
    Windows,
    channels_first,
    channels_last,
    crop,
    pad,
    padded_sizes,
    prepared,
    spatial,
)

TABLE = Table()

Shape = tuple[int | None, ...]

aten = torch.ops.aten

MAX = {2: aten.max_pool2d_with_indices.default, 3: aten.max_pool3d_with_indices.default}
MAX_GRAD = {
    2: aten.max_pool2d_with_indices_backward.default,
    3: aten.max_pool3d_with_indices_backward.default,
}
MEAN = {2: aten.avg_pool2d.default, 3: aten.avg_pool3d.default}
MEAN_GRAD = {2: aten.avg_pool2d_backward.default, 3: aten.avg_pool3d_backward.default}
"""PyTorch's kernels by the number of spatial axes."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A pooling of known sizes: the padding that the kernel does, or that which is done around it.

    Kernels pad both sides equally, by half a window at most; with `ceil` the last window may reach
    beyond that.
    """

    amounts: list[int]
    ceil: bool
    around: Pairs | None
    counts: list[int]


def _kernel_counts(
    sizes: Sequence[int], pool: Sizes, strides: Sizes, amounts: Sequence[int], ceil: bool
) -> list[int]:
    """The number of windows by PyTorch's formula.

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.MaxPool2d.html
    """
    counts = []
    for n, k, s, p in zip(sizes, pool, strides, amounts, strict=True):
        count = (n + 2 * p - k + (s - 1 if ceil else 0)) // s + 1
        counts.append(count - 1 if ceil and (count - 1) * s >= n + p else count)
    return counts


class _Pooling:
    """One pooling with fixed parameters, over two spatial axes at least."""

    def __init__(self, sizes: Sequence[Any], pool: Sizes, strides: Sizes, padding: Padding) -> None:
        self.windows = Windows.of(strides, (1,) * len(strides), padding)
        self.strides = self.windows.strides
        self.pool = pool if len(pool) > 1 else (1, *pool)
        self.ones = (1,) * len(self.pool)
        self.plan = prepared(self._plan, tuple(sizes))

    def _plan(self, sizes: Sizes) -> Plan:
        pairs = self.windows.pairs(sizes, self.pool)
        counts = self.windows.counts(sizes, self.pool, pairs)
        amounts = [before for before, _ in pairs]
        if all(2 * p <= k for p, k in zip(amounts, self.pool, strict=True)):
            for ceil in (False, True):
                if counts == _kernel_counts(sizes, self.pool, self.strides, amounts, ceil):
                    return Plan(amounts, ceil, None, counts)
        return Plan([0] * len(pairs), False, pairs, counts)

    # --- maximum --------------------------------------------------------------------------------

    def max(self, x: Value) -> list[Value]:
        """Maxima, and their positions in the (padded) plane."""
        plan = self.plan(x.shape[1:-1])
        if 0 in plan.counts:
            empty = x.new_zeros((x.shape[0], *plan.counts, x.shape[-1]))
            return [empty, empty.to(torch.int64)]
        if plan.around is not None:
            x = pad(x, plan.around, _lowest(x.dtype))
        y, positions = MAX[len(self.pool)](
            channels_first(x), self.pool, self.strides, plan.amounts, self.ones, plan.ceil
        )
        return [channels_last(y), channels_last(positions)]

    def max_grad(self, g: Value, x: Value, positions: Value) -> Value:
        """`g` put at the positions."""
        sizes = x.shape[1:-1]
        plan = self.plan(sizes)
        if g.numel() == 0:
            return g.new_zeros(x.shape)
        if plan.around is not None:
            x = x.new_empty((x.shape[0], *padded_sizes(sizes, plan.around), x.shape[-1]))
        x_grad = MAX_GRAD[len(self.pool)](
            channels_first(g), channels_first(x), self.pool, self.strides,
            plan.amounts, self.ones, plan.ceil, channels_first(positions),
        )  # fmt: skip
        x_grad = channels_last(x_grad)
        return x_grad if plan.around is None else crop(x_grad, plan.around, sizes)

    def max_take(self, v: Value, positions: Value) -> Value:
        """`v` read at the positions."""
        plan = self.plan(v.shape[1:-1])
        if plan.around is not None:
            v = pad(v, plan.around)
        batch, channels = v.shape[0], v.shape[-1]
        rows = positions.reshape(batch, math.prod(positions.shape[1:-1]), channels)
        plane = v.reshape(batch, math.prod(v.shape[1:-1]), channels)
        return torch.gather(plane, 1, rows).reshape(positions.shape)

    # --- mean -----------------------------------------------------------------------------------

    def mean(self, x: Value) -> Value:
        """Means over what is no padding."""
        plan = self.plan(x.shape[1:-1])
        if 0 in plan.counts:
            return x.new_zeros((x.shape[0], *plan.counts, x.shape[-1]))
        if plan.around is not None:
            return self._total(pad(x, plan.around)) / self._valid(x, plan.around)
        y = MEAN[len(self.pool)](
            channels_first(x), self.pool, self.strides, plan.amounts, plan.ceil, False, None
        )
        return channels_last(y)

    def mean_grad(self, g: Value, shape: Sequence[int]) -> Value:
        """`g`, shared out over its windows."""
        sizes = tuple(shape[1:-1])
        plan = self.plan(sizes)
        if g.numel() == 0:
            return g.new_zeros(shape)
        divisor = None
        if plan.around is not None:
            g = g / self._valid(g.new_empty((1, *sizes, 1)), plan.around)
            divisor = 1
            shape = (shape[0], *padded_sizes(sizes, plan.around), shape[-1])
        # The operand is read for its shape only.
        x_grad = MEAN_GRAD[len(self.pool)](
            channels_first(g), channels_first(g.new_empty(shape)), self.pool, self.strides,
            plan.amounts, plan.ceil, False, divisor,
        )  # fmt: skip
        x_grad = channels_last(x_grad)
        return x_grad if plan.around is None else crop(x_grad, plan.around, sizes)

    def _total(self, x: Value) -> Value:
        """Sums over windows."""
        none = [0] * len(self.pool)
        y = MEAN[len(self.pool)](channels_first(x), self.pool, self.strides, none, False, True, 1)
        return channels_last(y)

    def _valid(self, x: Value, around: Pairs) -> Value:
        """The number of elements of each window that are no padding."""
        return self._total(pad(x.new_ones((1, *x.shape[1:-1], 1)), around))


def _lowest(dtype: torch.dtype) -> Any:
    """What never wins against a value of that dtype."""
    return -math.inf if dtype.is_floating_point else torch.iinfo(dtype).min


@TABLE.build("max_pool")
def max_pool(specs: Sequence[Spec], *, pool: Sizes, strides: Sizes, padding: Padding) -> Lowering:
    """`max_pool2d_with_indices`; the positions count through the (padded) plane of one channel."""
    pooling = _Pooling(spatial(specs[0]), pool, strides, padding)
    kernel = pooling.max
    if specs[0].dtype in SIGNED:
        kernel = _of_unsigned(specs[0], kernel)
    if len(pool) == 1:
        return lambda x: [t.squeeze(1) for t in kernel(x.unsqueeze(1))]
    return kernel


def _of_unsigned(spec: Spec, kernel: Callable[[Value], list[Value]]) -> Callable[..., list[Value]]:
    """Maxima and positions of unsigned integers, for which there is no kernel."""
    of_signed, (dtype, signed) = compared(spec, kernel), (TORCH[spec.dtype], SIGNED[spec.dtype])
    lowest = torch.iinfo(signed).min

    def largest(x: Value) -> list[Value]:
        y, positions = of_signed(x)
        return [(y ^ lowest).view(dtype), positions]

    return largest


@TABLE.build("max_pool_grad", reads=(0, 1, 3))
def max_pool_grad(
    specs: Sequence[Spec], *, pool: Sizes, strides: Sizes, padding: Padding
) -> Lowering:
    """`max_pool2d_with_indices_backward`, which reads x for its shape."""
    pooling = _Pooling(spatial(specs[1]), pool, strides, padding)

    def single(g: Value, x: Value, _: None, positions: Value) -> Value:
        return pooling.max_grad(*[t.unsqueeze(1) for t in (g, x, positions)]).squeeze(1)

    return single if len(pool) == 1 else lambda g, x, _, p: pooling.max_grad(g, x, p)


@TABLE.build("max_pool_take", reads=(0, 3))
def max_pool_take(
    specs: Sequence[Spec], *, pool: Sizes, strides: Sizes, padding: Padding
) -> Lowering:
    """`torch.gather` over the plane."""
    pooling = _Pooling(spatial(specs[0]), pool, strides, padding)

    def single(v: Value, _x: None, _y: None, positions: Value) -> Value:
        return pooling.max_take(v.unsqueeze(1), positions.unsqueeze(1)).squeeze(1)

    return single if len(pool) == 1 else lambda v, _x, _y, p: pooling.max_take(v, p)


def _widened(spec: Spec, lowering: Lowering) -> Lowering:
    """In float32 where PyTorch has no kernel: means over three axes of 16-bit floats."""
    if spec.ndim < 5 or spec.dtype not in ("float16", "bfloat16"):
        return lowering
    return lambda x, *dims: lowering(x.to(torch.float32), *dims).to(x.dtype)


@TABLE.build("avg_pool")
def avg_pool(specs: Sequence[Spec], *, pool: Sizes, strides: Sizes, padding: Padding) -> Lowering:
    """`avg_pool2d` with `count_include_pad=False`."""
    pooling = _Pooling(spatial(specs[0]), pool, strides, padding)
    if len(pool) == 1:
        return lambda x: pooling.mean(x.unsqueeze(1)).squeeze(1)
    return _widened(specs[0], pooling.mean)


@TABLE.build("avg_pool_grad")
def avg_pool_grad(
    specs: Sequence[Spec], *, shape: Shape, pool: Sizes, strides: Sizes, padding: Padding
) -> Lowering:
    """`avg_pool2d_backward`."""
    pooling = _Pooling(spatial(Spec(shape, "")), pool, strides, padding)

    def single(g: Value, *dims: Value) -> Value:
        batch, size, channels = host_shape(shape, dims)
        return pooling.mean_grad(g.unsqueeze(1), (batch, 1, size, channels)).squeeze(1)

    if len(pool) == 1:
        return single
    return _widened(specs[0], lambda g, *dims: pooling.mean_grad(g, host_shape(shape, dims)))
