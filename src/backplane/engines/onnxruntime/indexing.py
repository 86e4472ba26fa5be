"""Slices, and indexing by values."""

from __future__ import annotations

import math
from collections.abc import Sequence

from backplane.core.spec import Spec, is_float
from backplane.engines.onnxruntime.builder import (
    Shape,
    Size,
    Symbol,
    chosen,
    current_scope,
    ints,
    node,
    nodes,
    number,
    vector,
)
from backplane.engines.onnxruntime.elementwise import (
    TO_INT32,
    comparable,
    maximum,
    minimum,
    restored,
    through,
    where,
)
from backplane.engines.onnxruntime.shaping import END, constant_of, pad
from backplane.engines.onnxruntime.sizes import (
    as_scalar_of_int64,
    at_least,
    at_most,
    filled,
    shape_of,
    total,
)
from backplane.engines.table import Table

TABLE = Table(
    gather=lambda x, indices, *, axis: node("Gather", x, _indices(indices), axis=axis),
)

Slice = tuple[int | None, int | None, int | None]

# --- slices --------------------------------------------------------------------------------------


@TABLE.add("slice")
def slice_(x: Symbol, *, slices: tuple[Slice, ...]) -> Symbol:
    """The elements that Python's slices select."""
    parts = [(axis, *part) for axis, part in enumerate(slices) if part != (None, None, 1)]
    if not parts:
        return x
    return node(
        "Slice",
        x,
        ints(*[start or 0 for _, start, _, _ in parts]),
        ints(*[END if stop is None else stop for _, _, stop, _ in parts]),
        ints(*[axis for axis, *_ in parts]),
        ints(*[step or 1 for _, _, _, step in parts]),
    )


@TABLE.add("slice_grad")
def slice_grad(g: Symbol, *dims: Symbol, shape: Shape, slices: tuple[Slice, ...]) -> Symbol:
    """Zeros with `g` where the slices would read."""
    wanted = filled(shape, dims)
    spread = _spread(g, [step or 1 for *_, step in slices])
    padding: list[tuple[Size, Size]] = []
    for axis, (n, part) in enumerate(zip(wanted, slices, strict=True)):
        if part == (None, None, 1):
            padding.append((0, 0))
            continue
        before = _first(part[0], n)
        padding.append((before, n - before - spread.size(axis)))
    return pad(spread, padding=padding, value=0)


def _first(start: int | None, n: Size) -> Size:
    """The first index of a slice."""
    start = start or 0
    return at_most(start, n) if start >= 0 else at_least(n + start, 0)


def _spread(g: Symbol, steps: Sequence[int]) -> Symbol:
    """`g` with zeros between its elements, `steps` apart."""
    for axis, step in enumerate(steps):
        counts = g.sizes
        if step == 1 or counts[axis] == 1:
            continue
        padding = [(0, 0)] * g.rank
        padding.insert(axis + 1, (0, step - 1))
        longer = [*counts[: axis + 1], 1, *counts[axis + 1 :]]
        g = pad(g.reshape(longer), padding=padding, value=0)
        merged = [n * step if i == axis else n for i, n in enumerate(counts)]
        g = g.reshape(merged)
        last = at_least(merged[axis] - (step - 1), 0)
        shape = shape_of([last if i == axis else n for i, n in enumerate(merged)])
        g = node("Slice", g, ints(0), ints(1 - step), ints(axis), shape=shape)
    return g


# --- windows at positions that are computed ------------------------------------------------------


def _start(starts: Symbol, whole: Sequence[Size], window: Sequence[Size]) -> Symbol:
    """Starts moved so that the window lies inside."""
    last = vector([n - m for n, m in zip(whole, window, strict=True)])
    return maximum(minimum(starts.cast("int64"), last), ints(0))


@TABLE.add("dynamic_slice")
def dynamic_slice(x: Symbol, starts: Symbol, *dims: Symbol, shape: Shape) -> Symbol:
    """The window of a shape that begins at `starts`."""
    window = filled(shape, dims)
    if not window:
        return x
    start = _start(starts, x.sizes, window)
    stop = node("Add", start, vector(window))
    return node("Slice", x, start, stop, ints(*range(x.rank)), shape=shape)


@TABLE.add("dynamic_slice_grad")
@through({"bool": "uint8", "uint16": "uint32", "int16": "int32"})
def dynamic_slice_grad(g: Symbol, starts: Symbol, *dims: Symbol, shape: Shape) -> Symbol:
    """Zeros with `g` in the window that begins at `starts`."""
    whole, window = filled(shape, dims), g.sizes
    if not whole:
        return g
    before = _start(starts, whole, window)
    rest = vector([n - m for n, m in zip(whole, window, strict=True)])
    amounts = node("Concat", before, node("Sub", rest, before), axis=0)
    return node("Pad", g, amounts)


# --- indexing by values --------------------------------------------------------------------------


def _indices(indices: Symbol) -> Symbol:
    return indices if indices.dtype in ("int32", "int64") else indices.cast("int64")


