"""Pooling of Keras 3: by windows of one size, and by windows that fit the size of the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from backplane.backend.pooling import pooled
from backplane.core.graph import Tensor
from backplane.keras3.call import op
from backplane.keras3.operands import float_of, tensor_of
from backplane.keras3.settings import data_format_of
from backplane.ops import reduction
from backplane.ops.axes import moved
from backplane.ops.indexing import gather
from backplane.ops.lift import as_tensor, cast_to
from backplane.ops.operators import matrix_product

Sizes = int | Sequence[int]


def _pool(
    x: Any,
    pool_size: Sizes,
    strides: Sizes | None,
    padding: str,
    data_format: str | None,
    mode: str,
) -> Tensor:
    x = tensor_of(x) if mode == "max" else float_of(x)
    steps = pool_size if strides is None else strides
    numbers = cast_to(x, "int32") if x.spec.dtype == "bool" else x
    layout = data_format_of(data_format)
    found = pooled(x.ndim - 2, numbers, pool_size, steps, padding, layout, mode)
    return cast_to(found, x.spec.dtype)


@op
def max_pool(
    inputs: Any,
    pool_size: Sizes,
    strides: Sizes | None = None,
    padding: str = "valid",
    data_format: str | None = None,
) -> Tensor:
    """The maximum of each window."""
    return _pool(inputs, pool_size, strides, padding, data_format, "max")


@op
def average_pool(
    inputs: Any,
    pool_size: Sizes,
    strides: Sizes | None = None,
    padding: str = "valid",
    data_format: str | None = None,
) -> Tensor:
    """The mean of each window, in which padding does not count."""
    return _pool(inputs, pool_size, strides, padding, data_format, "avg")


# --- windows that fit the size of the result ------------------------------------------------------


def _bounds(size: int, count: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The first and last element of each of `count` windows over `size` elements: window i takes
    the elements from ⌊i · size / count⌋ to ⌈(i + 1) · size / count⌉.
    """
    numbers = np.arange(count)
    return numbers * size // count, -(-(numbers + 1) * size // count)


def _means(x: Tensor, axis: int, count: int, size: int) -> Tensor:
    """The means of the windows along an axis: a product with a matrix of weights."""
    starts, ends = _bounds(size, count)
    places = np.arange(size)[:, None]
    inside = (places >= starts) & (places < ends)
    weights = cast_to(as_tensor(inside / (ends - starts)), x.spec.dtype)
    y = matrix_product(moved(x, axis, x.ndim - 1), weights)
    return moved(y, x.ndim - 1, axis)


def _maxima(x: Tensor, axis: int, count: int, size: int) -> Tensor:
    """The maxima of the windows along an axis. A window that is shorter than the longest reads its
    last element again.
    """
    starts, ends = _bounds(size, count)
    widest = int((ends - starts).max())
    places = np.minimum(starts[:, None] + np.arange(widest), ends[:, None] - 1)
    windows = gather(x, as_tensor(places.astype("int32")), axis=axis)
    return reduction.max(windows, axes=(axis + 1,), keepdims=False)


def _adaptive(
    name: str,
    x: Tensor,
    output_size: Sizes,
    data_format: str | None,
    along: Callable[[Tensor, int, int, int], Tensor],
) -> Tensor:
    count = x.ndim - 2
    wanted = [output_size] * count if isinstance(output_size, int) else list(output_size)
    if len(wanted) != count:
        raise ValueError(f"{name}: output_size must be an int or {count} ints, got {output_size!r}")
    first = 2 if data_format_of(data_format) == "channels_first" else 1
    for axis, number in enumerate(wanted, first):
        size = x.spec.shape[axis]
        if size is None:
            raise ValueError(f"{name}: the size of axis {axis} must be known")
        x = along(x, axis, number, size)
    return x


@op
def adaptive_average_pool(
    inputs: Any, output_size: Sizes, data_format: str | None = None
) -> Tensor:
    """The means of as many windows as `output_size` says, which cover each spatial axis.

    Raises:
        ValueError: if a spatial size is unknown.
    """
    x = float_of(inputs)
    return _adaptive("adaptive_average_pool", x, output_size, data_format, _means)


@op
def adaptive_max_pool(inputs: Any, output_size: Sizes, data_format: str | None = None) -> Tensor:
    """The maxima of as many windows as `output_size` says, which cover each spatial axis.

    Raises:
        ValueError: if a spatial size is unknown.
    """
    x = tensor_of(inputs)
    numbers = cast_to(x, "int32") if x.spec.dtype == "bool" else x
    found = _adaptive("adaptive_max_pool", numbers, output_size, data_format, _maxima)
    return cast_to(found, x.spec.dtype)
