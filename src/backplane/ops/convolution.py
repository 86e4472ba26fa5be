"""Convolution in one to three dimensions, and its two gradients, which are primitives themselves.

The three are closed under differentiation: each is linear in its first two operands, and its
gradient with respect to either of them is one of the other two. Axes are (batch, *spatial,
channels). Kernels have the axes (*spatial, channels of x / groups, channels of the result).
"""

from __future__ import annotations

from functools import reduce
from math import prod
from typing import Unpack

from backplane.core.graph import Tensor
from backplane.core.primitive import primitive
from backplane.core.spec import Spec, is_float
from backplane.core.traits import Axis, Memory, Precision
from backplane.core.windows import Convolving, Ints, Sliding
from backplane.ops import windows as win
from backplane.ops.axes import repeated
from backplane.ops.creation import check_sizes, filled, full, given, shaped, shaped_as, sizes_of
from backplane.ops.elementwise import add, mul
from backplane.ops.indexing import check_fit, part
from backplane.ops.linear import times
from backplane.ops.shaping import Sizes, reshape, stack, sum, transpose
from backplane.ops.windows import Layout


def _result_shape(
    name: str, x: Sizes, kernel: Sizes, groups: int, **window: Unpack[Sliding]
) -> Sizes:
    """The shape of a convolution of these shapes, whose known sizes are checked."""
    win.check_rank(name, x)
    if len(kernel) != len(x):
        raise ValueError(f"{name}: kernel must have {len(x)} axes as x has, got shape {kernel}")
    if None in kernel:
        raise ValueError(f"{name}: all sizes of kernel must be known, got shape {kernel}")
    *size, per_group, filters = kernel
    if groups < 1 or filters % groups:  # type: ignore[operator]
        raise ValueError(f"{name}: groups must divide the {filters} output channels, got {groups}")
    channels = per_group * groups  # type: ignore[operator]
    if x[-1] not in (channels, None):
        raise ValueError(
            f"{name}: x has {x[-1]} channels, but the kernel {kernel} is for {channels}"
        )
    windows = win.windows_of(name, tuple(size), **window)  # type: ignore[arg-type]
    return (x[0], *win.output_sizes(name, x[1:-1], windows), filters)


def _check_dtypes(name: str, **operands: Spec) -> None:
    (a, x), (b, y) = operands.items()
    if not is_float(x.dtype) or x.dtype != y.dtype:
        raise TypeError(
            f"{name}: {a} and {b} must have one float dtype, got {x.dtype} and {y.dtype}"
        )


def batch_of_first(node: Tensor, axis: int) -> list[Axis]:
    """The result has the batch size of the first operand; its other unknown sizes are new."""
    return [(node.inputs[0], 0)] if axis == 0 else []


def _without_channels(x: Tensor, kernel: Tensor, **window: Unpack[Convolving]) -> Tensor | None:
    """The convolution of an `x` without channels, or with a kernel that gives none: that of sums
    over the channels, which are one channel. Libraries refuse the other, or do not return.
    """
    *_, inputs, filters = _known(kernel)
    if inputs and filters:
        return None
    last = x.ndim - 1
    sums = sum(_with_channels(x, inputs * window["groups"]), axes=(last,), keepdims=True)
    axes = (last - 1,) if filters else (last - 1, last)
    y = conv(sums, sum(kernel, axes=axes, keepdims=True), **{**window, "groups": 1})
    return y if filters else part(y, last, 0, 0)


def _no_gradient_by_x(
    g: Tensor, kernel: Tensor, *dims: Tensor, shape: Sizes, **window: object
) -> Tensor | None:
    """Zeros, in the same cases. Sums of no elements lead gradients back to the operands."""
    if 0 not in kernel.spec.shape[-2:]:
        return None
    sums = [sum(t, axes=tuple(range(t.ndim)), keepdims=False) for t in (g, kernel)]
    return add(full(*dims, shape=shape, value=0, dtype=g.spec.dtype), add(*sums))


@primitive(
    precision=Precision.LOW, memory=Memory.FRESH, linear=(0, 1), axes=batch_of_first,
    shortcut=_without_channels,
)  # fmt: skip
def conv(x: Spec, kernel: Spec, **window: Unpack[Convolving]) -> Spec:
    """Cross-correlation of `x` with `kernel`.

    Each element of the result is the sum of the products of a window of `x` with the kernel, which
    is not flipped.
    """
    _check_dtypes("conv", x=x, kernel=kernel)
    return Spec(_result_shape("conv", x.shape, kernel.shape, **window), x.dtype)