@TABLE.add("scatter_add")
def scatter_add(g: Symbol, indices: Symbol, *dims: Symbol, shape: Shape, axis: int) -> Symbol:
    """Zeros with `g` added at the indices along an axis."""
    wanted = filled(shape, dims)
    if g.dtype == "float16":  # sums would be rounded after each addition
        wide = g.cast("float32")
        return scatter_add(wide, indices, *dims, shape=shape, axis=axis).cast(g.dtype)
    count = total(indices.sizes)
    outer, inner = total(wanted[:axis]), total(wanted[axis + 1 :])
    places = _indices(indices).reshape((count,))
    rows = g.reshape((outer, count, inner))
    if axis:
        rows = rows.transpose((1, 0, 2))
    width = outer * inner
    summed = _add_rows(rows.reshape((count, width)), places, (wanted[axis], width))
    if axis:
        summed = summed.reshape((wanted[axis], outer, inner)).transpose((1, 0, 2))
    return summed.reshape(wanted)


def _add_rows(rows: Symbol, places: Symbol, shape: tuple[Size, Size]) -> Symbol:
    """Zeros of a matrix's shape with rows added at places."""
    zeros = constant_of(shape, 0, rows.dtype)
    places = places.cast("int64")
    if current_scope().root.serial:
        at = places.reshape((rows.size(0), 1))
        return node("ScatterND", zeros, at, rows, reduction="add")
    # On several threads `ScatterND` loses additions, and `ScatterElements` is slow but for vectors.
    return _scattered(zeros, rows, places, shape, "add")


@TABLE.add("merged_rows", unless=lambda specs, **params: specs[0].dtype == "float16")
def merged_rows(g: Symbol, indices: Symbol, *, size: int) -> list[Symbol]:
    """`Unique`, which numbers the indices too."""
    axes = indices.rank
    count, width = total(indices.sizes), total(g.sizes[axes:])
    flat = _from_start(indices.cast("int64").reshape((count,)), size)
    once, _, places = nodes("Unique", [flat], ["int64"] * 3, sorted=1)
    once, places = once.known(Spec((None,), "int64")), places.known(Spec((None,), "int64"))
    sums = _add_rows(g.reshape((count, width)), places, (once.size(0), width))
    return [sums.reshape((once.size(0), *g.sizes[axes:])), once.cast("int32")]


@TABLE.add("rows_set")
def rows_set(x: Symbol, rows: Symbol, indices: Symbol) -> Symbol:
    """`ScatterND`."""
    return node("ScatterND", x, indices.cast("int64").reshape((rows.size(0), 1)), rows)


def _from_start(places: Symbol, count: Size) -> Symbol:
    """Indices, none of them negative."""
    negative = node("Less", places, number(0, "int64"))
    return node("Where", negative, node("Add", places, vector([count])), places)


def _scattered(
    x: Symbol, rows: Symbol, places: Symbol, shape: tuple[Size, Size], reduction: str
) -> Symbol:
    """A matrix of a shape whose rows at places are combined with others, all laid out in a line."""
    count, width = shape
    places = _from_start(places, count)
    steps = node("Range", *[as_scalar_of_int64(n) for n in (0, width, 1)])
    places = node("Mul", places.reshape((rows.size(0), 1)), vector([width]))
    flat = node("Add", places, steps).reshape((-1,))
    x, rows = x.reshape((-1,)), rows.reshape((-1,))
    y = node("ScatterElements", x, flat, rows, reduction=reduction, axis=0)
    return y.reshape(shape)


# --- the largest ---------------------------------------------------------------------------------


@TABLE.add("top_k")
def top_k(x: Symbol, *, k: int) -> list[Symbol]:
    """The k largest along the last axis, and where they are."""
    numbers = comparable(x)
    values, positions = nodes("TopK", [numbers, ints(k)], [numbers.dtype, "int64"])
    return [restored(values, x.dtype), positions.cast("int32")]


@TABLE.add("sort")
def sort(x: Symbol) -> list[Symbol]:
    """The k smallest, k being the size of the axis. NaN, which has no place among numbers, counts
    as infinite, and is moved behind all others if there is any.
    """
    keys = comparable(x)
    keys = keys.cast({"float16": "float32", **TO_INT32}.get(keys.dtype, keys.dtype))
    count = vector([x.size(x.rank - 1)])
    if not is_float(x.dtype):
        return _in_order(x, _smallest_first(keys, count))
    is_nan = node("IsNaN", keys)
    order = _smallest_first(where(is_nan, number(math.inf, keys.dtype), keys), count)

    def moved() -> list[Symbol]:
        behind = node("GatherElements", is_nan.cast("int32"), order, axis=-1)
        return [node("GatherElements", order, _smallest_first(behind, count), axis=-1)]

    some = node("ReduceSum", is_nan.cast("int32"), keepdims=0, shape=()).cast("bool")
    return _in_order(x, *chosen(some, ["int64"], moved, lambda: [order]))


def _smallest_first(keys: Symbol, count: Symbol) -> Symbol:
    return nodes("TopK", [keys, count], [keys.dtype, "int64"], largest=0)[1]


def _in_order(x: Symbol, order: Symbol) -> list[Symbol]:
    return [node("GatherElements", x, order, axis=-1, shape=x.shape), order.cast("int32")]


# --- rows combined with others -------------------------------------------------------------------


@TABLE.add("scatter")
@through({"float16": "float32", "int16": "int32", "uint16": "int32"})
def scatter(x: Symbol, indices: Symbol, updates: Symbol, *, by: str) -> Symbol:
    """`ScatterElements` on the table and its rows as matrices."""
    count, width = total(indices.sizes), total(x.sizes[1:])
    places = indices.cast("int64").reshape((count,))
    table, rows = x.reshape((x.size(0), width)), updates.reshape((count, width))
    reduction = "mul" if by == "product" else by
    return _scattered(table, rows, places, (x.size(0), width), reduction).reshape(x.sizes)
