"""Shaping, slices, indexing and creation."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from backplane.core.spec import is_float
from backplane.engines.base import Table
from backplane.engines.onnxruntime.builder import (
    Shape,
    Size,
    Symbol,
    cast,
    current,
    ints,
    literal,
    node,
    number,
    transpose,
)
from backplane.engines.onnxruntime.sizes import (
    as_scalar,
    at_least,
    at_most,
    filled,
    reshape,
    shape_of,
    size,
    sizes,
    static,
    total,
    vector,
)

TABLE = Table()

Slice = tuple[int | None, int | None, int | None]
END = 2**63 - 1
_SMALL = 64


@TABLE.add("dim")
def dim(x: Symbol, *, axis: int) -> Symbol:
    """The size of an axis as an int32 scalar."""
    return as_scalar(size(x, axis))


@TABLE.add("reshape")
def reshape_(x: Symbol, *dims: Symbol, shape: Shape) -> Symbol:
    """The elements in another shape."""
    return reshape(x, filled(shape, dims))


@TABLE.add("broadcast_to")
def broadcast_to(x: Symbol, *dims: Symbol, shape: Shape) -> Symbol:
    """`x` repeated to a larger shape."""
    if 0 in shape:  # ONNX Runtime's optimizer takes a size of 0 for no change
        return constant_of(filled(shape, dims), 0, x.dtype)
    return node("Expand", x, vector(filled(shape, dims)), shape=shape)


@TABLE.add("transpose")
def transpose_(x: Symbol, *, perm: tuple[int, ...]) -> Symbol:
    """The axes in another order."""
    return transpose(x, perm)


@TABLE.add("expand_dims")
def expand_dims(x: Symbol, *, axes: tuple[int, ...]) -> Symbol:
    """New axes of size 1."""
    return node("Unsqueeze", x, ints(*axes)) if axes else x


@TABLE.add("squeeze")
def squeeze(x: Symbol, *, axes: tuple[int, ...]) -> Symbol:
    """Without some axes of size 1."""
    return node("Squeeze", x, ints(*axes)) if axes else x


@TABLE.add("concat")
def concat(*xs: Symbol, axis: int) -> Symbol:
    """Tensors one after another along an axis."""
    return node("Concat", *xs, axis=axis) if len(xs) > 1 else xs[0]


@TABLE.add("flip")
def flip(x: Symbol, *, axes: tuple[int, ...]) -> Symbol:
    """The elements along axes in reverse order."""
    if not axes:
        return x
    back = [-1] * len(axes)
    return node("Slice", x, ints(*back), ints(*[-END] * len(axes)), ints(*axes), ints(*back))


# --- padding -------------------------------------------------------------------------------------


@TABLE.add("pad")
def pad(x: Symbol, *, padding: Sequence[tuple[Size, Size]], value: float) -> Symbol:
    """`x` with constants around it."""
    if all(isinstance(n, int) and n == 0 for pair in padding for n in pair):
        return x
    wide = {"bool": "uint8", "uint16": "uint32", "int16": "int32"}.get(x.dtype, x.dtype)
    amounts = vector([*[before for before, _ in padding], *[after for _, after in padding]])
    whole = [
        None if n is None else n + before + after
        for n, (before, after) in zip(x.shape or (), padding, strict=True)
    ]
    shape = tuple([n if isinstance(n, int) else None for n in whole])
    return cast(node("Pad", cast(x, wide), amounts, number(value, wide), shape=shape), x.dtype)


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
        padding.append((before, n - before - size(spread, axis)))
    return pad(spread, padding=padding, value=0)


def _first(start: int | None, n: Size) -> Size:
    """Where a slice begins."""
    start = start or 0
    return at_most(start, n) if start >= 0 else at_least(n + start, 0)


def _spread(g: Symbol, steps: Sequence[int]) -> Symbol:
    """`g` with zeros between its elements, `steps` apart."""
    for axis, step in enumerate(steps):
        counts = sizes(g)
        if step == 1 or counts[axis] == 1:
            continue
        padding = [(0, 0)] * g.rank
        padding.insert(axis + 1, (0, step - 1))
        longer = [*counts[: axis + 1], 1, *counts[axis + 1 :]]
        g = pad(reshape(g, longer), padding=padding, value=0)
        merged = [n * step if i == axis else n for i, n in enumerate(counts)]
        g = reshape(g, merged)
        last = at_least(merged[axis] - (step - 1), 0)
        shape = shape_of([last if i == axis else n for i, n in enumerate(merged)])
        g = node("Slice", g, ints(0), ints(1 - step), ints(axis), shape=shape)
    return g


# --- windows at positions that are computed ------------------------------------------------------


def _start(starts: Symbol, whole: Sequence[Size], window: Sequence[Size]) -> Symbol:
    """Starts moved so that the window lies inside."""
    last = vector([n - m for n, m in zip(whole, window, strict=True)])
    return node("Max", node("Min", cast(starts, "int64"), last), ints(0))


@TABLE.add("dynamic_slice")
def dynamic_slice(x: Symbol, starts: Symbol, *dims: Symbol, shape: Shape) -> Symbol:
    """The window of a shape that begins at `starts`."""
    window = filled(shape, dims)
    if not window:
        return x
    start = _start(starts, sizes(x), window)
    stop = node("Add", start, vector(window))
    return node("Slice", x, start, stop, ints(*range(x.rank)), shape=shape)


@TABLE.add("dynamic_slice_grad")
def dynamic_slice_grad(g: Symbol, starts: Symbol, *dims: Symbol, shape: Shape) -> Symbol:
    """Zeros with `g` in the window that begins at `starts`."""
    whole, window = filled(shape, dims), sizes(g)
    if not whole:
        return g
    before = _start(starts, whole, window)
    rest = vector([n - m for n, m in zip(whole, window, strict=True)])
    amounts = node("Concat", before, node("Sub", rest, before), axis=0)
    wide = {"bool": "uint8", "uint16": "uint32", "int16": "int32"}.get(g.dtype, g.dtype)
    return cast(node("Pad", cast(g, wide), amounts, number(0, wide)), g.dtype)


# --- indexing by values --------------------------------------------------------------------------


def _indices(indices: Symbol) -> Symbol:
    return indices if indices.dtype in ("int32", "int64") else cast(indices, "int64")


@TABLE.add("gather")
def gather(x: Symbol, indices: Symbol, *, axis: int) -> Symbol:
    """The slices of `x` along an axis that the indices name."""
    return node("Gather", x, _indices(indices), axis=axis)


@TABLE.add("scatter_add")
def scatter_add(g: Symbol, indices: Symbol, *dims: Symbol, shape: Shape, axis: int) -> Symbol:
    """Zeros with `g` added at the indices along an axis."""
    wanted = filled(shape, dims)
    if g.dtype == "float16":  # sums would be rounded after each addition
        wide = cast(g, "float32")
        return cast(scatter_add(wide, indices, *dims, shape=shape, axis=axis), g.dtype)
    count = total(sizes(indices))
    outer, inner = total(wanted[:axis]), total(wanted[axis + 1 :])
    places = reshape(_indices(indices), (count,))
    rows = reshape(g, (outer, count, inner))
    if axis:
        rows = transpose(rows, (1, 0, 2))
    width = outer * inner
    summed = _add_rows(reshape(rows, (count, width)), places, (wanted[axis], width))
    if axis:
        summed = transpose(reshape(summed, (wanted[axis], outer, inner)), (1, 0, 2))
    return reshape(summed, wanted)


def _add_rows(rows: Symbol, places: Symbol, shape: tuple[Size, Size]) -> Symbol:
    """Zeros of a matrix's shape with rows added at places."""
    zeros = constant_of(shape, 0, rows.dtype)
    places = cast(places, "int64")
    if current().root.serial:
        at = reshape(places, (size(rows, 0), 1))
        return node("ScatterND", zeros, at, rows, reduction="add")
    # On several threads `ScatterND` loses additions, and `ScatterElements` is slow but for vectors.
    count, width = shape
    negative = node("Less", places, number(0, "int64"), dtype="bool")
    from_end = node("Add", places, vector([count]))
    places = node("Where", negative, from_end, places, dtype="int64")
    steps = node("Range", *[_scalar(n) for n in (0, width, 1)])
    places = node("Mul", reshape(places, (size(rows, 0), 1)), vector([width]))
    flat = reshape(node("Add", places, steps), (-1,))
    zeros, rows = reshape(zeros, (-1,)), reshape(rows, (-1,))
    summed = node("ScatterElements", zeros, flat, rows, reduction="add", axis=0)
    return reshape(summed, shape)


