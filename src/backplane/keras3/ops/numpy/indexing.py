"""Elements that are picked by position or by condition, and borders around tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from backplane.backend._args import as_axis
from backplane.core.graph import Tensor
from backplane.core.spec import is_integer
from backplane.keras3.call import op
from backplane.keras3.operands import tensor_of
from backplane.keras3.ops.numpy import logic
from backplane.keras3.ops.numpy.operands import along, flat, is_floating, length, lined_up, places
from backplane.keras3.ops.numpy.values import by_values
from backplane.ops import elementwise as ew
from backplane.ops import indexing
from backplane.ops import reduction as red
from backplane.ops.axes import merge_axes, permuted, reshape_to
from backplane.ops.creation import arange, scalar, shaped, size_at
from backplane.ops.indexing import ALL, gather
from backplane.ops.lift import cast_to
from backplane.ops.shaping import broadcast_to, concat

__all__ = ["nonzero", "pad", "take", "take_along_axis", "where"]


# --- by position ----------------------------------------------------------------------------------


def _positions(indices: Any) -> Tensor:
    indices = tensor_of(indices)
    return indices if is_integer(indices.spec.dtype) else cast_to(indices, "int32")


@op
def take(x: Any, indices: Any, axis: int | None = None) -> Tensor:
    """The slices of `x` along `axis` at the positions `indices`, or its elements if None. Negative
    positions count from the end.
    """
    x, at = along(tensor_of(x), axis)
    return gather(x, _positions(indices), axis=at)


@op
def take_along_axis(x: Any, indices: Any, axis: int | None = None) -> Tensor:
    """For each row of `x` along `axis` the elements at the positions that the same row of `indices`
    holds. The other axes are broadcast.
    """
    x, indices = tensor_of(x), _positions(indices)
    if axis is None:
        return gather(flat(x), flat(indices), axis=0)
    at = as_axis(axis, x)
    order = [*[i for i in range(x.ndim) if i != at], at]
    x, indices = permuted(x, order), permuted(indices, order)
    last = x.ndim - 1
    # Both with the same rows.
    x, indices = (_with_rows(t, other) for t, other in ((x, indices), (indices, x)))
    rows = merge_axes(x, [range(last), [last]])
    columns = merge_axes(indices, [range(last), [last]])
    n = cast_to(length(rows, 1), columns.spec.dtype)
    columns = ew.where(ew.less(columns, ew.zero(columns)), ew.add(columns, n), columns)
    starts = ew.mul(cast_to(places(columns, 0), columns.spec.dtype), n)
    found = gather(flat(rows), ew.add(columns, starts), axis=0)
    found = reshape_to(found, [(indices, i) for i in range(indices.ndim)])
    return permuted(found, [order.index(i) for i in range(len(order))])


def _with_rows(x: Tensor, other: Tensor) -> Tensor:
    """`x`, of which all axes but the last one are broadcast with those of another tensor."""
    sizes = [size_at(other if n == 1 else x, i) for i, n in enumerate(x.spec.shape[:-1])]
    if all(n == m for n, m in zip(x.spec.shape[:-1], other.spec.shape[:-1], strict=True)):
        return x
    return shaped(broadcast_to, [*sizes, size_at(x, x.ndim - 1)], x)


# --- by condition ---------------------------------------------------------------------------------


def where(condition: Any, x1: Any = None, x2: Any = None) -> Any:
    """The element of the first tensor where the condition holds, that of the second one elsewhere.
    Without these two, the positions where it holds, as `nonzero` gives them.

    Raises:
        ValueError: if only one of the two is given.
    """
    if x1 is None and x2 is None:
        return nonzero(condition)
    if x1 is None or x2 is None:
        raise ValueError("where: x1 and x2 must either both be given, or none of them")
    return _where(condition, x1, x2)


@op
def _where(condition: Any, x1: Any, x2: Any) -> Tensor:
    return logic.chosen(condition, x1, x2)


@by_values("how many elements are not 0 is only known when they are computed")
def nonzero(x: Any) -> tuple[np.ndarray, ...]:
    """The positions of the elements that are not 0: one int32 vector for each axis."""
    return tuple(found.astype("int32") for found in np.nonzero(np.atleast_1d(x)))


# --- borders --------------------------------------------------------------------------------------


@op(static=("pad_width",))
def pad(x: Any, pad_width: Any, mode: str = "constant", constant_values: Any = None) -> Tensor:
    """The elements inside a border. `pad_width` is a pair (before, after) for each axis, or one for
    all, or a number.

    Raises:
        ValueError: for an unknown mode, and for `constant_values` with another mode than
            "constant".
    """
    x = tensor_of(x)
    widths = np.broadcast_to(np.asarray(pad_width, int), (x.ndim, 2)).tolist()
    if constant_values is not None and mode != "constant":
        raise ValueError(
            "Argument `constant_values` can only be provided when `mode == 'constant'`. Received: "
            f"mode={mode}"
        )
    if mode in ("constant", "empty"):
        return _filled(x, widths, 0 if constant_values is None else constant_values)
    if mode not in _SOURCES and mode not in _VALUES and mode != "linear_ramp":
        modes = ", ".join(sorted(["constant", "empty", "linear_ramp", *_SOURCES, *_VALUES]))
        raise ValueError(f"pad: mode must be one of {modes}, got {mode!r}")
    for axis, (before, after) in enumerate(widths):
        if not before and not after:
            continue
        if mode in _SOURCES:
            x = _gathered(x, axis, before, after, _SOURCES[mode])
        elif mode in _VALUES:
            edge = _VALUES[mode](x, axis)
            x = _surrounded(x, axis, [(edge, before), (edge, after)])
        else:
            x = _ramped(x, axis, before, after)
    return x


def _filled(x: Tensor, widths: list[list[int]], values: Any) -> Tensor:
    """`x` inside a border of constants: one, or a pair for each axis."""
    if isinstance(values, bool | int | float) and x.spec.dtype != "bool":
        return indexing.pad(x, padding=tuple([(a, b) for a, b in widths]), value=float(values))
    pairs: Any = [[values] * 2] * x.ndim
    if isinstance(values, list | tuple):
        pairs = np.broadcast_to(np.asarray(values), (x.ndim, 2)).tolist()
    for axis, ((before, after), pair) in enumerate(zip(widths, pairs, strict=True)):
        edges = [cast_to(tensor_of(v), x.spec.dtype) for v in pair]
        x = _surrounded(x, axis, [(edges[0], before), (edges[1], after)])
    return x


def _surrounded(x: Tensor, axis: int, edges: list[tuple[Tensor, int]]) -> Tensor:
    """`x` between borders along `axis`, which are broadcast."""
    sizes = [size_at(x, i) for i in range(x.ndim)]
    borders = []
    for edge, width in edges:
        sizes[axis] = width
        borders.append([shaped(broadcast_to, sizes, edge)] if width else [])
    return concat(*borders[0], x, *borders[1], axis=axis)


def _gathered(
    x: Tensor, axis: int, before: int, after: int, source: Callable[..., Tensor]
) -> Tensor:
    """`x` with a border of its own elements along `axis`: `source` tells which ones, by places that
    are counted from the first element on, and by the size.
    """
    n = length(x, axis)
    total = ew.add(n, scalar(after, "int32"))
    at = arange(scalar(-before, "int32"), total, scalar(1, "int32"), dtype="int32")
    return gather(x, source(at, n), axis=axis)


def _edge(at: Tensor, n: Tensor) -> Tensor:
    last = ew.sub(n, scalar(1, "int32"))
    return ew.minimum(ew.maximum(at, scalar(0, "int32")), last)


def _symmetric(at: Tensor, n: Tensor) -> Tensor:
    period = ew.add(n, n)
    inside = ew.mod(at, period)
    return ew.minimum(inside, ew.sub(ew.sub(period, scalar(1, "int32")), inside))


def _reflect(at: Tensor, n: Tensor) -> Tensor:
    last = ew.sub(n, scalar(1, "int32"))
    period = ew.maximum(ew.add(last, last), scalar(1, "int32"))
    inside = ew.mod(at, period)
    return ew.minimum(inside, ew.sub(ew.add(last, last), inside))


_SOURCES: dict[str, Callable[..., Tensor]] = {
    "edge": _edge, "symmetric": _symmetric, "reflect": _reflect, "wrap": ew.mod,
    "circular": ew.mod,
}  # fmt: skip
"""Modes whose border repeats elements."""


def _whole_mean(x: Tensor, axis: int) -> Tensor:
    if is_floating(x):
        return red.mean(x, axes=(axis,), keepdims=True)
    found = red.mean(cast_to(x, "float64"), axes=(axis,), keepdims=True)
    return cast_to(ew.round(found), x.spec.dtype)


_VALUES: dict[str, Callable[[Tensor, int], Tensor]] = {
    "maximum": lambda x, axis: red.max(x, axes=(axis,), keepdims=True),
    "minimum": lambda x, axis: red.min(x, axes=(axis,), keepdims=True),
    "mean": _whole_mean,
}
"""Modes whose border is one number along an axis."""


def _ramped(x: Tensor, axis: int, before: int, after: int) -> Tensor:
    """`x` with borders along `axis` that fall to 0 at their ends."""
    lead = (ALL,) * axis
    rest = (ALL,) * (x.ndim - axis - 1)
    parts = [x]
    for width, part, towards in ((before, (0, 1, 1), 1), (after, (-1, None, 1), -1)):
        if not width:
            continue
        edge = indexing.slice(x, slices=(*lead, part, *rest))
        steps = np.arange(width)[::towards] / width
        ramp = lined_up(tensor_of(steps.astype("float32")), axis, x.ndim)
        border = ew.mul(cast_to(edge, "float32"), ramp)
        border = cast_to(border if is_floating(x) else ew.round(border), x.spec.dtype)
        parts = [border, *parts] if towards == 1 else [*parts, border]
    return concat(*parts, axis=axis)
