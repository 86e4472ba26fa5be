"""Slices, and indexing by values."""

from __future__ import annotations

from collections.abc import Sequence

from backplane.engines.onnxruntime.builder import (
    Shape,
    Size,
    Symbol,
    current,
    ints,
    node,
    nodes,
    number,
    vector,
)
from backplane.engines.onnxruntime.elementwise import comparable, restored, through
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
    """Where a slice begins."""
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
    return node("Max", node("Min", starts.cast("int64"), last), ints(0))


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
    if current().root.serial:
        at = places.reshape((rows.size(0), 1))
        return node("ScatterND", zeros, at, rows, reduction="add")
    # On several threads `ScatterND` loses additions, and `ScatterElements` is slow but for vectors.
    count, width = shape
    negative = node("Less", places, number(0, "int64"))
    from_end = node("Add", places, vector([count]))
    places = node("Where", negative, from_end, places)
    steps = node("Range", *[as_scalar_of_int64(n) for n in (0, width, 1)])
    places = node("Mul", places.reshape((rows.size(0), 1)), vector([width]))
    flat = node("Add", places, steps).reshape((-1,))
    zeros, rows = zeros.reshape((-1,)), rows.reshape((-1,))
    summed = node("ScatterElements", zeros, flat, rows, reduction="add", axis=0)
    return summed.reshape(shape)


# --- the largest ---------------------------------------------------------------------------------


@TABLE.add("top_k")
def top_k(x: Symbol, *, k: int) -> list[Symbol]:
    """The k largest along the last axis, and where they are."""
    numbers = comparable(x)
    values, positions = nodes("TopK", [numbers, ints(k)], [numbers.dtype, "int64"])
    return [restored(values, x.dtype), positions.cast("int32")]