def _scalar(n: Size) -> Symbol:
    return number(n, "int64") if isinstance(n, int) else reshape(n, ())


# --- creation ------------------------------------------------------------------------------------


def constant_of(shape: Sequence[Size], value: float, dtype: str) -> Symbol:
    """A constant everywhere."""
    known = shape_of(shape)
    if static(shape) and math.prod(n for n in shape if isinstance(n, int)) <= _SMALL:
        return literal(np.full(known, value, dtype))  # type: ignore[arg-type]
    fill = np.full((1,), value, dtype)
    return node("ConstantOfShape", vector(shape), dtype=dtype, shape=known, value=fill)


@TABLE.add("full")
def full(*dims: Symbol, shape: Shape, value: float, dtype: str) -> Symbol:
    """A constant everywhere."""
    return constant_of(filled(shape, dims), value, dtype)


@TABLE.add("arange")
def arange(start: Symbol, stop: Symbol, step: Symbol, *, dtype: str) -> Symbol:
    """Evenly spaced numbers."""
    if not is_float(start.dtype):
        wide = [cast(x, "int64") for x in (start, stop, step)]
        return cast(node("Range", *wide), dtype)
    # Counted in whole steps: adding the step again and again would lose digits.
    first, last, by = (cast(x, "float64") for x in (start, stop, step))
    count = cast(node("Ceil", node("Div", node("Sub", last, first), by)), "int64")
    steps = node("Range", number(0, "int64"), count, number(1, "int64"))
    return cast(node("Add", first, node("Mul", cast(steps, "float64"), by)), dtype)
