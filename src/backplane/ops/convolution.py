"""Convolution in one to three dimensions, and its two gradients, which are primitives themselves.

The three are closed under differentiation: each is linear in its first two operands, and the
gradient of one by either operand is another. Axes are (batch, *spatial, channels); kernels have the
axes (*spatial, channels of x / groups, channels of the result).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod
from typing import Any

from backplane.core.graph import Tensor
from backplane.core.primitive import primitive
from backplane.core.spec import Spec, is_float
from backplane.core.traits import Axis, Memory
from backplane.core.windows import Ints, Padding
from backplane.core.windows import windows as windows_over
from backplane.ops import windows as win
from backplane.ops.creation import check_sizes, dims_of, fill_dims, given
from backplane.ops.elementwise import add, mul
from backplane.ops.indexing import ALL, slice
from backplane.ops.linear import matmul
from backplane.ops.shaping import Sizes, broadcast_to, expand_dims, reshape, stack, sum, transpose
from backplane.ops.windows import Amount, Windows


def _result_shape(
    name: str, x: Sizes, kernel: Sizes, strides: Ints, padding: Padding, dilation: Ints, groups: int
) -> Sizes:
    """The shape of a convolution of shapes `x` and `kernel`; checks what is known."""
    if not 3 <= len(x) <= 5:
        raise ValueError(
            f"{name}: x must have 3 to 5 axes (batch, 1 to 3 spatial, channels), got {x}"
        )
    if len(kernel) != len(x):
        raise ValueError(f"{name}: kernel must have {len(x)} axes as x has, got shape {kernel}")
    if None in kernel:
        raise ValueError(f"{name}: all sizes of kernel must be known, got shape {kernel}")
    *window, per_group, filters = kernel
    if groups < 1 or filters % groups:  # type: ignore[operator]
        raise ValueError(f"{name}: groups must divide the {filters} output channels, got {groups}")
    channels = per_group * groups  # type: ignore[operator]
    if x[-1] not in (channels, None):
        raise ValueError(
            f"{name}: x has {x[-1]} channels, but the kernel {kernel} is for {channels}"
        )
    windows = win.windows_of(name, tuple(window), strides, dilation, padding)  # type: ignore[arg-type]
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


@primitive(memory=Memory.FRESH, linear=(0, 1), axes=batch_of_first)
def conv(
    x: Spec, kernel: Spec, *, strides: Ints, padding: Padding, dilation: Ints, groups: int
) -> Spec:
    """Cross-correlation of `x` with `kernel`.

    Each element of the result is the sum of the products of a window of `x` with the kernel, which
    is not flipped.
    """
    _check_dtypes("conv", x=x, kernel=kernel)
    shape = _result_shape("conv", x.shape, kernel.shape, strides, padding, dilation, groups)
    return Spec(shape, x.dtype)


@primitive(memory=Memory.FRESH, axes=batch_of_first)
def conv_bias(
    x: Spec,
    kernel: Spec,
    bias: Spec,
    *,
    strides: Ints,
    padding: Padding,
    dilation: Ints,
    groups: int,
) -> Spec:
    """`conv` plus a vector with an element per channel: `compile.passes` makes it of the two."""
    _check_dtypes("conv_bias", x=x, kernel=kernel)
    shape = _result_shape("conv_bias", x.shape, kernel.shape, strides, padding, dilation, groups)
    return Spec(shape, x.dtype)


@conv_bias.decompose
def _(x: Tensor, kernel: Tensor, bias: Tensor, **window: Any) -> Tensor:
    return add(conv(x, kernel, **window), bias)


@primitive(host=2, memory=Memory.FRESH, linear=(0, 1), axes=given)
def conv_input_grad(
    g: Spec,
    kernel: Spec,
    *dims: Spec,
    shape: Sizes,
    strides: Ints,
    padding: Padding,
    dilation: Ints,
    groups: int,
) -> Spec:
    """The gradient of `conv` by its `x`, which has `shape`: the transposed convolution of `g`."""
    name = "conv_input_grad"
    _check_dtypes(name, g=g, kernel=kernel)
    check_sizes(name, shape, dims)
    wanted = _result_shape(name, shape, kernel.shape, strides, padding, dilation, groups)
    win.check_output(name, "g", g, wanted)
    return Spec(shape, g.dtype)


@primitive(memory=Memory.FRESH, linear=(0, 1))
def conv_kernel_grad(
    x: Spec,
    g: Spec,
    *,
    kernel_shape: Ints,
    strides: Ints,
    padding: Padding,
    dilation: Ints,
    groups: int,
) -> Spec:
    """The gradient of `conv` by its kernel, which has `kernel_shape`."""
    name = "conv_kernel_grad"
    _check_dtypes(name, x=x, g=g)
    wanted = _result_shape(name, x.shape, kernel_shape, strides, padding, dilation, groups)
    win.check_output(name, "g", g, wanted)
    return Spec(kernel_shape, x.dtype)


# --- gradients ------------------------------------------------------------------------------------


def _by_input(g: Tensor, kernel: Tensor, x: Tensor, params: dict[str, Any]) -> Tensor:
    dims, shape = dims_of(x)
    return conv_input_grad(g, kernel, *dims, shape=shape, **params)


def _by_kernel(x: Tensor, g: Tensor, kernel: Tensor, params: dict[str, Any]) -> Tensor:
    return conv_kernel_grad(x, g, kernel_shape=kernel.spec.shape, **params)


conv.vjps(
    lambda g, y, x, kernel, **params: _by_input(g, kernel, x, params),
    lambda g, y, x, kernel, **params: _by_kernel(x, g, kernel, params),
)
conv_input_grad.vjps(
    lambda c, y, g, kernel, *dims, shape, **params: conv(c, kernel, **params),
    lambda c, y, g, kernel, *dims, shape, **params: _by_kernel(c, g, kernel, params),
)
conv_kernel_grad.vjps(
    lambda c, y, x, g, *, kernel_shape, **params: _by_input(g, c, x, params),
    lambda c, y, x, g, *, kernel_shape, **params: conv(x, c, **params),
)


# --- decompositions: windows side by side, one matrix product -------------------------------------


def _is_depthwise(kernel: Sizes, groups: int) -> bool:
    return groups > 1 and kernel[-2] == 1


def _with_channels(x: Tensor, channels: int) -> Tensor:
    """`x` with a static number of channels."""
    shape = (*x.spec.shape[:-1], channels)
    return x if x.spec.shape == shape else reshape(x, *fill_dims(x, shape)[0], shape=shape)


def _padded(x: Tensor, windows: Windows, channels: int) -> Tensor:
    return win.pad_ends(_with_channels(x, channels), win.pairs_of(win.spatial_sizes(x), windows), 0)


def _rows(x: Tensor, size: int, groups: int) -> Tensor:
    """(batch, *spatial, size × channels) as a matrix (rows, size × channels).

    With several groups it is a stack of matrices (groups, rows, size × channels / groups).
    """
    width = x.spec.shape[-1]
    assert width is not None
    if groups == 1:
        return reshape(x, shape=(-1, width))
    split = reshape(x, shape=(-1, size, groups, width // size // groups))
    split = transpose(split, perm=(2, 0, 1, 3))
    return reshape(split, shape=(groups, -1, width // groups))


def _unrows(rows: Tensor, like: Tensor, size: int, groups: int) -> Tensor:
    """`_rows` undone: the batch and spatial sizes are those of `like`."""
    width = rows.spec.shape[-1]
    assert width is not None
    if groups > 1:
        split = reshape(rows, shape=(groups, -1, size, width // size))
        rows = transpose(split, perm=(1, 2, 0, 3))
    dims, shape = fill_dims(like, (*like.spec.shape[:-1], width * groups))
    return reshape(rows, *dims, shape=shape)


def _kernel_matrix(kernel: Tensor, groups: int) -> Tensor:
    """(window × channels of x, filters), per group: (groups, …, …)."""
    filters = kernel.spec.shape[-1]
    assert filters is not None
    if groups == 1:
        return reshape(kernel, shape=(-1, filters))
    split = reshape(kernel, shape=(-1, groups, filters // groups))
    return transpose(split, perm=(1, 0, 2))


@conv.decompose
def _(
    x: Tensor, kernel: Tensor, *, strides: Ints, padding: Padding, dilation: Ints, groups: int
) -> Tensor:
    *_, per_group, filters = kernel.spec.shape
    windows = windows_over(kernel.spec.shape[:-2], strides, padding, dilation)  # type: ignore[arg-type]
    x = _padded(x, windows, per_group * groups)  # type: ignore[operator]
    if _is_depthwise(kernel.spec.shape, groups):
        return _depthwise(x, kernel, windows, filters // groups)  # type: ignore[operator]
    laid = win.patches(x, windows)
    columns = _rows(laid, prod(w.size for w in windows), groups)
    y = matmul(columns, _kernel_matrix(kernel, groups), transpose_x=False, transpose_y=False)
    return _unrows(y, laid, 1, groups)


@conv_kernel_grad.decompose
def _(
    x: Tensor,
    g: Tensor,
    *,
    kernel_shape: Ints,
    strides: Ints,
    padding: Padding,
    dilation: Ints,
    groups: int,
) -> Tensor:
    *_, per_group, filters = kernel_shape
    windows = windows_over(kernel_shape[:-2], strides, padding, dilation)
    x = _padded(x, windows, per_group * groups)
    if _is_depthwise(kernel_shape, groups):
        return _depthwise_by_kernel(x, g, windows, kernel_shape, filters // groups)
    columns = _rows(win.patches(x, windows), prod(w.size for w in windows), groups)
    rows = _rows(_with_channels(g, filters), 1, groups)
    found = matmul(columns, rows, transpose_x=True, transpose_y=False)
    if groups > 1:
        found = transpose(found, perm=(1, 0, 2))
    return reshape(found, shape=kernel_shape)


@conv_input_grad.decompose
def _(
    g: Tensor,
    kernel: Tensor,
    *dims: Tensor,
    shape: Sizes,
    strides: Ints,
    padding: Padding,
    dilation: Ints,
    groups: int,
) -> Tensor:
    *_, per_group, filters = kernel.spec.shape
    windows = windows_over(kernel.spec.shape[:-2], strides, padding, dilation)  # type: ignore[arg-type]
    sizes = win.amounts(shape, dims)[1:-1]
    pairs = win.pairs_of(sizes, windows)
    padded = win.padded_sizes(sizes, pairs)
    g = _with_channels(g, filters)  # type: ignore[arg-type]
    if _is_depthwise(kernel.spec.shape, groups):
        multiplier = filters // groups  # type: ignore[operator]
        whole = _depthwise_by_input(g, kernel, windows, padded, multiplier)
    else:
        matrix = _kernel_matrix(kernel, groups)
        laid = matmul(_rows(g, 1, groups), matrix, transpose_x=False, transpose_y=True)
        laid = _unrows(laid, g, prod(w.size for w in windows), groups)
        whole = win.fold(laid, windows, padded, per_group * groups)  # type: ignore[operator]
    return win.crop_ends(whole, pairs, dims, shape)


# --- decompositions: each channel by itself -------------------------------------------------------


def _depthwise(x: Tensor, kernel: Tensor, windows: Windows, multiplier: int) -> Tensor:
    """`conv` of a padded `x` with a group for each of its channels.

    With one channel per group a matrix product has next to nothing to multiply. Here the elements
    at one offset in every window are multiplied by a vector of weights, and the products are added
    up: on NumPy in a fifth of the time.
    """
    x = _repeated(x, multiplier)
    weights = zip(win.offsets(windows), _weights(kernel), strict=True)
    return reduce(add, [mul(win.read(x, *win.places(windows, at)), w) for at, w in weights])


def _depthwise_by_kernel(
    x: Tensor, g: Tensor, windows: Windows, kernel_shape: Ints, multiplier: int
) -> Tensor:
    """The gradient of `_depthwise` by the kernel."""
    x = _repeated(x, multiplier)
    axes = tuple(range(x.ndim - 1))
    products = [mul(win.read(x, *win.places(windows, at)), g) for at in win.offsets(windows)]
    totals = [sum(product, axes=axes, keepdims=False) for product in products]
    return reshape(stack(totals, 0), shape=kernel_shape)


def _depthwise_by_input(
    g: Tensor, kernel: Tensor, windows: Windows, sizes: Sequence[Amount], multiplier: int
) -> Tensor:
    """The gradient of `_depthwise` by the padded `x`, which has the spatial sizes `sizes`."""
    weights = zip(win.offsets(windows), _weights(kernel), strict=True)
    parts = [win.write(mul(g, w), sizes, *win.places(windows, at)) for at, w in weights]
    return _added(reduce(add, parts), multiplier)


def _weights(kernel: Tensor) -> list[Tensor]:
    """One vector for each element of a window, as a matrix of one row."""
    *window, _, filters = kernel.spec.shape
    count = prod(n for n in window if n is not None)
    rows = reshape(kernel, shape=(count, filters))
    return [slice(rows, slices=((i, i + 1, 1), ALL)) for i in range(count)]


def _repeated(x: Tensor, multiplier: int) -> Tensor:
    """Each channel `multiplier` times in a row."""
    if multiplier == 1:
        return x
    *outer, channels = x.spec.shape
    assert channels is not None
    dims, _ = fill_dims(x, outer)
    wide = expand_dims(x, axes=(x.ndim,))
    wide = broadcast_to(wide, *dims, shape=(*outer, channels, multiplier))
    return reshape(wide, *dims, shape=(*outer, channels * multiplier))


def _added(x: Tensor, multiplier: int) -> Tensor:
    """`_repeated` transposed: each `multiplier` channels in a row added up."""
    if multiplier == 1:
        return x
    *outer, filters = x.spec.shape
    assert filters is not None
    dims, _ = fill_dims(x, outer)
    split = reshape(x, *dims, shape=(*outer, filters // multiplier, multiplier))
    return sum(split, axes=(x.ndim,), keepdims=False)
