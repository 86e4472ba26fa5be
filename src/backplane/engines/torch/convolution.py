"""Lowerings: convolution and its gradients, and what they share with pooling.

The canonical layout is channels last. PyTorch's kernels take channels first, but as a matter of
shape only: the permuted view of a channels-last tensor is what PyTorch calls the memory format
`channels_last`, which its kernels take as it is and prefer. PyTorch has that memory format for two
and three spatial axes, so one spatial axis becomes the second of two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, Unpack

import torch

from backplane.core.spec import Spec
from backplane.core.windows import Padding, Sliding, Window, windows
from backplane.engines.kernels import limit
from backplane.engines.table import Ints, Lowering, Shape, Table, Value
from backplane.engines.torch.fast.phases import Phases
from backplane.engines.torch.fast.products import Products
from backplane.engines.torch.linear import asking, by_onednn, sum_of_product
from backplane.engines.torch.shaping import pad_amounts
from backplane.engines.torch.tracing import host_shape, present_sizes

TABLE = Table()

# --- shared with pooling ------------------------------------------------------------------------


def channels_first(x: Value) -> Value:
    """(batch, *spatial, channels) seen as (batch, channels, *spatial)."""
    rank = x.ndim
    return x.permute(0, rank - 1, *range(1, rank - 1))


def channels_last(x: Value) -> Value:
    """(batch, channels, *spatial) seen as (batch, *spatial, channels)."""
    return x.permute(0, *range(2, x.ndim), 1)


Planned = TypeVar("Planned")


class Plan(Products):
    """Windows over spatial axes of known sizes, as a kernel of PyTorch slides them.

    Attributes:
        amounts: What the kernel adds at both ends of each axis.
        apart: Whether the padding is added before the kernel runs, because the ends differ.
        ceil: Whether the last window may reach beyond the padding.
    """

    def __init__(self, sizes: Sequence[int], slid: Sequence[Window]) -> None:
        super().__init__(tuple(sizes), tuple(slid))
        self.apart = any(before != after for before, after in self.pairs)
        self.amounts = [0 if self.apart else before for before, _ in self.pairs]
        self.ceil = False

    def pad(self, x: Value, value: Any = 0) -> Value:
        """`x`, channels last, with the padding that the kernel does not do."""
        return torch.constant_pad_nd(x, pad_amounts(self.around), value) if self.apart else x

    def crop(self, x: Value) -> Value:
        """A view of `x`, channels last, without that padding."""
        return x[self.inside] if self.apart else x

    def empty(self, x: Value, batch: int, channels: int) -> Value:
        """An empty result, if an axis has no windows."""
        return x.new_zeros((batch, *self.counts, channels))


def planned(
    plan: Callable[[Sequence[int], Sequence[Window]], Planned],
    shape: Shape,
    slid: Sequence[Window],
) -> Callable[[Sequence[int]], Planned]:
    """A function from spatial sizes to their plan, which is made now if `shape` has all sizes."""
    sizes = shape[1:-1]
    if None in sizes:
        return lambda sizes: plan(sizes, slid)
    result = plan(sizes, slid)  # type: ignore[arg-type]
    return lambda sizes: result


Builder = Callable[..., Lowering]


def on_two_axes(build: Builder) -> Builder:
    """Decorator: a builder for two or three spatial axes, which then takes a single one too.

    The single axis becomes the second of two, and the first one has size 1. In images the new axis
    comes after the batch, and in kernels it comes first. Kernels are the second operand of a
    convolution and of its gradient by the input, and the result of its gradient by the kernel.
    """

    def lifted(specs: Sequence[Spec], *, strides: Ints, padding: Padding, **given: Any) -> Lowering:
        if len(strides) > 1:
            return build(specs, strides=strides, padding=padding, **given)
        made = int("kernel_shape" not in given)
        has_kernel = made and "dilation" in given
        # Where each operand gets its axis; None for vectors and sizes.
        places = [
            int(not (i == 1 and has_kernel)) if spec.ndim == 3 else None
            for i, spec in enumerate(specs)
        ]
        for name in given.keys() & {"pool", "dilation", "kernel_shape"}:
            given[name] = (1, *given[name])
        if "shape" in given:
            given["shape"] = _with_one(given["shape"], 1)
        known = [
            s if at is None else Spec(_with_one(s.shape, at), s.dtype)
            for s, at in zip(specs, places, strict=True)
        ]
        ends = padding if isinstance(padding, str) else ((0, 0), *padding)
        lowering = build(known, strides=(1, *strides), padding=ends, **given)

        def on_one_axis(*operands: Value) -> Value:
            lifted = [
                x if at is None or x is None else x.unsqueeze(at)
                for x, at in zip(operands, places, strict=False)
            ]
            result = lowering(*lifted)
            return [y.squeeze(1) for y in result] if type(result) is list else result.squeeze(made)

        return asking(on_one_axis, lowering)

    return lifted


def _with_one(shape: Shape, place: int) -> Shape:
    return (*shape[:place], 1, *shape[place:])


def _is_misread(x: Value, plan: Plan, strides: Ints) -> bool:
    """Whether oneDNN may give wrong numbers: in PyTorch 2.13 its kernels for 16-bit floats, on
    processors with AMX, misread an operand whose last axis has one window and a larger stride.
    """
    return plan.counts[-1] == 1 and strides[-1] > 1 and x.dtype.itemsize == 2 and x.is_cpu


# --- the primitives -----------------------------------------------------------------------------


def _output_first(kernel: Value) -> Value:
    """(*spatial, in, out) seen as PyTorch's (out, in, *spatial)."""
    rank = kernel.ndim
    return kernel.permute(rank - 1, rank - 2, *range(rank - 2))


