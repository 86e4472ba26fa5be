"""Convolution in one to three dimensions, and its two gradients.

ONNX' kernels want channels first. The transpositions around them are moved through the program and
cancelled by ONNX Runtime. Where kernels are slower than a matrix product, or missing as for
float64, the decomposition serves (`unless`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, Unpack

from backplane.core.spec import Spec
from backplane.core.windows import Convolving, Window, windows
from backplane.engines.onnxruntime.builder import (
    Shape,
    Size,
    Symbol,
    current_scope,
    ints,
    node,
    vector,
)
from backplane.engines.onnxruntime.indexing import slice_
from backplane.engines.onnxruntime.shaping import concat, constant_of, pad
from backplane.engines.onnxruntime.sizes import at_least, filled, static
from backplane.engines.table import Ints, Table

TABLE = Table()

Pairs = Sequence[tuple[Size, Size]]


# --- layouts -------------------------------------------------------------------------------------


def channels_first(x: Symbol) -> Symbol:
    """(batch, *spatial, channels) as (batch, channels, *spatial)."""
    return x.transpose((0, x.rank - 1, *range(1, x.rank - 1)))


def channels_last(x: Symbol, rank: int) -> Symbol:
    """The inverse of `channels_first`."""
    return x.transpose((0, *range(2, rank), 1))


def _kernel_first(kernel: Symbol) -> Symbol:
    """(*spatial, inputs, outputs) as (outputs, inputs, *spatial)."""
    return kernel.transpose((kernel.rank - 1, kernel.rank - 2, *range(kernel.rank - 2)))


# --- padding -------------------------------------------------------------------------------------


def pairs_of(slid: Sequence[Window], counts: Sequence[Size]) -> Pairs:
    """(before, after) per spatial axis: numbers wherever they follow from what is known."""
    return [w.ends(n, at_least) for n, w in zip(counts, slid, strict=True)]


def padding_options(slid: Sequence[Window], counts: Sequence[Size]) -> dict[str, Any]:
    """The attributes of a kernel that say how much is padded."""
    pairs = pairs_of(slid, counts)
    if all(static(pair) for pair in pairs):
        return {"pads": (*[before for before, _ in pairs], *[after for _, after in pairs])}
    return {"auto_pad": "SAME_UPPER"}


def _padded(x: Symbol, pairs: Pairs) -> Symbol:
    return pad(x, padding=((0, 0), *pairs, (0, 0)), value=0)


# --- where a matrix product is better -------------------------------------------------------------

NARROW = 128
"""Rows of a matrix from which on a product with it becomes no faster."""


def _is_product(specs: Sequence[Spec], *, groups: int, **params: Any) -> bool:
    return specs[0].dtype == "float64" or _is_pointwise(specs[1].shape, groups)


def _is_pointwise(kernel_shape: Shape, groups: int) -> bool:
    return groups == 1 and all(n == 1 for n in kernel_shape[:-2])


def _is_kernel_product(
    specs: Sequence[Spec], *, kernel_shape: Ints, groups: int, **params: Any
) -> bool:
    return groups > 1 and (kernel_shape[-2] == 1 or specs[0].dtype == "float64")


# --- the primitives ------------------------------------------------------------------------------


def _windows(kernel_shape: Sequence[int | None] | None, at: Convolving) -> list[Window]:
    """The windows of a kernel, all of whose sizes are known."""
    size = [n for n in (kernel_shape or ())[:-2] if n is not None]
    return windows(size, at["strides"], at["padding"], at["dilation"])


def _attributes(at: Convolving) -> dict[str, Any]:
    return {"strides": at["strides"], "dilations": at["dilation"], "group": at["groups"]}


@TABLE.add("conv_bias")
@TABLE.add("conv", unless=lambda specs, **at: specs[0].dtype == "float64")
def conv(x: Symbol, kernel: Symbol, bias: Symbol | None = None, **at: Unpack[Convolving]) -> Symbol:
    """Cross-correlation, plus a bias if there is one."""
    assert kernel.shape is not None
    slid, counts = _windows(kernel.shape, at), x.sizes[1:-1]
    if _is_pointwise(kernel.shape, at["groups"]) and not current_scope().is_constant(kernel.name):
        return _at_points(x, kernel, bias, slid)
    options = padding_options(slid, counts)
    if "auto_pad" in options and max(at["dilation"]) > 1:  # ONNX Runtime cannot have both
        x, options = _padded(x, pairs_of(slid, counts)), {}
    operands = [channels_first(x), _kernel_first(kernel), *([] if bias is None else [bias])]
    return channels_last(node("Conv", *operands, **_attributes(at), **options), x.rank)


def _at_points(x: Symbol, kernel: Symbol, bias: Symbol | None, slid: Sequence[Window]) -> Symbol:
    """The convolution by a kernel of one element, which is a product. A constant kernel is not
    taken here: ONNX Runtime lays it out once, and joins it with what follows.
    """
    assert x.shape is not None
    channels, filters = kernel.sizes[-2:]
    counts = [w.count(n) for n, w in zip(x.shape[1:-1], slid, strict=True)]
    padded = _padded(x, pairs_of(slid, x.sizes[1:-1]))
    part = slice_(padded, slices=((None, None, 1), *[w.part(0) for w in slid], (None, None, 1)))
    part = part.known(Spec((x.shape[0], *counts, x.shape[-1]), x.dtype))
    y = node("MatMul", part.reshape((-1, channels)), kernel.reshape((channels, filters)))
    y = y if bias is None else node("Add", y, bias)
    return y.reshape((*part.sizes[:-1], filters))


@TABLE.add("conv_input_grad", unless=_is_product)
def conv_input_grad(
    g: Symbol, kernel: Symbol, *dims: Symbol, shape: Shape, **at: Unpack[Convolving]
) -> Symbol:
    """Gradient of a convolution by x; also the transposed convolution."""
    wanted = filled(shape, dims)[1:-1]
    slid = _windows(kernel.shape, at)
    pairs = pairs_of(slid, wanted)
    whole = [(n - 1) * w.stride + w.span for n, w in zip(g.sizes[1:-1], slid, strict=True)]
    # What windows reach behind the wanted end; less than 0 where they leave elements there unread.
    behind = [w - before - n for w, n, (before, _) in zip(whole, wanted, pairs, strict=True)]
    befores = [before for before, _ in pairs]
    options: dict[str, Any] = {}
    known = [b for b in behind if isinstance(b, int)]
    fixed = len(known) == len(behind) and all(static(pair) for pair in pairs)
    if fixed:
        options["pads"] = (*befores, *[max(b, 0) for b in known])
        options["output_padding"] = tuple([max(-b, 0) for b in known])
    operands = channels_first(g), _kernel_first(kernel)
    y = node("ConvTranspose", *operands, **_attributes(at), **options)
    return channels_last(y if fixed else _cut(y, befores, wanted, behind), g.rank)


def _cut(
    y: Symbol, before: Sequence[Size], wanted: Sequence[Size], behind: Sequence[Size]
) -> Symbol:
    """The wanted part of spatial axes, from `before` on, with zeros beyond the end."""
    missing = [at_least(0 - b, 0) for b in behind]
    if missing != [0] * len(wanted):
        y = node("Pad", y, vector([0] * (len(wanted) + 4) + missing))
    stops = [b + n for b, n in zip(before, wanted, strict=True)]
    return node("Slice", y, vector(before), vector(stops), ints(*range(2, 2 + len(wanted))))


@TABLE.add("conv_kernel_grad", unless=_is_kernel_product)
def conv_kernel_grad(
    x: Symbol, g: Symbol, *, kernel_shape: Ints, **at: Unpack[Convolving]
) -> Symbol:
    """Gradient of a convolution by the kernel.

    Matrix products take 0.3 to 0.9 of the time of a convolution. With groups it is a convolution of
    x with g in the place of the kernel: batch and channels swap their roles, and so do strides and
    dilation.
    """
    *window, channels, _ = kernel_shape
    rank, groups = x.rank, at["groups"]
    if x.sizes[0] == 0:  # without channels the kernel does not return
        return constant_of(kernel_shape, 0, x.dtype)
    slid, counts = _windows(kernel_shape, at), x.sizes[1:-1]
    pairs = pairs_of(slid, counts)
    if groups == 1:
        return _by_products(_padded(x, pairs), g, kernel_shape, slid)
    options = padding_options(slid, counts)
    if "auto_pad" in options:
        x, options = _padded(x, pairs), {}
    y = node(
        "Conv",
        _swapped(x, channels, groups),
        g.transpose((rank - 1, *range(rank - 1))),
        strides=at["dilation"],
        dilations=at["strides"],
        group=groups,
        **options,
    )
    # There may be more places than the kernel has elements.
    spatial = range(2, rank)
    y = node("Slice", y, ints(*[0] * len(window)), ints(*window), ints(*spatial))
    return y.transpose((*spatial, 0, 1))


def _by_products(x: Symbol, g: Symbol, kernel_shape: Ints, slid: Sequence[Window]) -> Symbol:
    """The gradient by the kernel for a padded x: a product with g for each row of the windows."""
    *window, channels, filters = kernel_shape
    last = x.rank - 2

    def at(y: Symbol, offsets: Sequence[int], first: int) -> Symbol:
        """The elements of all windows at some offsets along axes from `first` on."""
        every: list[tuple[int | None, int | None, int | None]] = [(None, None, 1)] * x.rank
        for axis, offset in enumerate(offsets, first):
            every[axis] = slid[axis - 1].part(offset)
        return slice_(y, slices=tuple(every))

    row = concat(*[at(x, [k], last) for k in range(window[-1])], axis=x.rank - 1)
    parts = [at(row, each, 1) for each in itertools.product(*map(range, window[:-1]))]
    width = window[-1] * channels
    if math.prod(window) * channels <= NARROW:
        # Several thin matrices cost more than one of them all.
        parts, width = [concat(*parts, axis=x.rank - 1)], math.prod(window) * channels
    cotangents = g.reshape((-1, filters))
    products = [node("Gemm", part.reshape((-1, width)), cotangents, transA=1) for part in parts]
    return concat(*products, axis=0).reshape(kernel_shape)


def _swapped(x: Symbol, channels: int, groups: int) -> Symbol:
    """(batch, *spatial, groups × channels) as (channels, groups × batch, *spatial)."""
    rank = x.rank
    batch, *spatial = x.sizes[:-1]
    parts = x.reshape((batch, *spatial, groups, channels))
    parts = parts.transpose((rank, rank - 1, *range(rank - 1)))
    return parts.reshape((channels, batch * groups, *spatial))
