"""Convolution. Kernels have the same order of axes in both data formats."""

from __future__ import annotations

from backplane.backend._call import api
from backplane.backend._convolution_nd import Convolution
from backplane.backend.types import CausalPadding, DataFormat, Padding, Shape, Sizes, TensorLike
from backplane.core.graph import Tensor

__all__ = [
    "conv1d", "conv2d", "conv2d_transpose", "conv3d", "conv3d_transpose", "depthwise_conv2d",
    "separable_conv1d", "separable_conv2d",
]  # fmt: skip


@api
def conv1d(
    x: TensorLike,
    kernel: TensorLike,
    strides: Sizes = 1,
    padding: CausalPadding = "valid",
    data_format: DataFormat | None = None,
    dilation_rate: Sizes = 1,
) -> Tensor:
    """Convolution over one spatial axis. It is a cross-correlation: the kernel is not flipped.

    Args:
        x: Float tensor (batch, steps, channels), or (batch, channels, steps) with channels first.
        kernel: Tensor (window, channels, filters).
        strides: Steps from one window to the next: an int or a tuple of one.
        padding: `"valid"` takes only windows that lie inside of `x`. `"same"` takes ceil(steps /
            strides) windows, with the smaller half of the zeros in front. `"causal"` puts all zeros
            in front, so that no window sees the future.
        data_format: `"channels_last"`, `"channels_first"`, or None for `K.image_data_format()`.
        dilation_rate: Steps from one element of a window to the next: an int or a tuple of one.

    Returns:
        A tensor (batch, windows, filters), or (batch, filters, windows) with channels first.

    Raises:
        ValueError: if `data_format` or `padding` is none of these, if a rank or the channels do not
            fit, or if the window is longer than `x` and `padding` is `"valid"`.
        TypeError: if the dtypes are not floats.

    Source:
        Padding: https://www.tensorflow.org/api_docs/python/tf/nn#notes_on_padding_2

    Example:
        >>> from backplane import backend as K
        >>> x = K.constant([[[1.0], [2.0], [3.0], [4.0]]])
        >>> kernel = K.constant([[[1.0]], [[10.0]]])
        >>> K.eval(K.conv1d(x, kernel))[0, :, 0]
        array([21., 32., 43.], dtype=float32)
        >>> K.eval(K.conv1d(x, kernel, padding="causal"))[0, :, 0]
        array([10., 21., 32., 43.], dtype=float32)
    """
    return Convolution(1, strides, padding, data_format, dilation_rate, "causal").dense(x, kernel)


@api
def conv2d(
    x: TensorLike,
    kernel: TensorLike,
    strides: Sizes = (1, 1),
    padding: Padding = "valid",
    data_format: DataFormat | None = None,
    dilation_rate: Sizes = (1, 1),
) -> Tensor:
    """Convolution over two spatial axes. It is a cross-correlation: the kernel is not flipped.

    Args:
        x: Float tensor (batch, rows, columns, channels), or (batch, channels, rows, columns) with
            channels first.
        kernel: Tensor (window rows, window columns, channels, filters).
        strides: Rows and columns from one window to the next: an int or two.
        padding: `"valid"` or `"same"`; see `K.conv1d`.
        data_format: `"channels_last"`, `"channels_first"`, or None for `K.image_data_format()`.
        dilation_rate: Rows and columns from one element of a window to the next: an int or two.

    Returns:
        A tensor with the layout of `x` and a channel for each filter.

    Raises:
        ValueError: if `data_format` or `padding` is none of these, if a rank or the channels do not
            fit, or if the window is larger than `x` and `padding` is `"valid"`.
        TypeError: if the dtypes are not floats.

    Example:
        >>> from backplane import backend as K
        >>> x = K.reshape(K.arange(9, dtype="float32"), (1, 3, 3, 1))
        >>> kernel = K.reshape(K.constant([1.0, 2.0, 3.0, 4.0]), (2, 2, 1, 1))
        >>> K.eval(K.conv2d(x, kernel))[0, :, :, 0]
        array([[27., 37.],
               [57., 67.]], dtype=float32)
        >>> K.int_shape(
        ...     K.conv2d(
        ...         K.placeholder((None, 3, 10, 11)),
        ...         K.ones((3, 3, 3, 8)),
        ...         strides=(2, 3),
        ...         data_format="channels_first",
        ...     )
        ... )
        (None, 8, 4, 3)
    """
    return Convolution(2, strides, padding, data_format, dilation_rate).dense(x, kernel)