@primitive(memory=Memory.FRESH, axes=batch_of_first)
def conv_bias(x: Spec, kernel: Spec, bias: Spec, **window: Unpack[Convolving]) -> Spec:
    """`conv` plus a vector with one element per channel. `compile.passes` puts it in the place of
    both.
    """
    _check_dtypes("conv_bias", x=x, kernel=kernel)
    return Spec(_result_shape("conv_bias", x.shape, kernel.shape, **window), x.dtype)


conv_bias.decompose(lambda x, kernel, bias, **window: add(conv(x, kernel, **window), bias))


@primitive(
    host=2, precision=Precision.LOW, memory=Memory.FRESH, linear=(0, 1), axes=given,
    shortcut=_no_gradient_by_x,
)  # fmt: skip
def conv_input_grad(
    g: Spec, kernel: Spec, *dims: Spec, shape: Sizes, **window: Unpack[Convolving]
) -> Spec:
    """The gradient of `conv` with respect to `x`, which has `shape`: the transposed convolution of
    `g`.
    """
    name = "conv_input_grad"
    _check_dtypes(name, g=g, kernel=kernel)
    check_sizes(name, shape, dims)
    check_fit(name, "g", g, _result_shape(name, shape, kernel.shape, **window))
    return Spec(shape, g.dtype)


@primitive(precision=Precision.LOW, memory=Memory.FRESH, linear=(0, 1))
def conv_kernel_grad(x: Spec, g: Spec, *, kernel_shape: Ints, **window: Unpack[Convolving]) -> Spec:
    """The gradient of `conv` with respect to its kernel, which has `kernel_shape`."""
    name = "conv_kernel_grad"
    _check_dtypes(name, x=x, g=g)
    check_fit(name, "g", g, _result_shape(name, x.shape, kernel_shape, **window))
    return Spec(kernel_shape, x.dtype)


# --- gradients ------------------------------------------------------------------------------------


def _by_kernel(x: Tensor, g: Tensor, kernel: Tensor, **window: object) -> Tensor:
    return conv_kernel_grad(x, g, kernel_shape=kernel.spec.shape, **window)


conv.vjps(
    lambda g, y, x, kernel, **window: shaped_as(conv_input_grad, x, g, kernel, **window),
    lambda g, y, x, kernel, **window: _by_kernel(x, g, kernel, **window),
)
conv_input_grad.vjps(
    lambda c, y, g, kernel, *dims, shape, **window: conv(c, kernel, **window),
    lambda c, y, g, kernel, *dims, shape, **window: _by_kernel(c, g, kernel, **window),
)
conv_kernel_grad.vjps(
    lambda c, y, x, g, *, kernel_shape, **window: shaped_as(conv_input_grad, x, g, c, **window),
    lambda c, y, x, g, *, kernel_shape, **window: conv(x, c, **window),
)


# --- decompositions: windows side by side, one matrix product -------------------------------------


def _with_channels(x: Tensor, channels: int) -> Tensor:
    """`x` with a static number of channels."""
    if x.spec.shape[-1] == channels:
        return x
    return shaped(reshape, [*sizes_of(x)[:-1], channels], x)


