"""Pooling. Positions of maxima are ONNX': places in the whole tensor with channels first."""

from __future__ import annotations

from typing import Any

from backplane.core.spec import is_float
from backplane.engines.base import Padding, Table
from backplane.engines.onnxruntime.builder import (
    Symbol,
    node,
    nodes,
)
from backplane.engines.onnxruntime.convolution import (
    Ints,
    channels_first,
    channels_last,
    padding_options,
)
from backplane.engines.onnxruntime.shaping import constant_of
from backplane.engines.onnxruntime.sizes import (
    reshape,
    sizes,
    total,
)

TABLE = Table()


def _options(x: Symbol, pool: Ints, strides: Ints, padding: Padding) -> dict[str, Any]:
    ones = (1,) * len(pool)
    options = padding_options(padding, sizes(x)[1:-1], pool, strides, ones)
    return {"kernel_shape": pool, "strides": strides, **options}


@TABLE.add("max_pool")
def max_pool(x: Symbol, *, pool: Ints, strides: Ints, padding: Padding) -> list[Symbol]:
    """The maximum of each window, and where it is."""
    options = _options(x, pool, strides, padding)
    y, positions = nodes("MaxPool", [channels_first(x)], [x.dtype, "int64"], **options)
    return [channels_last(y, x.rank), channels_last(positions, x.rank)]


@TABLE.add("max_pool_grad", reads=(0, 1, 3))
def max_pool_grad(
    g: Symbol,
    x: Symbol,
    y: Symbol | None,
    positions: Symbol,
    *,
    pool: Ints,
    strides: Ints,
    padding: Padding,
) -> Symbol:
    """Zeros with `g` added at the positions."""
    batch, *spatial, channels = sizes(x)
    zeros = constant_of([total([batch, channels, *spatial])], 0, g.dtype)
    places, parts = (reshape(channels_first(t), (-1,)) for t in (positions, g))
    flat = node("ScatterElements", zeros, places, parts, reduction="add", axis=0)
    return channels_last(reshape(flat, (batch, channels, *spatial)), x.rank)


@TABLE.add("max_pool_take", reads=(0, 3))
def max_pool_take(
    v: Symbol,
    x: Symbol | None,
    y: Symbol | None,
    positions: Symbol,
    *,
    pool: Ints,
    strides: Ints,
    padding: Padding,
) -> Symbol:
    """`v` at the positions."""
    taken = node("Gather", reshape(channels_first(v), (-1,)), channels_first(positions), axis=0)
    return channels_last(taken, v.rank)


@TABLE.add("avg_pool")
def avg_pool(x: Symbol, *, pool: Ints, strides: Ints, padding: Padding) -> Symbol:
    """Mean of each window over its elements that are no padding."""
    options = _options(x, pool, strides, padding)
    return channels_last(node("AveragePool", channels_first(x), **options), x.rank)


DECOMPOSED = {
    "max_pool": lambda specs, **params: not is_float(specs[0].dtype),
    "avg_pool": lambda specs, **params: specs[0].dtype == "float64",
}
"""Where there is no kernel for the dtype."""