@api
def conv3d(
    x: TensorLike,
    kernel: TensorLike,
    strides: Sizes = (1, 1, 1),
    padding: Padding = "valid",
    data_format: DataFormat | None = None,
    dilation_rate: Sizes = (1, 1, 1),
) -> Tensor:
    """Convolution over three spatial axes. It is a cross-correlation: the kernel is not flipped.

    Args:
        x: Float tensor (batch, depth, rows, columns, channels), or (batch, channels, depth, rows,
            columns) with channels first.
        kernel: Tensor (window depth, window rows, window columns, channels, filters).
        strides: Steps from one window to the next along the three axes: an int or three.
        padding: `"valid"` or `"same"`; see `K.conv1d`.
        data_format: `"channels_last"`, `"channels_first"`, or None for `K.image_data_format()`.
        dilation_rate: Steps from one element of a window to the next: an int or three.

    Returns:
        A tensor with the layout of `x` and a channel for each filter.

    Raises:
        ValueError: if `data_format` or `padding` is none of these, if a rank or the channels do not
            fit, or if the window is larger than `x` and `padding` is `"valid"`.
        TypeError: if the dtypes are not floats.

    Example:
        >>> from backplane import backend as K
        >>> x, kernel = K.placeholder((None, 5, 6, 7, 3)), K.ones((2, 3, 3, 3, 8))
        >>> K.int_shape(K.conv3d(x, kernel, strides=(1, 2, 3)))
        (None, 4, 2, 2, 8)
    """
    return Convolution(3, strides, padding, data_format, dilation_rate).dense(x, kernel)


@api
def conv2d_transpose(
    x: TensorLike,
    kernel: TensorLike,
    output_shape: Shape,
    strides: Sizes = (1, 1),
    padding: Padding = "valid",
    data_format: DataFormat | None = None,
    dilation_rate: Sizes = (1, 1),
) -> Tensor:
    """Transposed convolution over two spatial axes: the gradient of `K.conv2d` with respect to its
    input.

    Args:
        x: Float tensor (batch, rows, columns, channels), or (batch, channels, rows, columns) with
            channels first.
        kernel: Tensor (window rows, window columns, output channels, channels): the kernel of the
            convolution that would lead from the result to `x`.
        output_shape: Shape of the result, in the order of `data_format`: a list or tuple of ints
            and scalar integer tensors, or an integer vector tensor. None or -1 stands for the batch
            size of `x`, for the kernel's channels, or for the size that Keras' layers choose: size
            × stride, and for `"valid"` as much more as the window exceeds the stride.
        strides: Strides of that convolution: an int or two.
        padding: Padding of that convolution: `"valid"` or `"same"`.
        data_format: `"channels_last"`, `"channels_first"`, or None for `K.image_data_format()`.
        dilation_rate: Dilation of that convolution: an int or two.

    Returns:
        A tensor of `output_shape`.

    Raises:
        ValueError: if `data_format` or `padding` is none of these, if a rank or the channels do not
            fit, or if that convolution would not lead from `output_shape` to the shape of `x`.
        TypeError: if the dtypes are not floats.

    Example:
        >>> from backplane import backend as K
        >>> x = K.reshape(K.constant([1.0, 2.0, 3.0, 4.0]), (1, 2, 2, 1))
        >>> kernel = K.reshape(K.constant([1.0, 2.0, 3.0, 4.0]), (2, 2, 1, 1))
        >>> K.eval(K.conv2d_transpose(x, kernel, (1, 3, 3, 1)))[0, :, :, 0]
        array([[ 1.,  4.,  4.],
               [ 6., 20., 16.],
               [ 9., 24., 16.]], dtype=float32)
        >>> K.int_shape(K.conv2d_transpose(x, kernel, (None, None, None, 1), strides=(2, 2)))
        (1, 4, 4, 1)
    """
    return Convolution(2, strides, padding, data_format, dilation_rate).transposed(
        x, kernel, output_shape
    )


@api
def conv3d_transpose(
    x: TensorLike,
    kernel: TensorLike,
    output_shape: Shape,
    strides: Sizes = (1, 1, 1),
    padding: Padding = "valid",
    data_format: DataFormat | None = None,
) -> Tensor:
    """Transposed convolution over three spatial axes: the gradient of `K.conv3d` with respect to
    its input.

    Args:
        x: Float tensor (batch, depth, rows, columns, channels), or (batch, channels, depth, rows,
            columns) with channels first.
        kernel: Tensor (window depth, window rows, window columns, output channels, channels).
        output_shape: Shape of the result, in the order of `data_format`; see `K.conv2d_transpose`.
        strides: Strides of the convolution that would lead back to `x`: an int or three.
        padding: Padding of that convolution: `"valid"` or `"same"`.
        data_format: `"channels_last"`, `"channels_first"`, or None for `K.image_data_format()`.

    Returns:
        A tensor of `output_shape`.

    Raises:
        ValueError: as `K.conv2d_transpose`.
        TypeError: if the dtypes are not floats.

    Example:
        >>> from backplane import backend as K
        >>> x, kernel = K.placeholder((None, 2, 3, 4, 8)), K.ones((3, 3, 3, 5, 8))
        >>> shape = (None, 4, 6, 8, 5)
        >>> K.int_shape(K.conv3d_transpose(x, kernel, shape, strides=(2, 2, 2), padding="same"))
        (None, 4, 6, 8, 5)
    """
    return Convolution(3, strides, padding, data_format, 1).transposed(x, kernel, output_shape)


