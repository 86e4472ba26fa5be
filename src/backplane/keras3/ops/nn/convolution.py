"""Convolutions of Keras 3, over one to three spatial axes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from backplane.backend import _spatial_arguments as spatial
from backplane.backend._convolution_nd import Convolution
from backplane.core.graph import Tensor
from backplane.core.spec import is_float
from backplane.keras3.call import op
from backplane.keras3.operands import alike
from backplane.keras3.settings import data_format_of
from backplane.ops.convolution import conv_input_grad
from backplane.ops.creation import Amount, shaped, size_at
from backplane.ops.indexing import pad
from backplane.ops.lift import cast_to

Sizes = int | Sequence[int]


def _convolution(
    x: Tensor, strides: Sizes, padding: str, data_format: str | None, dilation_rate: Sizes
) -> Convolution:
    return Convolution(
        x.ndim - 2, strides, padding.lower(), data_format_of(data_format), dilation_rate
    )


def _groups(x: Tensor, kernel: Tensor, channels_first: bool) -> int:
    """The number of groups that the channels of `x` make for a kernel that sees only some of them.

    Raises:
        ValueError: if the channels of the kernel do not divide those of `x`.
    """
    channels, seen = x.spec.shape[1 if channels_first else -1], kernel.spec.shape[-2]
    if channels is None or not seen:
        return 1
    if channels % seen:
        raise ValueError(
            f"The number of input channels must be evenly divisible by kernel's in_channels. "
            f"Received input channels {channels} and kernel in_channels {seen}."
        )
    return channels // seen


def _of_integers(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A convolution of floats, for integers and bools too: these are convolved in float64, whose
    sums of integers are exact, and their result has their dtype.
    """

    @functools.wraps(function)
    def convolved(inputs: Any, kernel: Any, *args: Any, **kwargs: Any) -> Tensor:
        x, kernel = alike(inputs, kernel)
        dtype = x.spec.dtype
        if is_float(dtype):
            return function(x, kernel, *args, **kwargs)
        found = function(cast_to(x, "float64"), cast_to(kernel, "float64"), *args, **kwargs)
        return cast_to(found if dtype == "bool" else cast_to(found, "int64"), dtype)

    return convolved


@op
@_of_integers
def conv(
    inputs: Any,
    kernel: Any,
    strides: Sizes = 1,
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Sizes = 1,
) -> Tensor:
    """The cross-correlation with a kernel (*window, channels / groups, filters)."""
    made = _convolution(inputs, strides, padding, data_format, dilation_rate)
    return made.dense(inputs, kernel, _groups(inputs, kernel, made.channels_first))


@op
@_of_integers
def depthwise_conv(
    inputs: Any,
    kernel: Any,
    strides: Sizes = 1,
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Sizes = 1,
) -> Tensor:
    """The cross-correlation of each channel with kernels of its own (*window, channels,
    multiplier).
    """
    made = _convolution(inputs, strides, padding, data_format, dilation_rate)
    return made.depthwise(inputs, kernel)


@op
def separable_conv(
    inputs: Any,
    depthwise_kernel: Any,
    pointwise_kernel: Any,
    strides: Sizes = 1,
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Sizes = 1,
) -> Tensor:
    """`depthwise_conv`, then a mixture of the channels at each place."""
    x, depthwise, pointwise = alike(inputs, depthwise_kernel, pointwise_kernel)
    if not is_float(x.spec.dtype):
        x = depthwise_conv(x, depthwise, strides, padding, data_format, dilation_rate)
        return conv(x, pointwise, 1, "valid", data_format)
    made = _convolution(x, strides, padding, data_format, dilation_rate)
    return made.separable(x, depthwise, pointwise)


@op
@_of_integers
def conv_transpose(
    inputs: Any,
    kernel: Any,
    strides: Sizes = 1,
    padding: str = "valid",
    output_padding: Sizes | None = None,
    data_format: str | None = None,
    dilation_rate: Sizes = 1,
) -> Tensor:
    """The gradient of a convolution by its input, as a function of its own, with a kernel
    (*window, filters, channels).

    `output_padding` is what the result has beyond the smallest size along each spatial axis. None
    stands for the size that Keras' layers choose.
    """
    from keras.src.backend.common import backend_utils

    x = inputs
    made = _convolution(x, strides, padding, data_format, dilation_rate)
    layout = "channels_first" if made.channels_first else "channels_last"
    if check := getattr(backend_utils, "check_conv_transpose_input_channels", None):
        check(x, kernel, layout)  # Keras before 3.15 has none.
    around = backend_utils.compute_conv_transpose_padding_args_for_jax(
        x.spec.shape, kernel.spec.shape, made.strides, padding, output_padding, made.dilation
    )
    y = _transposed(spatial.to_last(x, made.channels_first), kernel, made, around)
    return spatial.from_last(y, made.channels_first)


def _transposed(
    x: Tensor, kernel: Tensor, made: Convolution, around: Sequence[tuple[int, int]]
) -> Tensor:
    """The transposed convolution of `x`, channels last, whose elements are `strides` apart and have
    `around` zeros before the first and after the last one.

    In terms of the convolution whose gradient this is, that is a padding of `span − 1 − around`. If
    that is negative, the window never reaches the elements, which are 0.
    """
    *window, filters, _ = [n or 0 for n in kernel.spec.shape]
    spans = [(k - 1) * rate + 1 for k, rate in zip(window, made.dilation, strict=True)]
    ends = [(span - 1 - a, span - 1 - b) for span, (a, b) in zip(spans, around, strict=True)]
    padding = tuple((max(a, 0), max(b, 0)) for a, b in ends)
    beyond = [(max(-a, 0), max(-b, 0)) for a, b in ends]
    sizes: list[Amount] = [size_at(x, 0)]
    for axis, (span, stride, pair) in enumerate(zip(spans, made.strides, padding, strict=True), 1):
        sizes.append((size_at(x, axis) - 1) * stride + (span - sum(pair)))
    empty = [isinstance(n, int) and n < 1 for n in sizes[1:]]
    if any(empty):
        raise ValueError(
            f"conv_transpose: the result would have no elements along spatial axis "
            f"{empty.index(True)}: the input has the shape {x.spec.shape}, the window spans {spans}"
        )
    y = shaped(
        conv_input_grad, [*sizes, filters], x, kernel, groups=1, padding=padding, **made.steps
    )
    if any(map(any, beyond)):
        y = pad(y, padding=((0, 0), *beyond, (0, 0)), value=0)
    return y
