"""Pooling, and convolutions that have weights of their own at every place."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from backplane.backend import _spatial_arguments as spatial
from backplane.backend._call import api
from backplane.backend.types import DataFormat, Padding, PoolMode, Sizes, TensorLike
from backplane.core.graph import Tensor
from backplane.core.spec import is_float
from backplane.core.windows import Slice, Window, windows
from backplane.ops.indexing import ALL, slice
from backplane.ops.lift import as_tensor, promoted
from backplane.ops.linear import times
from backplane.ops.pooling import avg_pool, max_pool
from backplane.ops.shaping import reshape, transpose
from backplane.ops.windows import fitting, patches

__all__ = ["local_conv", "local_conv1d", "local_conv2d", "pool2d", "pool3d"]


def pooled(
    count: int,
    x: TensorLike,
    pool_size: Sizes,
    strides: Sizes,
    padding: str,
    data_format: str | None,
    pool_mode: str,
) -> Tensor:
    """Pooling over `count` spatial axes."""
    first = spatial.is_first(data_format)
    padding = spatial.as_padding(padding)
    if pool_mode not in ("max", "avg"):
        raise ValueError(f'pool_mode must be "max" or "avg", got {pool_mode!r}')
    x = as_tensor(x)
    spatial.check_rank("x", x, count + 2)
    pool = spatial.as_steps("pool_size", pool_size, count)
    steps = spatial.as_steps("strides", strides, count)
    x = fitting(spatial.to_last(x, first), pool, (1,) * count, padding)
    if pool_mode == "max":
        y, _ = max_pool(x, pool=pool, strides=steps, padding=padding)
    else:
        y = avg_pool(x, pool=pool, strides=steps, padding=padding)
    return spatial.from_last(y, first)


@api
def pool2d(
    x: TensorLike,
    pool_size: Sizes,
    strides: Sizes = (1, 1),
    padding: Padding = "valid",
    data_format: DataFormat | None = None,
    pool_mode: PoolMode = "max",
) -> Tensor:
    """The maximum or the mean of each window of images.

    Args:
        x: Tensor (batch, rows, columns, channels), or (batch, channels, rows, columns) with
            channels first. Float for `"avg"`.
        pool_size: Rows and columns of a window: an int or two.
        strides: Rows and columns from one window to the next: an int or two.
        padding: `"valid"` takes only windows that lie inside of the image, `"same"` takes ceil(size
            / stride) windows along each axis. Padding is never a maximum and does not count in a
            mean.
        data_format: `"channels_last"`, `"channels_first"`, or None for `K.image_data_format()`.
        pool_mode: `"max"` or `"avg"`.

    Returns:
        A tensor of the same layout and dtype. The gradient of a maximum goes to the first of equal
        elements.

    Raises:
        ValueError: if `data_format`, `padding` or `pool_mode` is none of these, if `x` does not
            have 4 axes, or if the window is larger than the image and `padding` is `"valid"`.
        TypeError: for the mean of integers.

    Example:
        >>> from backplane import backend as K
        >>> x = K.reshape(K.arange(9, dtype="float32"), (1, 3, 3, 1))
        >>> K.eval(K.pool2d(x, (2, 2)))[0, :, :, 0]
        array([[4., 5.],
               [7., 8.]], dtype=float32)
        >>> K.eval(K.pool2d(x, (2, 2), (2, 2), "same", pool_mode="avg"))[0, :, :, 0]
        array([[2. , 3.5],
               [6.5, 8. ]], dtype=float32)
    """
    return pooled(2, x, pool_size, strides, padding, data_format, pool_mode)


@api
def pool3d(
    x: TensorLike,
    pool_size: Sizes,
    strides: Sizes = (1, 1, 1),
    padding: Padding = "valid",
    data_format: DataFormat | None = None,
    pool_mode: PoolMode = "max",
) -> Tensor:
    """The maximum or the mean of each window of volumes.

    Args:
        x: Tensor (batch, depth, rows, columns, channels), or (batch, channels, depth, rows,
            columns) with channels first. Float for `"avg"`.
        pool_size: Size of a window along the three axes: an int or three.
        strides: Steps from one window to the next along the three axes: an int or three.
        padding: `"valid"` or `"same"`; see `K.pool2d`.
        data_format: `"channels_last"`, `"channels_first"`, or None for `K.image_data_format()`.
        pool_mode: `"max"` or `"avg"`.

    Returns:
        A tensor of the same layout and dtype.

    Raises:
        ValueError: if `data_format`, `padding` or `pool_mode` is none of these, if `x` does not
            have 5 axes, or if the window is larger than the volume and `padding` is `"valid"`.
        TypeError: for the mean of integers.

    Example:
        >>> from backplane import backend as K
        >>> x = K.placeholder((None, 8, 9, 10, 3))
        >>> K.int_shape(K.pool3d(x, (2, 2, 2), (2, 2, 2), "same", pool_mode="avg"))
        (None, 4, 5, 5, 3)
    """
    return pooled(3, x, pool_size, strides, padding, data_format, pool_mode)


# --- weights of their own -------------------------------------------------------------------------


@api
def local_conv(
    inputs: TensorLike,
    kernel: TensorLike,
    kernel_size: Sizes,
    strides: Sizes,
    output_shape: Sizes,
    data_format: DataFormat | None = None,
) -> Tensor:
    """Convolution over any number of spatial axes, with a different kernel for each place of the
    result.

    An addition of Backplane, from tf.keras: the documents of the Keras backend API do not have it.

    Args:
        inputs: Float tensor (batch, spatial axes…, channels), or (batch, channels, spatial axes…)
            with channels first.
        kernel: Tensor (places of the result, elements of a window * channels, filters). The second
            axis runs over (window, channels), or over (channels, window) with channels first.
        kernel_size: Size of a window along each spatial axis.
        strides: Elements from one window to the next along each spatial axis.
        output_shape: Size of the result along each spatial axis.
        data_format: `"channels_last"`, `"channels_first"`, or None for `K.image_data_format()`.

    Returns:
        A tensor (batch, *output_shape, filters), or (batch, filters, *output_shape) with channels
        first.

    Raises:
        ValueError: if `data_format` is not a data format, if a rank is wrong, or if the sizes do
            not fit each other.
        TypeError: if the dtypes are no floats, or `output_shape` is no list of ints.

    Example:
        >>> from backplane import backend as K
        >>> x = K.constant([[[1.0], [2.0], [3.0]]])
        >>> kernel = K.constant([[[1.0], [1.0]], [[0.0], [1.0]]])
        >>> K.eval(K.local_conv(x, kernel, (2,), (1,), (2,)))[0, :, 0]
        array([3., 3.], dtype=float32)
    """
    count = as_tensor(inputs).ndim - 2
    if count < 1:
        raise ValueError(f"inputs must have 3 axes or more, got {count + 2}")
    sizes = spatial.as_steps("output_shape", output_shape, count)
    return _local(inputs, kernel, kernel_size, strides, sizes, spatial.is_first(data_format))


@api
def local_conv1d(
    inputs: TensorLike,
    kernel: TensorLike,
    kernel_size: Sizes,
    strides: Sizes,
    data_format: DataFormat | None = None,
) -> Tensor:
    """Convolution over time steps, with a different kernel for each step of the result.

    Args:
        inputs: Float tensor (batch, steps, input_dim).
        kernel: Tensor (output_length, kernel_size * input_dim, filters): each window is flattened
            in row-major order, steps before features.
        kernel_size: Length of a window: an int or a tuple of one.
        strides: Steps from one window to the next: an int or a tuple of one.
        data_format: Must be a data format, but makes no difference. The axes are the same in both.

    Returns:
        A tensor (batch, output_length, filters).

    Raises:
        ValueError: if `data_format` is not a data format, if a rank is wrong, or if `inputs`,
            `kernel` and `kernel_size` do not fit each other.
        TypeError: if the dtypes are no floats.

    Example:
        >>> from backplane import backend as K
        >>> x = K.constant([[[1.0], [2.0], [3.0], [4.0]]])
        >>> kernel = K.constant([[[1.0], [1.0]], [[10.0], [10.0]], [[0.0], [1.0]]])
        >>> K.eval(K.local_conv1d(x, kernel, (2,), (1,)))[0, :, 0]
        array([ 3., 50.,  4.], dtype=float32)
    """
    spatial.is_first(data_format)
    return _local(inputs, kernel, kernel_size, strides, None, first=False)


@api
def local_conv2d(
    inputs: TensorLike,
    kernel: TensorLike,
    kernel_size: Sizes,
    strides: Sizes,
    output_shape: Sizes,
    data_format: DataFormat | None = None,
) -> Tensor:
    """Convolution of images, with a different kernel for each pixel of the result.

    Args:
        inputs: Float tensor (batch, rows, columns, channels), or (batch, channels, rows, columns)
            with channels first.
        kernel: Tensor (output rows * output columns, kernel rows * kernel columns * channels,
            filters). The second axis runs over (rows, columns, channels) of a window, or over
            (channels, rows, columns) with channels first.
        kernel_size: Rows and columns of a window: an int or two.
        strides: Rows and columns from one window to the next: an int or two.
        output_shape: Pair of ints: rows and columns of the result.
        data_format: `"channels_last"`, `"channels_first"`, or None for `K.image_data_format()`.

    Returns:
        A tensor (batch, output rows, output columns, filters), or (batch, filters, output rows,
        output columns) with channels first.

    Raises:
        ValueError: if `data_format` is not a data format, if a rank is wrong, or if the sizes do
            not fit each other.
        TypeError: if the dtypes are no floats.

    Example:
        >>> from backplane import backend as K
        >>> x = K.constant([[[[1.0], [2.0], [3.0]], [[4.0], [5.0], [6.0]]]])
        >>> kernel = K.constant([[[1.0]] * 4, [[0.5]] * 4])
        >>> K.eval(K.local_conv2d(x, kernel, (2, 2), (1, 1), (1, 2)))[0, :, :, 0]
        array([[12.,  8.]], dtype=float32)
    """
    sizes = spatial.as_steps("output_shape", output_shape, 2)
    return _local(inputs, kernel, kernel_size, strides, sizes, spatial.is_first(data_format))


def _local(
    inputs: TensorLike,
    kernel: TensorLike,
    kernel_size: Sizes,
    strides: Sizes,
    output_shape: tuple[int, ...] | None,
    first: bool,
) -> Tensor:
    """One matrix product for each place: (places, batch, window) times (places, window, filters).
    Without an `output_shape` there is one spatial axis, and the kernel tells how many places.
    """
    x, weights = promoted(inputs, kernel)
    if not is_float(x.spec.dtype):
        raise TypeError(f"inputs and kernel must be float, got {x.spec.dtype}")
    x = spatial.check_rank("inputs", x, 3 if output_shape is None else len(output_shape) + 2)
    places, length, filters = spatial.known_shape("kernel", weights, 3)
    counts = (places,) if output_shape is None else output_shape
    x = spatial.to_last(x, first)
    if prod(counts) != places:
        raise ValueError(
            f"output_shape {counts} has {prod(counts)} places, kernel has weights for {places} "
            f"(shape {weights.spec.shape})"
        )
    window = spatial.as_steps("kernel_size", kernel_size, len(counts))
    laid = windows(window, spatial.as_steps("strides", strides, len(counts)), "valid")
    channels = length // prod(window)
    if channels * prod(window) != length or x.spec.shape[-1] not in (channels, None):
        raise ValueError(
            f"kernel {weights.spec.shape} has {length} weights per place and filter, but "
            f"a window {window} of inputs with {x.spec.shape[-1]} channels needs another number"
        )
    rows = patches(_covered(x, laid, counts), laid)
    rows = reshape(rows, shape=(-1, places, prod(window), channels))
    rows = transpose(rows, perm=(1, 0, 3, 2) if first else (1, 0, 2, 3))
    rows = reshape(rows, shape=(places, -1, length))
    y = transpose(times(rows, weights), perm=(1, 0, 2))
    y = reshape(y, shape=(-1, *counts, filters)) if len(counts) > 1 else y
    return spatial.from_last(y, first)


def _covered(x: Tensor, laid: Sequence[Window], counts: Sequence[int]) -> Tensor:
    """The part of `x` that `counts` windows cover."""
    slices: list[Slice] = [ALL] * x.ndim
    for axis, (w, count) in enumerate(zip(laid, counts, strict=True), 1):
        needed = (count - 1) * w.stride + w.span
        n = x.spec.shape[axis]
        if n is not None and n < needed:
            raise ValueError(
                f"{count} windows of {w.size} with stride {w.stride} cover {needed} elements, but "
                f"spatial axis {axis - 1} of inputs has {n}"
            )
        if n != needed:
            slices[axis] = (0, needed, 1)
    return x if slices == [ALL] * x.ndim else slice(x, slices=tuple(slices))