@api
def separable_conv1d(
    x: TensorLike,
    depthwise_kernel: TensorLike,
    pointwise_kernel: TensorLike,
    strides: Sizes = 1,
    padding: Padding = "valid",
    data_format: DataFormat | None = None,
    dilation_rate: Sizes = 1,
) -> Tensor:
    """Convolution of each channel over one spatial axis, followed by a mixture of the channels.

    Args:
        x: Float tensor (batch, steps, channels), or (batch, channels, steps) with channels first.
        depthwise_kernel: Tensor (window, channels, multiplier).
        pointwise_kernel: Tensor (1, channels * multiplier, filters).
        strides: Strides of the depthwise convolution: an int or a tuple of one.
        padding: Its padding: `"valid"` or `"same"`.
        data_format: `"channels_last"`, `"channels_first"`, or None for `K.image_data_format()`.
        dilation_rate: Its dilation: an int or a tuple of one.

    Returns:
        A tensor with the layout of `x` and a channel for each filter.

    Raises:
        ValueError: if `data_format` or `padding` is none of these, or shapes do not fit.
        TypeError: if the dtypes are not floats.

    Example:
        >>> from backplane import backend as K
        >>> x = K.constant([[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]])
        >>> depthwise = K.reshape(K.arange(1, 9, dtype="float32"), (2, 2, 2))
        >>> pointwise = K.reshape(K.constant([1.0, 2.0, 3.0, 4.0]), (1, 4, 1))
        >>> K.eval(K.separable_conv1d(x, depthwise, pointwise))[0, :, 0]
        array([318., 518.], dtype=float32)
    """
    return Convolution(1, strides, padding, data_format, dilation_rate).separable(
        x, depthwise_kernel, pointwise_kernel
    )


@api
def separable_conv2d(
    x: TensorLike,
    depthwise_kernel: TensorLike,
    pointwise_kernel: TensorLike,
    strides: Sizes = (1, 1),
    padding: Padding = "valid",
    data_format: DataFormat | None = None,
    dilation_rate: Sizes = (1, 1),
) -> Tensor:
    """Convolution of each channel over two spatial axes, followed by a mixture of the channels.

    Args:
        x: Float tensor (batch, rows, columns, channels), or (batch, channels, rows, columns) with
            channels first.
        depthwise_kernel: Tensor (window rows, window columns, channels, multiplier).
        pointwise_kernel: Tensor (1, 1, channels * multiplier, filters).
        strides: Strides of the depthwise convolution: an int or two.
        padding: Its padding: `"valid"` or `"same"`.
        data_format: `"channels_last"`, `"channels_first"`, or None for `K.image_data_format()`.
        dilation_rate: Its dilation: an int or two.

    Returns:
        A tensor with the layout of `x` and a channel for each filter.

    Raises:
        ValueError: if `data_format` or `padding` is none of these, or shapes do not fit.
        TypeError: if the dtypes are not floats.

    Example:
        >>> from backplane import backend as K
        >>> x = K.placeholder((None, 8, 8, 3))
        >>> depthwise, pointwise = K.ones((3, 3, 3, 2)), K.ones((1, 1, 6, 4))
        >>> K.int_shape(K.separable_conv2d(x, depthwise, pointwise, padding="same"))
        (None, 8, 8, 4)
    """
    return Convolution(2, strides, padding, data_format, dilation_rate).separable(
        x, depthwise_kernel, pointwise_kernel
    )


@api
def depthwise_conv2d(
    x: TensorLike,
    depthwise_kernel: TensorLike,
    strides: Sizes = (1, 1),
    padding: Padding = "valid",
    data_format: DataFormat | None = None,
    dilation_rate: Sizes = (1, 1),
) -> Tensor:
    """Convolution of each channel with kernels of its own over two spatial axes.

    Args:
        x: Float tensor (batch, rows, columns, channels), or (batch, channels, rows, columns) with
            channels first.
        depthwise_kernel: Tensor (window rows, window columns, channels, multiplier).
        strides: Rows and columns from one window to the next: an int or two.
        padding: `"valid"` or `"same"`; see `K.conv1d`.
        data_format: `"channels_last"`, `"channels_first"`, or None for `K.image_data_format()`.
        dilation_rate: Rows and columns from one element of a window to the next: an int or two.

    Returns:
        A tensor with the layout of `x` and channels * multiplier channels. The channels made from
        the first channel of `x` come first.

    Raises:
        ValueError: if `data_format` or `padding` is none of these, or shapes do not fit.
        TypeError: if the dtypes are not floats.

    Example:
        >>> from backplane import backend as K
        >>> x = K.constant([[[[1.0, 10.0], [2.0, 20.0]]]])
        >>> K.eval(K.depthwise_conv2d(x, K.constant([[[[1.0, 2.0], [3.0, 4.0]]]])))[0, 0]
        array([[ 1.,  2., 30., 40.],
               [ 2.,  4., 60., 80.]], dtype=float32)
    """
    return Convolution(2, strides, padding, data_format, dilation_rate).depthwise(
        x, depthwise_kernel
    )
