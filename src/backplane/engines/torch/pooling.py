"""Lowerings: pooling and its gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Unpack

import torch

from backplane.core.spec import HALVES, Spec, neutral
from backplane.core.windows import Padding, Pooling, Window, windows
from backplane.engines.table import Ints, Lowering, Shape, Table, Value
from backplane.engines.torch import devices
from backplane.engines.torch.convolution import (
    Plan,
    channels_first,
    channels_last,
    on_two_axes,
    planned,
)
from backplane.engines.torch.dtypes import NAMES, SIGNED
from backplane.engines.torch.tracing import host_shape, present_sizes

TABLE = Table()

aten = torch.ops.aten

MAX = {2: aten.max_pool2d_with_indices.default, 3: aten.max_pool3d_with_indices.default}
MAX_GRAD = {
    2: aten.max_pool2d_with_indices_backward.default,
    3: aten.max_pool3d_with_indices_backward.default,
}
MEAN = {2: aten.avg_pool2d.default, 3: aten.avg_pool3d.default}
MEAN_GRAD = {2: aten.avg_pool2d_backward.default, 3: aten.avg_pool3d_backward.default}
"""PyTorch's kernels by the number of spatial axes."""


class _Plan(Plan):
    """A plan in which the kernel pads if it can. It pads both ends alike, by half a window at most.
    Over three axes it refuses sizes smaller than the window, even if padding makes up for it.
    """

    def __init__(self, sizes: Sequence[int], slid: Sequence[Window]) -> None:
        super().__init__(sizes, slid)
        amounts = [before for before, _ in self.pairs]
        axes = list(zip(sizes, amounts, slid, strict=True))
        fits = all(2 * p <= w.size and (len(axes) == 2 or n >= w.size) for n, p, w in axes)
        known = [tuple([_kernel_count(*axis, ceil) for axis in axes]) for ceil in (False, True)]
        self.apart = not fits or self.counts not in known
        self.ceil = not self.apart and known.index(self.counts) == 1
        self.amounts = [0] * len(axes) if self.apart else amounts


def _kernel_count(n: int, amount: int, w: Window, ceil: bool) -> int:
    """The number of windows by PyTorch's formula.

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.MaxPool2d.html
    """
    beyond = w.stride - 1 if ceil else 0
    count: int = w._replace(padding=(amount, amount + beyond)).count(n)
    return count - 1 if ceil and (count - 1) * w.stride >= n + amount else count


