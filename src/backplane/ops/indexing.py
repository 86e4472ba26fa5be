"""Parts of tensors: slices, elements by index, reversal, padding."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np

from backplane.core import shapes
from backplane.core.graph import Tensor, constant
from backplane.core.primitive import moving, primitive
from backplane.core.spec import INTEGER, Spec, check_dtype, is_integer
from backplane.core.traits import (
    Axis,
    Memory,
    Precision,
    Stacked,
    later_axes,
    like_first,
    other_axes,
    whole_axes,
    whole_time,
)
from backplane.ops.creation import check_sizes, given, shaped, shaped_as, size_at, stacked_shape

Slices = tuple[tuple[int | None, int | None, int], ...]
Sizes = tuple[int | None, ...]

ALL = (None, None, 1)
"""The slice of a whole axis."""


def _sliced(name: str, shape: Sizes, slices: Slices) -> Sizes:
    if len(slices) != len(shape):
        raise ValueError(f"{name}: {len(slices)} slices for a tensor with {len(shape)} axes")
    for part in slices:
        if part[2] < 1:
            raise ValueError(f"{name}: the step of {part} must be at least 1")
    return tuple(
        n if part == ALL else shapes.slice_size(n, *part)
        for n, part in zip(shape, slices, strict=True)
    )


@moving(Memory.VIEW, whole_axes("slices", ALL), on_host=True, stacks=whole_time("slices", ALL))
def slice(x: Spec, *, slices: Slices) -> Spec:
    """The elements that one slice (start, stop, step) per axis reads, as in Python; step ≥ 1."""
    return Spec(_sliced("slice", x.shape, slices), x.dtype)


@moving(
    Memory.FRESH, given, host=1,
    stacks=lambda node, xs: stacked_shape(node, xs, slices=(ALL, *node.params["slices"])),
)  # fmt: skip
def slice_grad(g: Spec, *dims: Spec, shape: Sizes, slices: Slices) -> Spec:
    """The gradient of `slice`: zeros of `shape`, with `g` at the places that `slices` would
    read.
    """
    check_sizes("slice_grad", shape, dims)
    check_fit("slice_grad", "g", g, _sliced("slice_grad", shape, slices))
    return Spec(shape, g.dtype)


def check_fit(name: str, what: str, given: Spec, wanted: Sizes) -> None:
    """ValueError if the operand `what` does not have the shape `wanted`, as far as is known."""
    if not given.accepts(Spec(wanted, given.dtype)):
        raise ValueError(f"{name}: {what} has shape {given.shape}, wanted {wanted}")


def part(x: Tensor, axis: int, start: int | None, stop: int | None = None) -> Tensor:
    """The elements from `start` to `stop` along one axis."""
    place = axis % x.ndim
    slices = (*[ALL] * place, (start, stop, 1), *[ALL] * (x.ndim - place - 1))
    return slice(x, slices=slices)


slice.vjps(lambda g, y, x, *, slices: shaped_as(slice_grad, x, g, slices=slices))
slice_grad.vjps(lambda c, y, g, *dims, shape, slices: slice(c, slices=slices))


@primitive(
    multiple=True,
    precision=Precision.FOLLOWS,
    memory=Memory.FRESH,
    axes=lambda result, axis: other_axes(result.inputs[0], axis),
)
def split(x: Spec, *, axis: int, sizes: tuple[int, ...]) -> list[Spec]:
    """Parts of the given sizes, one after the other along `axis`, whose size is their sum.
    `compile.passes` puts it in the place of slices.
    """
    shapes.check_axes("split", (axis,), len(x.shape))
    if x.shape[axis] != sum(sizes):
        raise ValueError(f"split: sizes {sizes} of axis {axis} of a tensor of shape {x.shape}")
    return [Spec((*x.shape[:axis], n, *x.shape[axis + 1 :]), x.dtype) for n in sizes]


@split.decompose
def _(x: Tensor, *, axis: int, sizes: tuple[int, ...]) -> list[Tensor]:
    return [part(x, axis, a, b) for a, b in pairwise(accumulate(sizes, initial=0))]


@moving(Memory.VIEW, like_first, on_host=True, stacks=later_axes("axes"))
def flip(x: Spec, *, axes: tuple[int, ...]) -> Spec:
    """The elements in reverse order along `axes`."""
    shapes.check_axes("flip", axes, len(x.shape))
    return x


flip.vjps(lambda g, y, x, *, axes: flip(g, axes=axes))


@moving(
    Memory.FRESH, whole_axes("padding", (0, 0)), linear=(), stacks=whole_time("padding", (0, 0))
)
def pad(x: Spec, *, padding: tuple[tuple[int, int], ...], value: float) -> Spec:
    """The operand inside a border of constant `value`: (before, after) elements per axis, none
    negative.
    """
    if len(padding) != len(x.shape):
        raise ValueError(f"pad: {len(padding)} pairs for a tensor with {len(x.shape)} axes")
    for pair in padding:
        if pair[0] < 0 or pair[1] < 0:
            raise ValueError(f"pad: padding must not be negative, got {pair}")
    sizes = [n if n is None else n + a + b for n, (a, b) in zip(x.shape, padding, strict=True)]
    return Spec(tuple(sizes), x.dtype)


@pad.vjp
def _(
    g: Tensor, y: Tensor, x: Tensor, *, padding: tuple[tuple[int, int], ...], value: float
) -> Tensor:
    inner = tuple((before or None, -after if after else None, 1) for before, after in padding)
    return slice(g, slices=inner)


def shifted(x: Tensor, *, axis: int, by: int, fill: float) -> Tensor:
    """The elements moved on by so many places along an axis, or back; `fill` comes in behind."""
    ends = (max(by, 0), max(-by, 0))
    padding = tuple([ends if i == axis else (0, 0) for i in range(x.ndim)])
    wide = pad(x, padding=padding, value=fill)
    return part(wide, axis, None, -by) if by > 0 else part(wide, axis, -by)


def _gathered_axis(node: Tensor, axis: int) -> Sequence[Axis]:
    x, indices = node.inputs
    first = node.params["axis"]
    if axis < first:
        return [(x, axis)]
    if axis < first + indices.ndim:
        return [(indices, axis - first)]
    return [(x, axis - indices.ndim + 1)]


def _stacked_rows(node: Tensor, operands: Sequence[Stacked]) -> Tensor | None:
    """The trait `stacks`: the indices of all steps pick rows of one table."""
    table, indices = operands
    if table.stacked or node.params["axis"]:
        return None
    return gather(table.tensor, indices.tensor, axis=0)


@moving(Memory.FRESH, _gathered_axis, on_host=True, stacks=_stacked_rows)
def gather(x: Spec, indices: Spec, *, axis: int) -> Spec:
    """The slices of `x` along `axis` that `indices` name. Negative indices count from the end. The
    axes of `indices` take the place of that axis.
    """
    check_dtype("gather", "indices", indices.dtype, INTEGER)
    shapes.check_axes("gather", (axis,), len(x.shape))
    return Spec(x.shape[:axis] + indices.shape + x.shape[axis + 1 :], x.dtype)


@primitive(host=2, memory=Memory.FRESH, linear=(0,), axes=given)
def scatter_add(g: Spec, indices: Spec, *dims: Spec, shape: Sizes, axis: int) -> Spec:
    """The gradient of `gather`: zeros of `shape`, to which the slices of `g` are added at `indices`
    along `axis`. Slices at repeated indices add up.
    """
    check_dtype("scatter_add", "indices", indices.dtype, INTEGER)
    check_sizes("scatter_add", shape, dims)
    shapes.check_axes("scatter_add", (axis,), len(shape))
    check_fit("scatter_add", "g", g, shape[:axis] + indices.shape + shape[axis + 1 :])
    return Spec(shape, g.dtype)


gather.vjps(lambda g, y, x, indices, *, axis: shaped_as(scatter_add, x, g, indices, axis=axis))
scatter_add.vjps(lambda c, y, g, indices, *dims, shape, axis: gather(c, indices, axis=axis))


def _check_starts(name: str, starts: Spec, rank: int) -> None:
    if (
        not is_integer(starts.dtype)
        or len(starts.shape) != 1
        or starts.shape[0] not in (rank, None)
    ):
        raise ValueError(
            f"{name}: starts must be a vector of {rank} integers, got shape {starts.shape} and "
            f"dtype {starts.dtype}"
        )


@moving(Memory.VIEW, given, host=2)
def dynamic_slice(x: Spec, starts: Spec, *dims: Spec, shape: Sizes) -> Spec:
    """The part of `x` that begins at `starts` and has the sizes `shape`. Starts are clamped so that
    the part lies inside of `x`.
    """
    _check_starts("dynamic_slice", starts, len(x.shape))
    check_sizes("dynamic_slice", shape, dims)
    if len(shape) != len(x.shape):
        raise ValueError(f"dynamic_slice: shape {shape} for a tensor with {len(x.shape)} axes")
    for n, whole in zip(shape, x.shape, strict=True):
        if n is not None and whole is not None and n > whole:
            raise ValueError(f"dynamic_slice: shape {shape} is larger than the tensor's {x.shape}")
    return Spec(shape, x.dtype)


@moving(Memory.FRESH, given, host=2)
def dynamic_slice_grad(g: Spec, starts: Spec, *dims: Spec, shape: Sizes) -> Spec:
    """The gradient of `dynamic_slice`: zeros of `shape`, with `g` at `starts`."""
    _check_starts("dynamic_slice_grad", starts, len(shape))
    check_sizes("dynamic_slice_grad", shape, dims)
    if len(shape) != len(g.shape):
        raise ValueError(f"dynamic_slice_grad: shape {shape} for a g with {len(g.shape)} axes")
    return Spec(shape, g.dtype)


dynamic_slice.vjps(
    lambda g, y, x, starts, *dims, shape: shaped_as(dynamic_slice_grad, x, g, starts)
)
dynamic_slice_grad.vjps(
    lambda c, y, g, starts, *dims, shape: shaped_as(dynamic_slice, g, c, starts)
)


# --- parts whose size is computed -----------------------------------------------------------------


@moving(Memory.VIEW, other_axes, host=1)
def head(x: Spec, length: Spec, *, axis: int) -> Spec:
    """The first `length` elements along `axis`. This size is a result of the computation.

    Engines that compile programs for fixed sizes give all elements instead. So the values of the
    elements after the first `length` ones must mark them as padding.
    """
    shapes.check_axes("head", (axis,), len(x.shape))
    check_sizes("head", (None,), (length,))
    return Spec((*x.shape[:axis], None, *x.shape[axis + 1 :]), x.dtype)


head.vjps(lambda g, y, x, length, *, axis: shaped_as(dynamic_slice_grad, x, g, _origin(x)))


@head.decompose
def _(x: Tensor, length: Tensor, *, axis: int) -> Tensor:
    sizes = [length if i == axis else size_at(x, i) for i in range(x.ndim)]
    return shaped(dynamic_slice, sizes, x, _origin(x))


def _origin(x: Tensor) -> Tensor:
    return constant(np.zeros(x.ndim), "int32")
