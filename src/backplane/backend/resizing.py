"""Images and volumes made larger by whole factors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from backplane import config
from backplane.backend._args import as_int
from backplane.backend._call import api
from backplane.backend._spatial import check_rank, is_first
from backplane.core.graph import Tensor
from backplane.core.registry import primitive
from backplane.core.spec import is_float
from backplane.ops.lift import as_tensor, cast_to, dims_of

__all__ = ["resize_images", "resize_volumes"]


def _factors(name: str, named: Mapping[str, Any]) -> list[int]:
    """Positive ints; the ValueError names the argument."""
    found = []
    for what, value in named.items():
        try:
            factor = as_int(value, what)
        except TypeError:
            factor = 0
        if factor < 1:
            raise ValueError(f"K.{name}: {what} must be a positive int, got {value!r}")
        found.append(factor)
    return found


def _first(name: str, data_format: Any) -> bool:
    """Whether channels come first; here a format must be given."""
    return is_first(name, "" if data_format is None else data_format)


def _sizes(x: Tensor, factors: Mapping[int, int]) -> tuple[list[Tensor], tuple[int | None, ...]]:
    """The shape of `x` with axes multiplied by `factors`, as `(dims, shape)`."""
    shape = tuple(n if n is None else n * factors.get(i, 1) for i, n in enumerate(x.spec.shape))
    dim = primitive("dim")
    unknown = [i for i, n in enumerate(shape) if n is None]
    dims = [dim(x, axis=i) * factors[i] if i in factors else dim(x, axis=i) for i in unknown]
    return dims, shape


def _repeat(x: Tensor, factors: Mapping[int, int]) -> Tensor:
    """Each element `factors[axis]` times along these axes."""
    growing = [(axis, n) for axis, n in factors.items() if n > 1]
    # Two at a time, the inner ones first: TensorFlow cannot broadcast volumes along three new axes.
    while growing:
        x = _repeat_at_once(x, dict(growing[-2:]))
        growing = growing[:-2]
    return x


def _repeat_at_once(x: Tensor, factors: Mapping[int, int]) -> Tensor:
    # A new axis of size 1 after each that grows is broadcast, then merged with the one before.
    wide: list[int | None] = []
    new = []
    for axis, n in enumerate(x.spec.shape):
        wide.append(n)
        if axis in factors:
            new.append(len(wide))
            wide.append(factors[axis])
    own, _ = dims_of(x)
    y = primitive("expand_dims")(x, axes=tuple(new))
    y = primitive("broadcast_to")(y, *own, shape=tuple(wide))
    dims, shape = _sizes(x, factors)
    result: Tensor = primitive("reshape")(y, *dims, shape=shape)
    return result


def _interpolate(x: Tensor, axis: int, factor: int) -> Tensor:
    """`factor - 1` values between neighbours along `axis`, the last one beside itself."""
    if factor == 1:
        return x
    rank = x.ndim
    whole = ((None, None, 1),) * rank

    def part(start: int) -> Any:
        slices = (*whole[:axis], (start, None, 1), *whole[axis + 1 :])
        return primitive("expand_dims")(primitive("slice")(x, slices=slices), axes=(axis + 1,))

    here = primitive("expand_dims")(x, axes=(axis + 1,))
    after = primitive("concat")(part(1), part(-1), axis=axis)
    share = np.arange(factor, dtype="float64").reshape((factor, *[1] * (rank - axis - 1))) / factor
    y = here + (after - here) * as_tensor(share.astype(x.spec.dtype))
    dims, shape = _sizes(x, {axis: factor})
    result: Tensor = primitive("reshape")(y, *dims, shape=shape)
    return result


def _axes(first: bool, factors: Sequence[int]) -> dict[int, int]:
    """Factors by spatial axis."""
    return dict(enumerate(factors, 2 if first else 1))


@api
def resize_images(
    x: Any,
    height_factor: Any,
    width_factor: Any,
    data_format: str,
    interpolation: str = "nearest",
) -> Tensor:
    """Images with their height and width multiplied by whole numbers.

    Args:
        x: Tensor (batch, rows, columns, channels), or (batch, channels, rows, columns) with
            channels first.
        height_factor: Positive int.
        width_factor: Positive int.
        data_format: `"channels_last"` or `"channels_first"`.
        interpolation: `"nearest"` repeats every pixel; `"bilinear"` takes pixel i of the result at
            i / factor of the image, without a shift by half a pixel, the last row and column
            repeated beyond the end.

    Returns:
        A tensor of the same layout. `"nearest"` keeps the dtype; `"bilinear"` keeps float dtypes
        and makes others `K.floatx()`.

    Raises:
        ValueError: if `data_format` or `interpolation` is none of these, a factor is no positive
            whole number, or `x` does not have 4 axes.

    Source:
        Bilinear as classic Keras had it: `tf.compat.v1.image.resize_bilinear` with
        `align_corners=False`.

    Example:
        >>> from backplane import backend as K
        >>> x = K.constant([[[[1.0], [2.0]], [[3.0], [4.0]]]])
        >>> K.eval(K.resize_images(x, 1, 2, "channels_last"))[0, :, :, 0]
        array([[1., 1., 2., 2.],
               [3., 3., 4., 4.]], dtype=float32)
        >>> K.eval(K.resize_images(x, 2, 1, "channels_last", "bilinear"))[0, :, :, 0]
        array([[1., 2.],
               [2., 3.],
               [3., 4.],
               [3., 4.]], dtype=float32)
    """
    name = "resize_images"
    first = _first(name, data_format)
    if interpolation not in ("nearest", "bilinear"):
        raise ValueError(
            f'K.{name}: interpolation must be "nearest" or "bilinear", got {interpolation!r}'
        )
    y = as_tensor(x)
    check_rank(name, "x", y, 4)
    given = {"height_factor": height_factor, "width_factor": width_factor}
    factors = _axes(first, _factors(name, given))
    if interpolation == "nearest":
        return _repeat(y, factors)
    y = y if is_float(y.spec.dtype) else cast_to(y, config.floatx())
    for axis, factor in factors.items():
        y = _interpolate(y, axis, factor)
    return y


@api
def resize_volumes(
    x: Any, depth_factor: Any, height_factor: Any, width_factor: Any, data_format: str
) -> Tensor:
    """Volumes with their depth, height and width multiplied: elements are repeated.

    Args:
        x: Tensor (batch, depth, rows, columns, channels), or (batch, channels, depth, rows,
            columns) with channels first.
        depth_factor: Positive int.
        height_factor: Positive int.
        width_factor: Positive int.
        data_format: `"channels_last"` or `"channels_first"`.

    Returns:
        A tensor of the same layout and dtype.

    Raises:
        ValueError: if `data_format` is none of these, a factor is no positive whole number, or `x`
            does not have 5 axes.

    Example:
        >>> from backplane import backend as K
        >>> x = K.placeholder((None, 4, None, 6, 3))
        >>> K.int_shape(K.resize_volumes(x, 2, 2, 3, "channels_last"))
        (None, 8, None, 18, 3)
    """
    name = "resize_volumes"
    first = _first(name, data_format)
    x = as_tensor(x)
    check_rank(name, "x", x, 5)
    given = {
        "depth_factor": depth_factor,
        "height_factor": height_factor,
        "width_factor": width_factor,
    }
    return _repeat(x, _axes(first, _factors(name, given)))
