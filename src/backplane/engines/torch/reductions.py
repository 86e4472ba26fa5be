"""Lowerings: reductions, and what works along axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch

from backplane.core.spec import Spec
from backplane.engines.table import Axes, Lowering, Shape, Table, Value
from backplane.engines.torch.dtypes import compared, modular, ordered
from backplane.engines.torch.elementwise import aten, gradient
from backplane.engines.torch.tracing import host_shape

TABLE = Table()


PRECISE_ROW = 65_536
"""Numbers whose exponentials kernels of the softmax, which add them one by one, sum to 1e-5. Of a
million numbers the fourth digit would be wrong, and the third in the gradient."""

LONG_ROW = 1024
"""From this length on, `top_k` tries to avoid sorting whole rows."""


@TABLE.build("prod")
def prod(specs: Sequence[Spec], *, axes: Axes, keepdims: bool) -> Lowering:
    """`torch.prod` takes one axis at a time."""

    def lowering(x: Value) -> Value:
        for axis in reversed(axes):
            x = torch.prod(x, axis, keepdims, dtype=x.dtype)
        return x

    return modular(specs[0], lowering)


def _reduction(function: Lowering) -> Lowering:
    return lambda specs, *, axes, keepdims: lambda x: function(x, axes, keepdims)


def _position(function: Callable[..., Value]) -> Callable[..., Lowering]:
    def build(specs: Sequence[Spec], *, axis: int) -> Lowering:
        if specs[0].dtype == "bool":
            return lambda x: function(x.view(torch.uint8), axis)
        return compared(specs[0], lambda x: function(x, axis))

    return build


def _cumulative(function: Callable[..., Value]) -> Callable[..., Lowering]:
    def build(specs: Sequence[Spec], *, axis: int, reverse: bool) -> Lowering:
        def forward(x: Value) -> Value:
            return function(x, axis, dtype=x.dtype)

        def backward(x: Value) -> Value:
            return forward(x.flip(axis)).flip(axis)

        return modular(specs[0], backward if reverse else forward)

    return build


def _is_short(x: Value, axis: int, most: int = PRECISE_ROW) -> bool:
    """Whether a row is short enough for the kernel. In a trace, whose sizes are tensors, it is."""
    return torch.jit.is_tracing() or bool(x.shape[axis] <= most)


def _of_rows(kernel: Lowering, by_length: Lowering) -> Callable[..., Lowering]:
    """PyTorch's kernel where rows are known to be short; else one that looks at their length, which
    takes 0.6 µs.
    """

    def build(specs: Sequence[Spec], *, axis: int) -> Lowering:
        size = specs[0].shape[axis]
        known = size is not None and size <= PRECISE_ROW
        return partial(kernel, dim=axis) if known else partial(by_length, axis=axis)

    return build


def _softmax(x: Value, axis: int) -> Value:
    if _is_short(x, axis):
        return torch.softmax(x, axis)
    e = torch.exp(x - torch.amax(x, axis, keepdim=True))
    wide = torch.promote_types(x.dtype, torch.float32)
    return (e / torch.sum(e, axis, keepdim=True, dtype=wide)).to(x.dtype)


def _log_softmax(x: Value, axis: int) -> Value:
    if _is_short(x, axis):
        return torch.log_softmax(x, axis)
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    return (wide - torch.logsumexp(wide, axis, keepdim=True)).to(x.dtype)


TABLE.update(
    Table(
        {"builds": True},
        # PyTorch sums small integers in int64, hence the dtype.
        sum=lambda specs, *, axes, keepdims: modular(
            specs[0], lambda x: torch.sum(x, axes, keepdims, dtype=x.dtype)
        ),
        # Tied maxima share the gradient, which those of `torch.max` do not.
        max=lambda specs, **of: ordered(specs[0], _reduction(torch.amax)(specs, **of)),
        min=lambda specs, **of: ordered(specs[0], _reduction(torch.amin)(specs, **of)),
        mean=_reduction(torch.mean),
        any=_reduction(torch.any),
        all=_reduction(torch.all),
        argmax=_position(torch.argmax),
        argmin=_position(torch.argmin),
        cumsum=_cumulative(torch.cumsum),
        cumprod=_cumulative(torch.cumprod),
        softmax=_of_rows(torch.softmax, _softmax),
        log_softmax=_of_rows(torch.log_softmax, _log_softmax),
    )
)
# It adds up in float16, where a sum of many exponentials is infinite.
TABLE.build("logsumexp", unless=lambda specs, **of: specs[0].dtype == "float16")(
    _reduction(torch.logsumexp)
)


@TABLE.build("softmax_grad", into=True)
def _softmax_grad(specs: Sequence[Spec], *, axis: int) -> Lowering:
    """The kernel takes 0.3 to 0.6 of the time of single operations."""
    dtype = getattr(torch, specs[0].dtype)
    kernel = gradient(aten._softmax_backward_data, axis, dtype)

    def lowering(g: Value, y: Value, out: Value | None = None) -> Value:
        if _is_short(y, axis, PRECISE_ROW // 8):
            return kernel(g, y, out)
        return torch.sub(g, torch.sum(g * y, axis, keepdim=True), out=out).mul_(y)

    return lowering


@TABLE.build("sum_to")
def sum_to(specs: Sequence[Spec], *, shape: Shape) -> Lowering:
    """`Tensor.sum_to_size`."""

    def lowering(x: Value, *dims: Value) -> Value:
        size = host_shape(shape, dims)
        return modular(specs[0], lambda x: x.sum_to_size(size).to(x.dtype))(x)

    return lowering


@TABLE.build("top_k")
def top_k(specs: Sequence[Spec], *, k: int) -> Lowering:
    """A stable sort: `torch.topk` returns ties in any order."""
    return _at_positions(specs[0], lambda x: _largest(x, k))


def _largest(x: Value, k: int) -> Value:
    """The positions that `torch.topk` gives, if rows are long and no two of the values found are
    equal. On rows of 30,000 elements this takes a fiftieth of the time of a sort.
    """
    size = x.shape[-1]
    if size > LONG_ROW:
        values, indices = torch.topk(x, min(k + 1, size))
        if not bool((values[..., 1:] == values[..., :-1]).any()):
            return indices[..., :k]
    return torch.sort(x, stable=True, descending=True)[1][..., :k]


@TABLE.build("sort")
def sort(specs: Sequence[Spec]) -> Lowering:
    """`torch.sort`."""
    return _at_positions(specs[0], lambda x: torch.sort(x, stable=True)[1])


def _at_positions(spec: Spec, positions_of: Lowering) -> Lowering:
    """The elements at these positions along the last axis, and the positions."""
    find = compared(spec, positions_of)

    def lowering(x: Value) -> list[Value]:
        positions = find(x)
        values = modular(spec, lambda bits: torch.gather(bits, -1, positions))
        return [values(x), positions.to(torch.int32)]

    return lowering
