"""Convolution: `lax.conv_general_dilated`, and what JAX makes of it transposed.

On a CPU XLA is slow at groups: its gradient by the kernel takes a hundred times as long as one
convolution per group (376 and 3.4 ms for 4 groups of 16 channels), and a convolution of each channel
for itself thirty times as long as a sum of products. There they are computed so.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from backplane.engines.base import Padding, Table, Value, host_shape, resolve_padding
from backplane.engines.jax.kernel import kernel as kernel_of
from backplane.engines.jax.windows import Sizes, Windows, zero

TABLE = Table()

Bilinear = Callable[[Value, Value], Value]


@TABLE.add("conv")
@kernel_of("strides", "padding", "dilation", "groups")
def conv(
    x: Value, kernel: Value, *, strides: Sizes, padding: Padding, dilation: Sizes, groups: int
) -> Value:
    """Cross-correlation."""
    options = {"strides": strides, "padding": padding, "dilation": dilation}
    if groups > 1 and jax.default_backend() == "cpu":
        if kernel.shape[-2] == 1:
            return _each_channel(x, kernel, **options)
        return _each_group(partial(_conv, groups=1, **options), x, kernel, groups)
    return _conv(x, kernel, groups=groups, **options)


def _conv(
    x: Value, kernel: Value, *, strides: Sizes, padding: Padding, dilation: Sizes, groups: int
) -> Value:
    spatial = "DHW"[5 - x.ndim :]
    return lax.conv_general_dilated(
        x,
        kernel,
        window_strides=strides,
        padding=resolve_padding(padding, x.shape[1:-1], kernel.shape[:-2], strides, dilation),
        rhs_dilation=dilation,
        dimension_numbers=(f"N{spatial}C", f"{spatial}IO", f"N{spatial}C"),
        feature_group_count=groups,
    )


def _each_group(function: Bilinear, a: Value, b: Value, groups: int) -> Value:
    """One convolution per group. What a group reads and writes is a part of the last axis of each."""
    parts = zip(jnp.split(a, groups, -1), jnp.split(b, groups, -1), strict=True)
    return lax.concatenate([function(x, y) for x, y in parts], a.ndim - 1)


def _each_channel(
    x: Value, kernel: Value, *, strides: Sizes, padding: Padding, dilation: Sizes
) -> Value:
    """Each channel with kernels of its own: products with one number per channel, added up."""
    windows = Windows(x.shape, kernel.shape[:-2], strides, padding, dilation)
    if 0 in windows.number:
        return lax.full((x.shape[0], *windows.number, kernel.shape[-1]), 0, x.dtype)
    factors = lax.reshape(kernel, (windows.size, kernel.shape[-1]))
    x = jnp.repeat(windows.pad(x, zero(x)), kernel.shape[-1] // x.shape[-1], axis=-1)
    return reduce(lax.add, [windows.take(x, p) * w for p, w in zip(windows.places(), factors)])


@TABLE.add("conv_input_grad")
def conv_input_grad(
    g: Value,
    kernel: Value,
    *dims: Value,
    shape: tuple[int | None, ...],
    strides: Sizes,
    padding: Padding,
    dilation: Sizes,
    groups: int,
) -> Value:
    """A convolution with the kernel turned around and, for the strides, zeros between the elements."""
    options = {"strides": strides, "padding": padding, "dilation": dilation, "groups": groups}
    return _input_grad(g, kernel, shape=host_shape(shape, dims), **options)


@kernel_of("shape", "strides", "padding", "dilation", "groups")
def _input_grad(g: Value, kernel: Value, *, shape: Sizes, **options: Any) -> Value:
    (x,) = jax.linear_transpose(
        lambda x: conv(x, kernel, **options), jax.ShapeDtypeStruct(shape, g.dtype)
    )(g)
    return x


@TABLE.add("conv_kernel_grad")
@kernel_of("kernel_shape", "strides", "padding", "dilation", "groups")
def conv_kernel_grad(x: Value, g: Value, *, kernel_shape: Sizes, **options: Any) -> Value:
    """A convolution of `x` with `g`, whose batch axes are summed over as channels are."""
    (kernel,) = jax.linear_transpose(
        lambda kernel: conv(x, kernel, **options), jax.ShapeDtypeStruct(kernel_shape, g.dtype)
    )(g)
    return kernel
