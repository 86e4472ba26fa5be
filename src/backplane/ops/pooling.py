"""Pooling in one to three dimensions and its gradients. Axes are (batch, *spatial, channels).

The gradients are primitives: that of `max_pool` reads the result and the private positions that the
forward pass found, so that an engine need not search for the maxima again. `max_pool_grad` and
`max_pool_take` are each other's gradient, and so are `avg_pool` and `avg_pool_grad`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from backplane.core.graph import Tensor
from backplane.core.primitive import primitive
from backplane.core.spec import Spec, is_float
from backplane.core.traits import Memory
from backplane.core.windows import Ints, Padding
from backplane.core.windows import windows as windows_over
from backplane.ops import elementwise as ew
from backplane.ops import windows as win
from backplane.ops.convolution import batch_of_first
from backplane.ops.creation import check_sizes, dims_of, full, given, scalar
from backplane.ops.reduction import argmax
from backplane.ops.shaping import Sizes, stack
from backplane.ops.windows import Amount, Pads, Place, Windows


def _result_shape(name: str, x: Sizes, pool: Ints, strides: Ints, padding: Padding) -> Sizes:
    if not 3 <= len(x) <= 5:
        raise ValueError(
            f"{name}: x must have 3 to 5 axes (batch, 1 to 3 spatial, channels), got {x}"
        )
    if len(pool) != len(x) - 2:
        raise ValueError(f"{name}: pool must be {len(x) - 2} ints for x of shape {x}, got {pool}")
    windows = win.windows_of(name, pool, strides, (1,) * len(pool), padding)
    if any(not isinstance(w.padding, str) and max(w.padding) >= w.size for w in windows):
        # At least one element of each window must be one of the tensor.
        raise ValueError(f"{name}: padding {padding} must be smaller than the window {pool}")
    return (x[0], *win.output_sizes(name, x[1:-1], windows), x[-1])


def _check_float(name: str, what: str, x: Spec) -> None:
    if not is_float(x.dtype):
        raise TypeError(f"{name}: {what} must be float, got dtype {x.dtype}")


# --- maximum --------------------------------------------------------------------------------------


@primitive(multiple=True, memory=Memory.FRESH)
def max_pool(x: Spec, *, pool: Ints, strides: Ints, padding: Padding) -> list[Spec]:
    """The maximum of each window, and where it is: positions that only the engine understands."""
    if x.dtype == "bool":
        raise TypeError("max_pool: x must be a number type, got dtype bool")
    shape = _result_shape("max_pool", x.shape, pool, strides, padding)
    return [Spec(shape, x.dtype), Spec(shape, "int64")]


@primitive(memory=Memory.FRESH, linear=(0,), axes=lambda node, axis: [(node.inputs[1], axis)])
def max_pool_grad(
    g: Spec, x: Spec, y: Spec, positions: Spec, *, pool: Ints, strides: Ints, padding: Padding
) -> Spec:
    """The gradient of `max_pool` by `x`: `g` goes to the first maximum of each window."""
    _check_float("max_pool_grad", "g", g)
    shape = _result_shape("max_pool_grad", x.shape, pool, strides, padding)
    for what, operand in (("g", g), ("y", y), ("positions", positions)):
        win.check_output("max_pool_grad", what, operand, shape)
    return Spec(x.shape, g.dtype)


@primitive(memory=Memory.FRESH, linear=(0,), axes=lambda node, axis: [(node.inputs[2], axis)])
def max_pool_take(
    v: Spec, x: Spec, y: Spec, positions: Spec, *, pool: Ints, strides: Ints, padding: Padding
) -> Spec:
    """`v` where the first maximum of each window of `x` is: `max_pool_grad` transposed."""
    _check_float("max_pool_take", "v", v)
    shape = _result_shape("max_pool_take", x.shape, pool, strides, padding)
    win.check_output("max_pool_take", "v", v, x.shape)
    for what, operand in (("y", y), ("positions", positions)):
        win.check_output("max_pool_take", what, operand, shape)
    return Spec(shape, v.dtype)


max_pool.vjps(lambda g, y, x, **params: max_pool_grad(g[0], x, *y, **params))
max_pool_grad.vjps(lambda c, y, g, *at, **params: max_pool_take(c, *at, **params))
max_pool_take.vjps(lambda c, y, v, *at, **params: max_pool_grad(c, *at, **params))


# --- mean -----------------------------------------------------------------------------------------


@primitive(memory=Memory.FRESH, linear=(0,), axes=batch_of_first)
def avg_pool(x: Spec, *, pool: Ints, strides: Ints, padding: Padding) -> Spec:
    """The mean of each window over its elements that are no padding."""
    _check_float("avg_pool", "x", x)
    return Spec(_result_shape("avg_pool", x.shape, pool, strides, padding), x.dtype)


@primitive(host=1, memory=Memory.FRESH, linear=(0,), axes=given)
def avg_pool_grad(
    g: Spec, *dims: Spec, shape: Sizes, pool: Ints, strides: Ints, padding: Padding
) -> Spec:
    """The gradient of `avg_pool` by its `x`, which has `shape`."""
    _check_float("avg_pool_grad", "g", g)
    check_sizes("avg_pool_grad", shape, dims)
    wanted = _result_shape("avg_pool_grad", shape, pool, strides, padding)
    win.check_output("avg_pool_grad", "g", g, wanted)
    return Spec(shape, g.dtype)


def _avg_pool_x(g: Tensor, y: Tensor, x: Tensor, **params: Any) -> Tensor:
    dims, shape = dims_of(x)
    return avg_pool_grad(g, *dims, shape=shape, **params)


avg_pool.vjps(_avg_pool_x)
avg_pool_grad.vjps(lambda c, y, g, *dims, shape, **params: avg_pool(c, **params))


# --- decompositions -------------------------------------------------------------------------------


def _lowest(dtype: str) -> float:
    return -math.inf if is_float(dtype) else int(np.iinfo(dtype).min)


def _reduced(x: Tensor, windows: Windows, combine: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """The padded `x` combined over its windows, one axis after another."""
    for axis, w in enumerate(windows, 1):
        x = reduce(combine, [win.read(x, (axis, w, offset)) for offset in range(w.size)])
    return x


def _spatial_full(sizes: Sequence[Amount], value: float, dtype: str) -> Tensor:
    """A filled tensor with these spatial sizes; its batch and channel axes have size 1."""
    dims = [n for n in sizes if isinstance(n, Tensor)]
    shape = (1, *[n if isinstance(n, int) else None for n in sizes], 1)
    return full(*dims, shape=shape, value=value, dtype=dtype)


@max_pool.decompose
def _(x: Tensor, *, pool: Ints, strides: Ints, padding: Padding) -> list[Tensor]:
    windows = windows_over(pool, strides, padding)
    x = win.pad_ends(x, win.pairs_of(win.spatial_sizes(x), windows), _lowest(x.spec.dtype))
    # Only to keep the contract: the decomposed gradients are handed any engine's positions, so they
    # find the maxima again, and nothing computes these.
    positions = argmax(
        stack([win.read(x, *win.places(windows, at)) for at in win.offsets(windows)], 0), axis=0
    )
    return [_reduced(x, windows, ew.maximum), positions]


def _hits(
    x: Tensor, y: Tensor, windows: Windows, pairs: Pads
) -> Iterator[tuple[list[Place], Tensor]]:
    """For each place in a window: in which windows the first maximum is there."""
    inside = None
    if win.is_padded(pairs):
        # A window of nothing but the lowest number must not find it in the padding.
        inside = win.pad_ends(_spatial_full(win.spatial_sizes(x), True, "bool"), pairs, False)
    x = win.pad_ends(x, pairs, _lowest(x.spec.dtype))
    found: Tensor | None = None
    for at in win.offsets(windows):
        place = win.places(windows, at)
        hit = ew.equal(win.read(x, *place), y)
        if inside is not None:
            hit = ew.logical_and(hit, win.read(inside, *place))
        yield place, hit if found is None else ew.logical_and(hit, ew.logical_not(found))
        found = hit if found is None else ew.logical_or(found, hit)


@max_pool_grad.decompose
def _(g: Tensor, x: Tensor, y: Tensor, positions: Tensor, **params: Any) -> Tensor:
    windows = windows_over(params["pool"], params["strides"], params["padding"])
    sizes = win.spatial_sizes(x)
    pairs = win.pairs_of(sizes, windows)
    padded = win.padded_sizes(sizes, pairs)
    zero = scalar(0, g.spec.dtype)
    parts = [
        win.write(ew.where(hit, g, zero), padded, *place)
        for place, hit in _hits(x, y, windows, pairs)
    ]
    return win.crop_ends(reduce(ew.add, parts), pairs, *dims_of(x))


@max_pool_take.decompose
def _(v: Tensor, x: Tensor, y: Tensor, positions: Tensor, **params: Any) -> Tensor:
    windows = windows_over(params["pool"], params["strides"], params["padding"])
    pairs = win.pairs_of(win.spatial_sizes(x), windows)
    v = win.pad_ends(v, pairs, 0)
    taken: Tensor = scalar(0, v.spec.dtype)
    for place, hit in _hits(x, y, windows, pairs):
        taken = ew.where(hit, win.read(v, *place), taken)
    return taken


def _counts(sizes: Sequence[Amount], windows: Windows, pairs: Pads, dtype: str) -> Tensor:
    """How many elements of each window are no padding."""
    if not win.is_padded(pairs):
        return scalar(prod(w.size for w in windows), dtype)
    return _reduced(win.pad_ends(_spatial_full(sizes, 1, dtype), pairs, 0), windows, ew.add)


@avg_pool.decompose
def _(x: Tensor, *, pool: Ints, strides: Ints, padding: Padding) -> Tensor:
    windows = windows_over(pool, strides, padding)
    sizes = win.spatial_sizes(x)
    pairs = win.pairs_of(sizes, windows)
    total = _reduced(win.pad_ends(x, pairs, 0), windows, ew.add)
    return ew.div(total, _counts(sizes, windows, pairs, x.spec.dtype))


@avg_pool_grad.decompose
def _(
    g: Tensor, *dims: Tensor, shape: Sizes, pool: Ints, strides: Ints, padding: Padding
) -> Tensor:
    windows = windows_over(pool, strides, padding)
    sizes = win.amounts(shape, dims)[1:-1]
    pairs = win.pairs_of(sizes, windows)
    share = ew.div(g, _counts(sizes, windows, pairs, g.spec.dtype))
    padded = win.padded_sizes(sizes, pairs)
    for axis, w in enumerate(windows, 1):
        share = reduce(
            ew.add, [win.write(share, padded, (axis, w, offset)) for offset in range(w.size)]
        )
    return win.crop_ends(share, pairs, dims, shape)
