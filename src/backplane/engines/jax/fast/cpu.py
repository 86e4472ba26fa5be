"""Convolution on a CPU, in the forms that XLA is good at. Times are of one core and float32.

- Gradients of groups: by the kernel XLA takes 376 ms for 4 groups of 16 channels, one convolution
  after the other 3.4. Channels for themselves are in `depthwise`.
- In loops XLA knows one layout, and computes other convolutions element by element: a gradient by
  the kernel takes 25 ms, in that layout 0.8. The barriers keep it from undoing the transposition.
- Where the kernel is larger than the image, XLA computes element by element: 3 × 3 over 2 × 2 and
  512 channels takes 219 ms, as a product of the windows with the kernel 2.1.
- With strides, a gradient by x slides over mostly zeros; as a product it takes half to nine tenths
  of the time. A kernel of one element is a product of matrices anyway: its gradient by x takes 1.2
  ms for 1024 channels and 2048 with strides of 2, as a convolution 8.9.
- A result of additions and products is computed anew for each operation that reads it, all the
  terms of a transposed product too: a step of a network that draws 32 × 32 images takes 50 ms so,
  and 24 with a barrier behind them. XLA would remove barriers before it joins operations
  (`convolution_options`). A program that computes no gradients by kernels reads most results once,
  and is better off so: predictions of two networks that draw take 0.74 of the time.
- Its library YNNPACK is faster for some programs (`ynnpack`). XLA's own kernels are slow at a
  single channel; products are not.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, Unpack

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from backplane.core.spec import Spec
from backplane.core.windows import Padding, Sliding, WindowGrid
from backplane.engines.jax import plain_convolution as plain
from backplane.engines.jax.fast import depthwise
from backplane.engines.jax.windows import pad_spatial
from backplane.engines.table import Ints, Shape, Value


def _is_point(kernel: Ints) -> bool:
    """Whether the kernel has one element for each pair of channels. The product takes 0.74 to 1.04
    of the time of XLA's convolution.
    """
    return math.prod(kernel[:-2]) == 1


FEW_ELEMENTS = 580
"""Elements of a kernel up to which XLA's own convolution serves small images: there the product
gains nothing, and on a mesh it would move parts of the image."""


def _is_larger(kernel: Ints, *images: Ints) -> bool:
    """Whether the kernel is larger than one of the images that it slides over. These are x, and in
    gradients `g` too. The product takes 1.05 to 0.09 of the time of XLA's convolution.
    """
    return math.prod(kernel) > FEW_ELEMENTS and any(
        k > n for image in images for k, n in zip(kernel[:-2], image[1:-1], strict=True)
    )


def is_decomposed(
    specs: Sequence[Spec], *, groups: int, kernel_shape: Shape = (), **window: Any
) -> bool:
    """Whether products of matrices, or of single numbers, are faster, whatever the sizes: a step of
    training takes an eighth of the time over a single channel, and a quarter in three dimensions.
    """
    *sizes, channels, _ = kernel_shape or specs[1].shape
    return len(sizes) == 3 or channels == groups == 1


def conv(x: Value, kernel: Value, *, groups: int, large: float, **window: Any) -> Value:
    """Cross-correlation."""
    if _single(kernel.shape, groups):
        return depthwise.conv(x, kernel, groups=groups, **window)
    if groups > 1:
        return _each_group(partial(conv, groups=1, large=large, **window), x, kernel, groups)
    if _is_point(kernel.shape) or _is_larger(kernel.shape, x.shape):
        return _product(x, kernel, **window)
    return plain.conv(x, kernel, groups=1, **window)


def input_grad(
    g: Value, kernel: Value, *, shape: Ints, groups: int, large: float, **window: Any
) -> Value:
    """A convolution of `g` with the kernel turned around. With strides, a product of matrices is
    the faster form from `large` elements of the kernel on.
    """
    if _single(kernel.shape, groups):
        return depthwise.input_grad(g, kernel, shape=shape, groups=groups, **window)
    if groups == 1:
        strided = max(window["strides"]) > 1 and kernel.size >= large
        larger = _is_larger(kernel.shape, shape, g.shape)
        if strided or larger or _is_point(kernel.shape):
            return _transposed(lambda x: _product(x, kernel, **window), shape, g)
        return _input_grad(g, kernel, shape=shape, **window)
    shape = (*shape[:-1], shape[-1] // groups)
    return _each_group(partial(_input_grad, shape=shape, **window), g, kernel, groups)


def kernel_grad(
    x: Value, g: Value, *, kernel_shape: Ints, groups: int, large: float, **window: Any
) -> Value:
    """A convolution of `x` with `g`, the batch taking the place of the channels."""
    if _single(kernel_shape, groups):
        return depthwise.kernel_grad(x, g, kernel_shape=kernel_shape, groups=groups, **window)
    if groups == 1:
        strided = max(window["strides"]) > 1
        larger = _is_larger(kernel_shape, x.shape, g.shape)
        if larger or (strided and _is_point(kernel_shape)):
            return _transposed(lambda kernel: _product(x, kernel, **window), kernel_shape, g)
        return _kernel_grad(x, g, kernel_shape=kernel_shape, **window)
    shape = (*kernel_shape[:-1], kernel_shape[-1] // groups)
    return _each_group(partial(_kernel_grad, kernel_shape=shape, **window), x, g, groups)


def _single(kernel: Ints, groups: int) -> bool:
    """Whether each channel of x has a group of its own."""
    return groups > 1 and kernel[-2] == 1


def _each_group(
    function: Callable[[Value, Value], Value], a: Value, b: Value, groups: int
) -> Value:
    """`function` for one group after the other, each of which has a part of the last axes."""
    parts = zip(jnp.split(a, groups, -1), jnp.split(b, groups, -1), strict=True)
    return lax.concatenate([function(x, y) for x, y in parts], a.ndim - 1)


# --- as a product of matrices ---------------------------------------------------------------------


def _product(x: Value, kernel: Value, **window: Unpack[Sliding]) -> Value:
    """im2col: the windows of `x` as rows of a matrix, times the kernel as another."""
    at = WindowGrid.of(x.shape[1:-1], kernel.shape[:-2], **window)
    x = pad_spatial(x, np.zeros((), x.dtype), at.pairs)
    rows = lax.concatenate([x[index] for index in at.indices], x.ndim - 1)
    matrix = lax.reshape(kernel, (rows.shape[-1], kernel.shape[-1]))
    return lax.dot_general(rows, matrix, (([rows.ndim - 1], [0]), ([], [])))


def _transposed(linear: Callable[[Value], Value], shape: Ints, g: Value) -> Value:
    """The gradient of a product. It is computed once, whoever reads it."""
    return lax.optimization_barrier(plain.transposed(linear, shape, g))


# --- gradients in the layout of the forward convolution: batch first, channels last ---------------


def _input_grad(
    g: Value, kernel: Value, *, shape: Ints, strides: Ints, padding: Padding, dilation: Ints
) -> Value:
    """The turned kernel slides over `g`, whose elements have zeros between them for strides."""
    if 0 in g.shape:
        return lax.full(shape, 0, g.dtype)
    at = WindowGrid.of(shape[1:-1], kernel.shape[:-2], strides, padding, dilation)
    turned = jnp.swapaxes(lax.rev(kernel, range(len(strides))), -1, -2)
    return lax.conv_general_dilated(
        g,
        lax.optimization_barrier(turned),
        window_strides=(1,) * len(strides),
        padding=at.gradient_pairs,
        lhs_dilation=strides,
        rhs_dilation=dilation,
        dimension_numbers=plain.layout(len(strides)),
    )


def _kernel_grad(
    x: Value, g: Value, *, kernel_shape: Ints, strides: Ints, padding: Padding, dilation: Ints
) -> Value:
    """The window is all of `g`, with zeros between its elements where there are strides."""
    if 0 in g.shape:
        return lax.full(kernel_shape, 0, g.dtype)
    at = WindowGrid.of(x.shape[1:-1], kernel_shape[:-2], strides, padding, dilation)
    channels = x.ndim - 1
    spatial = range(1, channels)
    gradient = lax.conv_general_dilated(
        lax.optimization_barrier(lax.transpose(x, (channels, *spatial, 0))),
        lax.optimization_barrier(lax.transpose(g, (*spatial, 0, channels))),
        window_strides=dilation,
        padding=[(a, b - rest) for (a, b), rest in zip(at.pairs, at.rest, strict=True)],
        rhs_dilation=strides,
        dimension_numbers=plain.layout(len(strides)),
    )
    return lax.transpose(gradient, (*spatial, 0, channels))


# --- what XLA is told -----------------------------------------------------------------------------


@cache
def convolution_options(trains: bool, library: bool = False) -> dict[str, str] | None:
    """Compiler options for a program with convolutions: YNNPACK does what it does by default, but
    convolutions only if it is the `library` for them. In one that trains, barriers stay until
    operations have been joined.

    There are none if the user has made a choice about YNNPACK, or if this XLA does not know the
    option. A user's choice about passes stays.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if "ynn_fusion" in flags:
        return None
    kinds = ["INDIVIDUAL_DOT", "REDUCE", *(["INDIVIDUAL_CONVOLUTION"] if library else [])]
    fusions = ",".join([f"LIBRARY_FUSION_TYPE_{kind}" for kind in kinds])
    options = {"xla_cpu_experimental_ynn_fusion_type": fusions}
    if trains and "xla_disable_hlo_passes" not in flags:
        options["xla_disable_hlo_passes"] = "cse_barrier_expander"
    try:
        jax.jit(lambda: np.int32(0), compiler_options=options).lower().compile()
    except jax.errors.JaxRuntimeError:
        return None
    return options
