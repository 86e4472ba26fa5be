"""Functions that only Keras 1 had. Each call warns, and the warning says how to write it today."""

from __future__ import annotations

from typing import Any

from backplane import config
from backplane.backend._args import as_int
from backplane.backend._call import api
from backplane.backend._convolution_nd import Convolution
from backplane.backend._errors import explained
from backplane.backend._keras1 import as_data_format, deprecated
from backplane.backend._spatial_arguments import check_rank
from backplane.backend.padding import spatial_2d_padding, temporal_padding
from backplane.backend.types import Shape, Sizes, TensorLike
from backplane.core.graph import Tensor
from backplane.ops.axes import permuted
from backplane.ops.lift import as_tensor

__all__ = [
    "asymmetric_spatial_2d_padding", "asymmetric_temporal_padding", "deconv2d",
    "image_dim_ordering", "set_image_dim_ordering",
]  # fmt: skip

image_dim_ordering = deprecated("K.image_data_format()")(config.image_dim_ordering)
set_image_dim_ordering = deprecated(
    "K.set_image_data_format('channels_first') for 'th', 'channels_last' for 'tf'"
)(explained(config.set_image_dim_ordering))


@deprecated("K.conv2d_transpose, with a kernel of (rows, columns, output channels, input channels)")
@api
def deconv2d(
    x: TensorLike,
    kernel: TensorLike,
    output_shape: Shape,
    strides: Sizes = (1, 1),
    border_mode: str = "valid",
    dim_ordering: str = "default",
    image_shape: object = None,
    filter_shape: object = None,
) -> Tensor:
    """Transposed convolution over two spatial axes: `K.conv2d_transpose` in Keras 1.

    Args:
        x: Float tensor (batch, rows, columns, channels), or (batch, channels, rows, columns) for
            `"th"`.
        kernel: Tensor (window rows, window columns, channels, output channels), or (output
            channels, channels, window rows, window columns) for `"th"`. `K.conv2d_transpose` has
            the output channels before the channels.
        output_shape: Shape of the result, in the order of `dim_ordering`; see `K.conv2d_transpose`.
        strides: Strides of the convolution that would lead back to `x`: an int or two.
        border_mode: Padding of that convolution: `"valid"` or `"same"`.
        dim_ordering: `"tf"`, `"th"`, or `"default"` for the configured one.
        image_shape: Not needed.
        filter_shape: Not needed.

    Returns:
        A tensor of `output_shape`.

    Raises:
        ValueError: if `dim_ordering` or `border_mode` is none of these, or shapes do not fit.
        TypeError: if the dtypes are no floats.

    Example:
        >>> import warnings
        >>> from backplane import backend as K
        >>> x = K.reshape(K.constant([1.0, 2.0, 3.0, 4.0]), (1, 2, 2, 1))
        >>> kernel = K.reshape(K.constant([1.0, 2.0, 3.0, 4.0]), (2, 2, 1, 1))
        >>> with warnings.catch_warnings(action="ignore"):
        ...     y = K.deconv2d(x, kernel, (1, 3, 3, 1))
        >>> K.eval(y)[0, :, :, 0]
        array([[ 1.,  4.,  4.],
               [ 6., 20., 16.],
               [ 9., 24., 16.]], dtype=float32)
    """
    data_format = as_data_format("deconv2d", dim_ordering)
    kernel = as_tensor(kernel)
    check_rank("kernel", kernel, 4)
    kernel = permuted(kernel, (2, 3, 0, 1) if data_format == "channels_first" else (0, 1, 3, 2))
    return Convolution(2, strides, border_mode, data_format, 1).transposed(x, kernel, output_shape)


@deprecated("K.temporal_padding(x, (left_pad, right_pad))")
@api
def asymmetric_temporal_padding(x: TensorLike, left_pad: int = 1, right_pad: int = 1) -> Tensor:
    """Zeros before and after the time steps of a 3D tensor: `K.temporal_padding` in Keras 1.

    Args:
        x: Tensor (batch, steps, features).
        left_pad: Steps to add at the start.
        right_pad: Steps to add at the end.

    Returns:
        A tensor (batch, steps + left_pad + right_pad, features).

    Raises:
        ValueError: if `x` does not have 3 axes, or a number is negative.

    Example:
        >>> import warnings
        >>> from backplane import backend as K
        >>> with warnings.catch_warnings(action="ignore"):
        ...     y = K.asymmetric_temporal_padding(K.ones((1, 2, 1)), 1, 2)
        >>> K.eval(y)[0, :, 0]
        array([0., 1., 1., 0., 0.], dtype=float32)
    """
    return temporal_padding(x, _amounts(left_pad=left_pad, right_pad=right_pad))


def _amounts(**given: Any) -> tuple[Any, ...]:
    """Numbers of elements, each known by the name of its parameter."""
    return tuple(v if isinstance(v, Tensor) else as_int(v, name) for name, v in given.items())


@deprecated("K.spatial_2d_padding(x, ((top_pad, bottom_pad), (left_pad, right_pad)), data_format)")
@api
def asymmetric_spatial_2d_padding(
    x: TensorLike,
    top_pad: int = 1,
    bottom_pad: int = 1,
    left_pad: int = 1,
    right_pad: int = 1,
    dim_ordering: str = "default",
) -> Tensor:
    """Zeros around the images of a 4D tensor: `K.spatial_2d_padding` in Keras 1.

    Args:
        x: Tensor (batch, rows, columns, channels), or (batch, channels, rows, columns) for `"th"`.
        top_pad: Rows to add above.
        bottom_pad: Rows to add below.
        left_pad: Columns to add on the left.
        right_pad: Columns to add on the right.
        dim_ordering: `"tf"`, `"th"`, or `"default"` for the configured one.

    Returns:
        A tensor of the same layout.

    Raises:
        ValueError: if `dim_ordering` is none of these, `x` does not have 4 axes, or a number is
            negative.

    Example:
        >>> import warnings
        >>> from backplane import backend as K
        >>> with warnings.catch_warnings(action="ignore"):
        ...     y = K.asymmetric_spatial_2d_padding(K.ones((1, 1, 2, 1)), 1, 0, 0, 1)
        >>> K.eval(y)[0, :, :, 0]
        array([[0., 0., 0.],
               [1., 1., 0.]], dtype=float32)
    """
    data_format = as_data_format("asymmetric_spatial_2d_padding", dim_ordering)
    padding = (
        _amounts(top_pad=top_pad, bottom_pad=bottom_pad),
        _amounts(left_pad=left_pad, right_pad=right_pad),
    )
    return spatial_2d_padding(x, padding, data_format)
