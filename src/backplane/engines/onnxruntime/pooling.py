"""Pooling. Positions of maxima are ONNX': places in the whole tensor with channels first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Unpack

from backplane.core.spec import Spec, is_float
from backplane.core.windows import Ints, Padding, Pooling, windows
from backplane.engines.onnxruntime.builder import Symbol, ints, node, nodes, number, vector
from backplane.engines.onnxruntime.convolution import channels_first, channels_last, padding_options
from backplane.engines.onnxruntime.shaping import concat, constant_of
from backplane.engines.onnxruntime.sizes import total
from backplane.engines.table import Table

TABLE = Table()


@TABLE.add("check_windows")
def check_windows(x: Symbol, *, sizes: Ints) -> Symbol:
    """`x` itself. When the model runs, there is an error if an axis is shorter than the window."""
    long = [(axis, n) for axis, n in enumerate(sizes) if n]
    counts = vector([x.size(axis) for axis, _ in long])
    short = node("Less", counts, ints(*[n for _, n in long]))
    # The only element of a list is looked up, at 0 if all windows fit and else at 1.
    index = node("ReduceMax", short.cast("int64"), keepdims=1, shape=(1,))
    nothing = node("Gather", ints(0), index, axis=0)
    shape = node("Add", node("Shape", x, shape=(x.rank,)), nothing)
    return node("Reshape", x, shape, shape=x.shape)


def _gaps(x: Spec, *, pool: Ints, strides: Ints, padding: Padding) -> bool:
    """Whether the kernel would pad by a negative amount: `"same"`, windows below the stride."""
    smaller = any(k < s for k, s in zip(pool, strides, strict=True))
    return smaller and padding == "same" and None in x.shape[1:-1]


def _options(x: Symbol, *, pool: Ints, strides: Ints, padding: Padding) -> dict[str, Any]:
    options = padding_options(windows(pool, strides, padding), x.sizes[1:-1])
    return {"kernel_shape": pool, "strides": strides, **options}


@TABLE.add(
    "max_pool", unless=lambda specs, **at: not is_float(specs[0].dtype) or _gaps(specs[0], **at)
)
def max_pool(x: Symbol, **at: Unpack[Pooling]) -> list[Symbol]:
    """The maximum of each window, and where it is."""
    options = _options(x, **at)
    y, positions = nodes("MaxPool", [channels_first(x)], [x.dtype, "int64"], **options)
    return [channels_last(y, x.rank), channels_last(positions, x.rank)]


@TABLE.add("max_pool_grad", unless=lambda specs, **at: _gaps(specs[1], **at))
def max_pool_grad(
    g: Symbol, x: Symbol, y: Symbol, positions: Symbol, **at: Unpack[Pooling]
) -> Symbol:
    """Zeros with `g` added at the positions."""
    batch, *spatial, channels = x.sizes
    if _tiles(x, **at):
        return _by_tiles(g, x, y, at["pool"])
    wide = "float32" if g.dtype == "float16" else g.dtype  # the kernel lacks float16
    zeros = constant_of([total([batch, channels, *spatial])], 0, wide)
    places, parts = (channels_first(t).reshape((-1,)) for t in (positions, g.cast(wide)))
    flat = node("ScatterElements", zeros, places, parts, reduction="add", axis=0).cast(g.dtype)
    return channels_last(flat.reshape((batch, channels, *spatial)), x.rank)


def _tiles(x: Symbol, *, pool: Ints, strides: Ints, padding: Padding) -> bool:
    """Whether the windows touch, and each element is in one of them."""
    _, *spatial, channels = x.sizes
    padded = not isinstance(padding, str) and any(map(any, padding))
    fit = all(isinstance(n, int) and n % k == 0 for n, k in zip(spatial, pool, strict=True))
    return fit and pool == strides and not padded and isinstance(channels, int)


def _by_tiles(g: Symbol, x: Symbol, y: Symbol, pool: Ints) -> Symbol:
    """`g` where the first maximum of each window is: one matrix for each place in a window.

    A pooling that also gives positions takes ten times as long; here nothing reads them.
    """
    _, *counts, channels = y.sizes
    widths = [math.prod([*counts[i + 1 :], channels]) for i in range(len(pool))]
    parts: dict[Ints, Symbol] = {(): x}
    for k, width in reversed(list(zip(pool, widths, strict=True))):
        cut = {at: part.reshape((-1, k * width)) for at, part in parts.items()}
        pieces = {at: _split(part, k) for at, part in cut.items()}
        parts = {(i, *at): pieces[at][i] for i in range(k) for at in pieces}
    rows = [t.reshape((-1, widths[0])) for t in (y, g)]
    parts = _at_first_maximum(parts, *rows)
    for k, width in zip(pool, widths, strict=True):
        parts = {at: part.reshape((-1, width)) for at, part in parts.items()}
        rest = dict.fromkeys([at[1:] for at in parts])
        parts = {at: concat(*[parts[i, *at] for i in range(k)], axis=1) for at in rest}
    return parts[()].reshape(x.sizes)


def _split(x: Symbol, count: int) -> list[Symbol]:
    if count == 1:
        return [x]
    return nodes("Split", [x], [x.dtype] * count, axis=1, num_outputs=count)


def _at_first_maximum(parts: dict[Ints, Symbol], y: Symbol, g: Symbol) -> dict[Ints, Symbol]:
    """For each place in the windows, in row-major order: `g` where the first maximum is."""
    before: Symbol | None = None
    masked = {}
    for at in sorted(parts):
        hit = node("Equal", parts[at], y)
        first = hit if before is None else node("And", hit, node("Not", before))
        before = hit if before is None else node("Or", before, hit)
        masked[at] = node("Where", first, g, number(0, g.dtype))
    return masked


def _has_no_kernel(specs: Sequence[Spec], **at: Unpack[Pooling]) -> bool:
    """Whether the kernel lacks the dtype or the gaps, or sums of slices serve: over one or three
    axes they take 0.07 to 0.34 of its time for 16,000 elements and more.
    """
    x = specs[0]
    return x.dtype == "float64" or x.ndim != 4 or _gaps(x, **at)


@TABLE.add("avg_pool", unless=_has_no_kernel)
def avg_pool(x: Symbol, **at: Unpack[Pooling]) -> Symbol:
    """Mean of each window over its elements that are no padding."""
    return channels_last(node("AveragePool", channels_first(x), **_options(x, **at)), x.rank)
