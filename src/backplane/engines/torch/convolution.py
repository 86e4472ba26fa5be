"""Lowerings: convolution and its gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from backplane.core.spec import Spec
from backplane.engines.base import Lowering, Padding, Table, Value, host_shape
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


def _output_first(kernel: Value) -> Value:
    """(*spatial, in, out) seen as PyTorch's (out, in, *spatial)."""
    rank = kernel.ndim
    return kernel.permute(rank - 1, rank - 2, *range(rank - 2))


def _output_last(kernel: Value) -> Value:
    """(out, in, *spatial) seen as (*spatial, in, out)."""
    return kernel.permute(*range(2, kernel.ndim), 1, 0)


@dataclass(frozen=True, slots=True)
class Plan:
    """A convolution of known sizes: the padding that the kernel does, equal on both sides, or that
    which is done around it; the number of windows; the elements that no window reaches.
    """

    amounts: list[int]
    around: Pairs | None
    counts: list[int]
    rest: list[int]


def _plan(windows: Windows, sizes: Sizes, window: Sizes) -> Plan:
    pairs = windows.pairs(sizes, window)
    counts = windows.counts(sizes, window, pairs)
    equal = all(before == after for before, after in pairs)
    whole = padded_sizes(sizes, pairs)
    places = zip(whole, window, counts, windows.strides, windows.dilation, strict=True)
    return Plan(
        [before for before, _ in pairs] if equal else [0] * len(pairs),
        None if equal else pairs,
        counts,
        [n - (m - 1) * s - (k - 1) * d - 1 for n, k, m, s, d in places],
    )


@TABLE.build("conv")
def conv(
    specs: Sequence[Spec], *, strides: Sizes, padding: Padding, dilation: Sizes, groups: int
) -> Lowering:
    """`torch.convolution`; a third operand is the bias of `conv_bias`."""
    windows = Windows.of(strides, dilation, padding)
    plan_for = prepared(
        lambda sizes, window: _plan(windows, sizes, window),
        spatial(specs[0]),
        spatial(specs[1], kernel=True),
    )
    none = [0] * len(windows.strides)

    def lowering(x: Value, kernel: Value, bias: Value | None = None) -> Value:
        plan = plan_for(x.shape[1:-1], kernel.shape[:-2])
        if 0 in plan.counts:
            return x.new_zeros((x.shape[0], *plan.counts, kernel.shape[-1]))
        if plan.around is not None:
            x = pad(x, plan.around)
        y = torch.convolution(
            channels_first(x), _output_first(kernel), bias,
            windows.strides, plan.amounts, windows.dilation, False, none, groups,
        )  # fmt: skip
        return channels_last(y)

    if len(strides) == 1:
        return lambda x, kernel, *bias: lowering(
            x.unsqueeze(1), kernel.unsqueeze(0), *bias
        ).squeeze(1)
    return lowering


TABLE["conv_bias"] = TABLE["conv"]


@TABLE.build("conv_input_grad")
def conv_input_grad(
    specs: Sequence[Spec],
    *,
    shape: Shape,
    strides: Sizes,
    padding: Padding,
    dilation: Sizes,
    groups: int,
) -> Lowering:
    """The transposed `torch.convolution`."""
    windows = Windows.of(strides, dilation, padding)
    plan_for = prepared(
        lambda sizes, window: _plan(windows, sizes, window),
        spatial(Spec(shape, "")),
        spatial(specs[1], kernel=True),
    )

    def lowering(g: Value, kernel: Value, target: Sequence[int]) -> Value:
        if g.numel() == 0:
            return g.new_zeros(target)
        sizes = target[1:-1]
        plan = plan_for(sizes, kernel.shape[:-2])
        x = torch.convolution(
            channels_first(g), _output_first(kernel), None,
            windows.strides, plan.amounts, windows.dilation, True, plan.rest, groups,
        )  # fmt: skip
        x = channels_last(x)
        return x if plan.around is None else crop(x, plan.around, sizes)

    def single(g: Value, kernel: Value, *dims: Value) -> Value:
        batch, size, channels = host_shape(shape, dims)
        return lowering(g.unsqueeze(1), kernel.unsqueeze(0), (batch, 1, size, channels)).squeeze(1)

    if len(strides) == 1:
        return single
    return lambda g, kernel, *dims: lowering(g, kernel, host_shape(shape, dims))


@TABLE.build("conv_kernel_grad")
def conv_kernel_grad(
    specs: Sequence[Spec],
    *,
    kernel_shape: Sizes,
    strides: Sizes,
    padding: Padding,
    dilation: Sizes,
    groups: int,
) -> Lowering:
    """The part of ATen's `convolution_backward` that is the gradient by the kernel."""
    windows = Windows.of(strides, dilation, padding)
    if len(strides) == 1:
        kernel_shape = (1, *kernel_shape)
    plan_for = prepared(lambda sizes: _plan(windows, sizes, kernel_shape[:-2]), spatial(specs[0]))
    none = [0] * len(windows.strides)

    def lowering(x: Value, g: Value) -> Value:
        if g.numel() == 0:
            return g.new_zeros(kernel_shape)
        plan = plan_for(x.shape[1:-1])
        if plan.around is not None:
            x = pad(x, plan.around)
        # The kernel is read for its shape only.
        kernel = _output_first(x.new_empty(kernel_shape))
        _, kernel_grad, _ = torch.ops.aten.convolution_backward.default(
            channels_first(g), channels_first(x), kernel, None,
            windows.strides, plan.amounts, windows.dilation, False, none, groups,
            (False, True, False),
        )  # fmt: skip
        return _output_last(kernel_grad)

    if len(strides) == 1:
        return lambda x, g: lowering(x.unsqueeze(1), g.unsqueeze(1)).squeeze(0)
    return lowering