class _Kernels:
    """One pooling with fixed parameters, over two or three spatial axes."""

    def __init__(self, shape: Shape, pool: Ints, strides: Ints, padding: Padding) -> None:
        self.pool, self.strides = pool, strides
        self.rank = len(pool)
        self.ones, self.none = (1,) * self.rank, (0,) * self.rank
        self.plan = planned(_Plan, shape, windows(pool, strides, padding))

    def max(self, x: Value) -> list[Value]:
        """The maxima, and their positions: numbers of elements in one channel's padded plane."""
        plan = self.plan(present_sizes(x)[1:-1])
        if 0 in plan.counts:
            empty = plan.empty(x, x.shape[0], x.shape[-1])
            return [empty, empty.to(torch.int64)]
        compared = x.to(torch.float64) if x.is_cuda and not x.is_floating_point() else x
        y, positions = MAX[self.rank](
            channels_first(plan.pad(compared, neutral(NAMES[compared.dtype], "max"))),
            self.pool, self.strides, plan.amounts, self.ones, plan.ceil,
        )  # fmt: skip
        positions = channels_last(positions)
        if compared is not x:  # CUDA has no kernel for integers.
            return [self.max_take(x, None, None, positions), positions]
        return [channels_last(y), positions]

    def max_grad(self, g: Value, x: Value, _: None, positions: Value) -> Value:
        """`g` put at the positions."""
        plan = self.plan(present_sizes(x)[1:-1])
        if g.numel() == 0:
            return g.new_zeros(x.shape)
        # The operand is read for its shape only.
        x_grad = MAX_GRAD[self.rank](
            channels_first(g), channels_first(plan.pad(x)), self.pool, self.strides,
            plan.amounts, self.ones, plan.ceil, channels_first(positions),
        )  # fmt: skip
        return plan.crop(channels_last(x_grad))

    def max_take(self, v: Value, _x: None, _y: None, positions: Value) -> Value:
        """`v` read at the positions."""
        v = self.plan(present_sizes(v)[1:-1]).pad(v)
        rows = positions.flatten(1, -2)
        return torch.gather(v.flatten(1, -2), 1, rows).reshape(positions.shape)

    def mean(self, x: Value) -> Value:
        """The mean of each window, without its padding: `count_include_pad=False`."""
        plan = self.plan(present_sizes(x)[1:-1])
        if 0 in plan.counts:
            return plan.empty(x, x.shape[0], x.shape[-1])
        if plan.apart:
            return self._total(plan.pad(x)) / self._valid(x, plan)
        y = MEAN[self.rank](
            channels_first(x), self.pool, self.strides, plan.amounts, plan.ceil, False, None
        )
        return channels_last(y)

    def mean_grad(self, g: Value, shape: Sequence[int]) -> Value:
        """The gradient of `mean`: `g` is divided among the elements of each window."""
        plan = self.plan(shape[1:-1])
        if g.numel() == 0:
            return g.new_zeros(shape)
        if plan.apart:
            g = g / self._valid(g, plan)
        # The operand is read for its shape and its order in memory only.
        g, x = channels_first(g), channels_first(plan.pad(g.new_empty(shape)))
        if g.is_cuda:  # Of windows that overlap, its kernel for channels last gives wrong sums.
            g, x = g.contiguous(), x.contiguous()
        x_grad = MEAN_GRAD[self.rank](
            g, x, self.pool, self.strides, plan.amounts, plan.ceil, False,
            1 if plan.apart else None,
        )  # fmt: skip
        return plan.crop(channels_last(x_grad))

    def _total(self, x: Value) -> Value:
        """Sums over windows."""
        y = MEAN[self.rank](channels_first(x), self.pool, self.strides, self.none, False, True, 1)
        return channels_last(y)

    def _valid(self, x: Value, plan: Plan) -> Value:
        """The number of elements of each window that are no padding."""
        return self._total(plan.pad(x.new_ones((1, *plan.sizes, 1))))


def _builder(method: Callable[..., Any], operand: int) -> Callable[..., Lowering]:
    """A builder for `method` of the pooling over the spatial axes of one of the operands."""

    @on_two_axes
    def build(specs: Sequence[Spec], **at: Unpack[Pooling]) -> Lowering:
        return partial(method, _Kernels(specs[operand].shape, **at))

    return build


TABLE.build("max_pool", unless=lambda specs, **at: specs[0].dtype in SIGNED)(
    _builder(_Kernels.max, 0)
)
TABLE.build("max_pool_grad", reads=(0, 1, 3))(_builder(_Kernels.max_grad, 1))
TABLE.build("max_pool_take", reads=(0, 3))(_builder(_Kernels.max_take, 0))


def _lacks_mean(specs: Sequence[Spec], **params: Any) -> bool:
    """Whether PyTorch has no kernel: for 16-bit means over three axes."""
    return specs[0].ndim == 5 and specs[0].dtype in HALVES


def _adds_faster(specs: Sequence[Spec], **at: object) -> bool:
    """Whether there is no kernel, or sums of slices serve: on the processor, over three axes they
    take 0.13 to 0.16 of the kernel's time for 65,000 elements.
    """
    return _lacks_mean(specs) or (specs[0].ndim == 5 and not devices.ACCELERATED)


TABLE.build("avg_pool", unless=_adds_faster)(_builder(_Kernels.mean, 0))


@TABLE.build("avg_pool_grad", unless=_lacks_mean)
@on_two_axes
def avg_pool_grad(specs: Sequence[Spec], *, shape: Shape, **at: Unpack[Pooling]) -> Lowering:
    """`avg_pool2d_backward`."""
    kernels = _Kernels(shape, **at)
    return lambda g, *dims: kernels.mean_grad(g, host_shape(shape, dims))
