"""Convolution as JAX writes it, for accelerators, and where its form is good on a CPU too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax import lax

from backplane.core.windows import Padding, WindowGrid
from backplane.engines.table import Ints, Value


def conv(
    x: Value, kernel: Value, *, strides: Ints, padding: Padding, dilation: Ints, groups: int
) -> Value:
    """Cross-correlation."""
    return lax.conv_general_dilated(
        x,
        kernel,
        window_strides=strides,
        padding=WindowGrid.of(x.shape[1:-1], kernel.shape[:-2], strides, padding, dilation).pairs,
        rhs_dilation=dilation,
        dimension_numbers=layout(len(strides)),
        feature_group_count=groups,
    )


def layout(rank: int) -> tuple[str, str, str]:
    """The axes of operand, kernel and result: batch first, channels last."""
    spatial = "DHW"[3 - rank :]
    return f"N{spatial}C", f"{spatial}IO", f"N{spatial}C"


def input_grad(g: Value, kernel: Value, *, shape: Ints, **window: Any) -> Value:
    """Transposed as a function of x, which has `shape`."""
    return transposed(lambda x: conv(x, kernel, **window), shape, g)


def kernel_grad(x: Value, g: Value, *, kernel_shape: Ints, **window: Any) -> Value:
    """Transposed as a function of the kernel."""
    return transposed(lambda kernel: conv(x, kernel, **window), kernel_shape, g)


def transposed(linear: Callable[[Value], Value], shape: Ints, g: Value) -> Value:
    """The gradient of a linear function of a tensor of `shape`."""
    (cotangent,) = jax.linear_transpose(linear, jax.ShapeDtypeStruct(shape, g.dtype))(g)
    return cotangent