def _order(kernel: Spec) -> Sequence[int] | None:
    """The output channels first, as PyTorch's kernels read them: they would copy another order at
    each call. Predictions of DenseNet-121 take 0.93 of the time, of MobileNetV2 0.94. The order of
    a kernel of one element does not matter, because it is a matrix.
    """
    whole = math.prod(_window(kernel.shape))
    return None if whole == 1 else (kernel.ndim - 1, *range(kernel.ndim - 1))


@TABLE.build("conv", "conv_bias", order=_order)
@on_two_axes
def conv(specs: Sequence[Spec], *, groups: int, **at: Unpack[Sliding]) -> Lowering:
    """`torch.conv2d` or `conv3d`, which `torch.autocast` knows. A third operand is the bias."""
    strides, dilation = at["strides"], at["dilation"]
    few = limit("torch.windows", specs[0].dtype)
    slid = windows(_window(specs[1].shape), **at)
    plan_for = planned(Plan, specs[0].shape, slid)
    convolve = torch.conv2d if len(strides) == 2 else torch.conv3d
    product = _product_for(specs[0].shape, specs[1].shape, specs[0].dtype)

    def lowering(x: Value, kernel: Value, bias: Value | None = None) -> Value:
        plan = plan_for(present_sizes(x)[1:-1])
        if 0 in plan.counts:
            return plan.empty(x, x.shape[0], kernel.shape[-1])
        if plan.serves(x, kernel.shape[-1], groups, few):
            return plan.conv(product, x, kernel, *(() if bias is None else (bias,)))
        operands = [channels_first(plan.pad(x)), _output_first(kernel), bias]
        misread = _is_misread(x, plan, strides)
        if misread:
            operands = [y if y is None else y.float() for y in operands]
        y = convolve(*operands, strides, plan.amounts, dilation, groups)
        return channels_last(y.to(x.dtype) if misread else y)

    return asking(lowering, product)


@TABLE.build("conv_input_grad")
@on_two_axes
def conv_input_grad(
    specs: Sequence[Spec], *, shape: Shape, groups: int, **at: Unpack[Sliding]
) -> Lowering:
    """The transposed convolution, which `torch.autocast` knows."""
    strides, dilation = at["strides"], at["dilation"]
    few = limit("torch.windows", specs[0].dtype)
    slid = windows(_window(specs[1].shape), **at)
    plan_for = planned(Plan, shape, slid)
    transposed = torch.conv_transpose2d if len(strides) == 2 else torch.conv_transpose3d
    phases = Phases.of(slid, shape[-1], groups, specs[0].dtype)
    product = _product_for(shape, specs[1].shape, specs[0].dtype)

    def lowering(g: Value, kernel: Value, *dims: Value) -> Value:
        target = host_shape(shape, dims)
        if g.numel() == 0:
            return g.new_zeros(target)
        plan = plan_for(target[1:-1])
        if plan.serves(g, kernel.shape[-1], groups, few):
            return plan.input_grad(product, g, kernel)
        if phases is not None and g.is_cpu:
            return phases.input_grad(g, kernel, plan)
        x = transposed(
            channels_first(g), _output_first(kernel), None,
            strides, plan.amounts, plan.rest, groups, dilation,
        )  # fmt: skip
        return plan.crop(channels_last(x))

    return asking(lowering, product)


@TABLE.build("conv_kernel_grad")
@on_two_axes
def conv_kernel_grad(
    specs: Sequence[Spec], *, kernel_shape: Ints, groups: int, **at: Unpack[Sliding]
) -> Lowering:
    """The part of ATen's `convolution_backward` that is the gradient by the kernel."""
    strides, dilation = at["strides"], at["dilation"]
    few = limit("torch.kernels", specs[0].dtype)
    slid = windows(_window(kernel_shape), **at)
    plan_for = planned(Plan, specs[0].shape, slid)
    none = [0] * len(strides)
    product = _product_for(specs[0].shape, kernel_shape, specs[0].dtype)
    *spatial, inputs, outputs = kernel_shape
    # A kernel with one output, seen with the output first, is not contiguous for PyTorch's slow
    # kernels, which refuse it.
    whole = (outputs, inputs, *spatial)

    def lowering(x: Value, g: Value) -> Value:
        if g.numel() == 0:
            return g.new_zeros(kernel_shape)
        plan = plan_for(present_sizes(x)[1:-1])
        if plan.serves(x, outputs, groups, few):
            return plan.kernel_grad(product, x, g, kernel_shape)
        # The kernel is read for its shape only.
        kernel = x.new_empty(whole) if outputs == 1 else _output_first(x.new_empty(kernel_shape))
        operands = [channels_first(g), channels_first(plan.pad(x)), kernel]
        misread = _is_misread(x, plan, strides)
        if misread:
            operands = [y.float() for y in operands]
        _, gradient, _ = torch.ops.aten.convolution_backward.default(
            *operands, None,
            strides, plan.amounts, dilation, False, none, groups, (False, True, False),
        )  # fmt: skip
        gradient = gradient.to(x.dtype) if misread else gradient
        return gradient.permute(*range(2, gradient.ndim), 1, 0)

    return asking(lowering, product)


def _product_for(image: Shape, kernel: Shape, dtype: str) -> Lowering:
    """The product of windows and kernel."""
    return by_onednn(dtype, *image[:-1], *kernel) or sum_of_product


def _window(kernel_shape: Shape) -> Ints:
    """The spatial sizes of a kernel. Spec rules make sure that they are known."""
    return tuple([n for n in kernel_shape[:-2] if n is not None])