def _rows(x: Tensor, size: int, groups: int) -> Tensor:
    """A tensor (batch, *spatial, size × channels) as a matrix (rows, size × channels).

    With several groups the result is a stack of matrices (groups, rows, size × channels / groups).
    """
    width = x.spec.shape[-1]
    assert width is not None
    if groups == 1:
        return reshape(x, shape=(-1, width))
    split = reshape(x, shape=(-1, size, groups, width // size // groups))
    split = transpose(split, perm=(2, 0, 1, 3))
    return reshape(split, shape=(groups, -1, width // groups))


def _unrows(rows: Tensor, like: Tensor, size: int, groups: int) -> Tensor:
    """The inverse of `_rows`. The result has the batch size and the spatial sizes of `like`."""
    width = rows.spec.shape[-1]
    assert width is not None
    if groups > 1:
        split = reshape(rows, shape=(groups, -1, size, width // size))
        rows = transpose(split, perm=(1, 2, 0, 3))
    return shaped(reshape, [*sizes_of(like)[:-1], width * groups], rows)


def _kernel_matrix(kernel: Tensor, groups: int) -> Tensor:
    """The kernel as (window × channels of x, filters), with the groups, if any, in front."""
    filters = kernel.spec.shape[-1]
    assert filters is not None
    if groups == 1:
        return reshape(kernel, shape=(-1, filters))
    split = reshape(kernel, shape=(-1, groups, filters // groups))
    return transpose(split, perm=(1, 0, 2))


def _known(kernel: Tensor) -> list[int]:
    """The shape of a kernel, which is known."""
    return [n for n in kernel.spec.shape if n is not None]


@conv.decompose
def _(x: Tensor, kernel: Tensor, *, groups: int, **window: Unpack[Sliding]) -> Tensor:
    *size, per_group, filters = _known(kernel)
    laid = win.layout(win.spatial_sizes(x), size, **window)
    x = laid.pad(_with_channels(x, per_group * groups), 0)
    if groups > 1 and per_group == 1:
        return _depthwise(x, kernel, laid, filters // groups)
    patches = win.patches(x, laid.windows)
    columns = _rows(patches, laid.elements, groups)
    y = times(columns, _kernel_matrix(kernel, groups))
    return _unrows(y, patches, 1, groups)


@conv_kernel_grad.decompose
def _(
    x: Tensor, g: Tensor, *, kernel_shape: Ints, groups: int, **window: Unpack[Sliding]
) -> Tensor:
    *size, per_group, filters = kernel_shape
    laid = win.layout(win.spatial_sizes(x), size, **window)
    x = laid.pad(_with_channels(x, per_group * groups), 0)
    if groups > 1 and per_group == 1:
        return reshape(_depthwise_by_kernel(x, g, laid, filters // groups), shape=kernel_shape)
    columns = _rows(win.patches(x, laid.windows), laid.elements, groups)
    rows = _rows(_with_channels(g, filters), 1, groups)
    product = times(columns, rows, tx=True)
    if groups > 1:
        product = transpose(product, perm=(1, 0, 2))
    return reshape(product, shape=kernel_shape)


@conv_input_grad.decompose
def _(
    g: Tensor,
    kernel: Tensor,
    *dims: Tensor,
    shape: Sizes,
    groups: int,
    **window: Unpack[Sliding],
) -> Tensor:
    *size, per_group, filters = _known(kernel)
    sizes = filled(shape, dims)
    laid = win.layout(sizes[1:-1], size, **window)
    g = _with_channels(g, filters)
    if groups > 1 and per_group == 1:
        whole = _depthwise_by_input(g, kernel, laid, filters // groups)
    else:
        matrix = _kernel_matrix(kernel, groups)
        rows = times(_rows(g, 1, groups), matrix, ty=True)
        whole = win.fold(_unrows(rows, g, laid.elements, groups), laid, per_group * groups)
    return laid.crop(whole, sizes)


# --- decompositions: each channel by itself -------------------------------------------------------


def _depthwise(x: Tensor, kernel: Tensor, laid: Layout, multiplier: int) -> Tensor:
    """`conv` of a padded `x` with one group for each of its channels.

    With one channel per group, a matrix product has next to nothing to multiply. Here the elements
    at one offset in every window are multiplied by a vector of weights, and the products are added
    up. On NumPy that takes a fifth of the time.
    """
    x = _repeated(x, multiplier)
    weights = zip(laid.offsets(), _weights(kernel), strict=True)
    return reduce(add, [mul(laid.read(x, at), w) for at, w in weights])


def _depthwise_by_kernel(x: Tensor, g: Tensor, laid: Layout, multiplier: int) -> Tensor:
    """The gradient of `_depthwise` by the kernel: a row for each element of a window."""
    x = _repeated(x, multiplier)
    axes = tuple(range(x.ndim - 1))
    products = [mul(laid.read(x, at), g) for at in laid.offsets()]
    return stack([sum(product, axes=axes, keepdims=False) for product in products], 0)


def _depthwise_by_input(g: Tensor, kernel: Tensor, laid: Layout, multiplier: int) -> Tensor:
    """The gradient of `_depthwise` with respect to the padded `x`."""
    weights = zip(laid.offsets(), _weights(kernel), strict=True)
    return _added(reduce(add, [laid.write(mul(g, w), at) for at, w in weights]), multiplier)


def _weights(kernel: Tensor) -> list[Tensor]:
    """One vector for each element of a window, each as a matrix of one row."""
    *size, _, filters = _known(kernel)
    rows = reshape(kernel, shape=(prod(size), filters))
    return [part(rows, 0, i, i + 1) for i in range(prod(size))]


def _repeated(x: Tensor, multiplier: int) -> Tensor:
    """Each channel `multiplier` times in a row."""
    return x if multiplier == 1 else repeated(x, {x.ndim - 1: multiplier})


def _added(x: Tensor, multiplier: int) -> Tensor:
    """The transpose of `_repeated`: the sums of each `multiplier` channels in a row."""
    if multiplier == 1:
        return x
    *outer, filters = sizes_of(x)
    split = shaped(reshape, [*outer, filters // multiplier, multiplier], x)
    return sum(split, axes=(x.ndim,), keepdims=False)
