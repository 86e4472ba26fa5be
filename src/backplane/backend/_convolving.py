"""The ways of convolution behind the K functions, for any number of spatial axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from backplane.backend._args import as_int, as_shape
from backplane.backend._spatial import (
    as_padding,
    as_steps,
    build,
    check_rank,
    from_last,
    is_first,
    to_last,
)
from backplane.core.graph import Tensor
from backplane.core.registry import primitive
from backplane.core.shapes import Sizes
from backplane.ops.lift import promoted
from backplane.ops.windows import fitting

__all__ = ["convolve", "convolve_depthwise", "convolve_separably", "convolve_transposed"]

Padding = str | tuple[tuple[int, int], ...]


class _Call:
    """The arguments that all convolutions share, checked and canonical."""

    def __init__(
        self,
        name: str,
        count: int,
        strides: Any,
        padding: Any,
        data_format: Any,
        rate: Any,
        *more: str,
    ) -> None:
        self.name = name
        self.rank = count + 2
        self.first = is_first(name, data_format)
        self.padding: Padding = as_padding(name, padding, *more)
        self.strides = as_steps(name, "strides", strides, count)
        self.dilation = as_steps(name, "dilation_rate", rate, count)

    def kernel(self, what: str, kernel: Tensor) -> tuple[int, ...]:
        """The shape of a kernel, all of which must be known."""
        check_rank(self.name, what, kernel, self.rank)
        if None in kernel.spec.shape:
            raise ValueError(
                f"K.{self.name}: all sizes of {what} must be known, got shape {kernel.spec.shape}"
            )
        return kernel.spec.shape  # type: ignore[return-value]

    def conv(self, x: Tensor, kernel: Tensor, groups: int = 1) -> Tensor:
        """The convolution of `x`, channels last."""
        window: Any = kernel.spec.shape[:-2]
        result: Tensor = build(
            self.name,
            primitive("conv"),
            fitting(x, window, self.dilation, self.padding),
            kernel,
            strides=self.strides,
            padding=self.padding,
            dilation=self.dilation,
            groups=groups,
        )
        return result


def convolve(
    name: str,
    count: int,
    x: Any,
    kernel: Any,
    strides: Any,
    padding: Any,
    data_format: Any,
    rate: Any,
) -> Tensor:
    """Convolution over `count` spatial axes; over one, padding may be causal."""
    call = _Call(name, count, strides, padding, data_format, rate, *["causal"] * (count == 1))
    x, kernel = promoted(x, kernel)
    check_rank(name, "x", x, call.rank)
    size = call.kernel("kernel", kernel)[0]
    if call.padding == "causal":
        if call.first:
            raise ValueError(
                f'K.{name}: padding "causal" needs data_format "channels_last", '
                'got "channels_first"'
            )
        call.padding = ((call.dilation[0] * (size - 1), 0),)
    return from_last(call.conv(to_last(x, call.first), kernel), call.first)


def convolve_depthwise(
    name: str,
    count: int,
    x: Any,
    kernel: Any,
    strides: Any,
    padding: Any,
    data_format: Any,
    rate: Any,
) -> Tensor:
    """Each channel with kernels of its own."""
    call = _Call(name, count, strides, padding, data_format, rate)
    x, kernel = promoted(x, kernel)
    check_rank(name, "x", x, call.rank)
    return from_last(_depthwise(call, to_last(x, call.first), kernel), call.first)


def _depthwise(call: _Call, x: Tensor, kernel: Tensor) -> Tensor:
    """The depthwise kernel (*window, channels, multiplier) as one with a group for each channel."""
    *window, channels, multiplier = call.kernel("depthwise_kernel", kernel)
    if x.spec.shape[-1] not in (channels, None):
        raise ValueError(
            f"K.{call.name}: x has {x.spec.shape[-1]} channels, depthwise_kernel of shape "
            f"{kernel.spec.shape} is for {channels}"
        )
    grouped = primitive("reshape")(kernel, shape=(*window, 1, channels * multiplier))
    return call.conv(x, grouped, groups=channels)


def convolve_separably(
    name: str,
    count: int,
    x: Any,
    depthwise_kernel: Any,
    pointwise_kernel: Any,
    strides: Any,
    padding: Any,
    data_format: Any,
    rate: Any,
) -> Tensor:
    """Each channel with kernels of its own, then a product with a matrix at each place."""
    call = _Call(name, count, strides, padding, data_format, rate)
    x, depthwise, pointwise = promoted(x, depthwise_kernel, pointwise_kernel)
    check_rank(name, "x", x, call.rank)
    *_, channels, multiplier = call.kernel("depthwise_kernel", depthwise)
    shape = call.kernel("pointwise_kernel", pointwise)
    wanted = (*[1] * count, channels * multiplier)
    if shape[:-1] != wanted:
        raise ValueError(
            f"K.{name}: pointwise_kernel must have the shape {(*wanted, 'filters')} for a "
            f"depthwise_kernel of shape {depthwise.spec.shape}, got {shape}"
        )
    y = _depthwise(call, to_last(x, call.first), depthwise)
    call.strides = call.dilation = (1,) * count
    call.padding = "valid"
    return from_last(call.conv(y, pointwise), call.first)


# --- transposed -----------------------------------------------------------------------------------


def convolve_transposed(
    name: str,
    count: int,
    x: Any,
    kernel: Any,
    output_shape: Any,
    strides: Any,
    padding: Any,
    data_format: Any,
    rate: Any,
) -> Tensor:
    """The gradient of a convolution of something of `output_shape`, taken for its own sake."""
    call = _Call(name, count, strides, padding, data_format, rate)
    x, kernel = promoted(x, kernel)
    check_rank(name, "x", x, call.rank)
    x = to_last(x, call.first)
    window = call.kernel("kernel", kernel)
    if x.spec.shape[-1] not in (window[-1], None):
        raise ValueError(
            f"K.{name}: x has {x.spec.shape[-1]} channels, the kernel {window} is for {window[-1]} "
            "(kernels of transposed convolutions end in output channels, input channels)"
        )
    dims, shape = _output_shape(call, x, window, output_shape)
    _check_inverse(call, x, shape, window)
    y = build(
        name,
        primitive("conv_input_grad"),
        x,
        kernel,
        *dims,
        shape=shape,
        strides=call.strides,
        padding=call.padding,
        dilation=call.dilation,
        groups=1,
    )
    return from_last(y, call.first)


def _output_shape(
    call: _Call, x: Tensor, kernel: tuple[int, ...], given: Any
) -> tuple[list[Tensor], Sizes]:
    """`output_shape`, channels last, as `(dims, shape)`.

    The batch size is that of `x`, the channels are the kernel's: what is given for them may agree
    only.
    """
    what = f"K.{call.name}: output_shape"
    sizes = _entries(what, given)
    if len(sizes) != call.rank:
        raise ValueError(f"{what} must have {call.rank} entries, got {given!r}")
    batch, *spatial, channels = [sizes[0], *sizes[2:], sizes[1]] if call.first else sizes
    if isinstance(channels, int) and channels not in (-1, kernel[-2]):
        raise ValueError(f"{what} {given!r} has {channels} channels, the kernel makes {kernel[-2]}")
    known = x.spec.shape[0]
    if isinstance(batch, int) and batch != -1 and known not in (batch, None):
        raise ValueError(f"{what} {given!r} has a batch of {batch}, x has one of {known}")
    if known is None:
        known = batch if isinstance(batch, int) and batch >= 0 else None
    dims = [primitive("dim")(x, axis=0)] if known is None else []
    found = []
    for axis, size in enumerate(spatial):
        n = _default_size(call, x, kernel, axis) if isinstance(size, int) and size == -1 else size
        if isinstance(n, int) and n < 0:
            raise ValueError(f"{what} must not be negative, got {given!r}")
        found.append(n if isinstance(n, int) else None)
        dims += [n] if isinstance(n, Tensor) else []
    return dims, (known, *found, kernel[-2])


def _entries(what: str, given: Any) -> list[int | Tensor]:
    """One int (-1 for None) or scalar tensor per axis."""
    if isinstance(given, np.ndarray):
        given = given.tolist()
    if isinstance(given, list | tuple):
        given = [-1 if n is None else n for n in given]
    dims, sizes = as_shape(given, what)
    unknown = iter(dims)
    return [next(unknown) if n is None else as_int(n, what) for n in sizes]


def _default_size(call: _Call, x: Tensor, kernel: tuple[int, ...], axis: int) -> Any:
    """The size that is made of an axis where none is asked for: as Keras' layers choose it."""
    n = x.spec.shape[axis + 1]
    size = primitive("dim")(x, axis=axis + 1) if n is None else n
    stride = call.strides[axis]
    if call.padding == "same":
        return size * stride
    span = (kernel[axis] - 1) * call.dilation[axis] + 1
    return size * stride + max(span - stride, 0)


def _check_inverse(call: _Call, x: Tensor, shape: Sizes, kernel: tuple[int, ...]) -> None:
    """A convolution of the output must have the spatial sizes of `x`."""
    for axis, (n, m) in enumerate(zip(x.spec.shape[1:-1], shape[1:-1], strict=True)):
        if n is None or m is None:
            continue
        stride = call.strides[axis]
        low, high = (n - 1) * stride + 1, n * stride
        if call.padding == "valid":
            reach = (kernel[axis] - 1) * call.dilation[axis]
            low, high = low + reach, high + reach
        if not low <= m <= high:
            fits = str(low) if low == high else f"{low} to {high}"
            raise ValueError(
                f"K.{call.name}: output_shape asks for {m} elements along spatial axis {axis}; "
                f"from the {n} of x with stride {stride} and padding {call.padding!r} come {fits}"
            )
