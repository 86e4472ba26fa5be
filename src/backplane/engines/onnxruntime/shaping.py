"""Shapes, padding and creation."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from backplane.core.spec import is_float
from backplane.engines.onnxruntime.builder import (
    Shape,
    Size,
    Symbol,
    ints,
    literal,
    node,
    number,
    vector,
)
from backplane.engines.onnxruntime.elementwise import through
from backplane.engines.onnxruntime.sizes import as_scalar, filled, shape_of, static
from backplane.engines.table import Table

TABLE = Table(
    transpose=Symbol.transpose,
    dim=lambda x, *, axis: as_scalar(x.size(axis)),
    reshape=lambda x, *dims, shape: x.reshape(filled(shape, dims)),
    expand_dims=lambda x, *, axes: node("Unsqueeze", x, ints(*axes)) if axes else x,
    squeeze=lambda x, *, axes: node("Squeeze", x, ints(*axes)) if axes else x,
    full=lambda *dims, shape, value, dtype: constant_of(filled(shape, dims), value, dtype),
)

END = 2**63 - 1
_SMALL = 64
"""Elements up to which a constant is stored instead of computed."""


@TABLE.add("broadcast_to")
def broadcast_to(x: Symbol, *dims: Symbol, shape: Shape) -> Symbol:
    """`x` repeated to a larger shape."""
    if 0 in shape:  # ONNX Runtime's optimizer takes a size of 0 for no change
        return constant_of(filled(shape, dims), 0, x.dtype)
    return node("Expand", x, vector(filled(shape, dims)), shape=shape)


@TABLE.add("concat")
def concat(*xs: Symbol, axis: int) -> Symbol:
    """Tensors one after another along an axis."""
    return node("Concat", *xs, axis=axis) if len(xs) > 1 else xs[0]


@TABLE.add("flip")
def flip(x: Symbol, *, axes: tuple[int, ...]) -> Symbol:
    """The elements along axes in reverse order."""
    if not axes:
        return x
    back, end = ints(*[-1] * len(axes)), ints(*[-END] * len(axes))
    return node("Slice", x, back, end, ints(*axes), back, shape=x.shape)


# --- padding -------------------------------------------------------------------------------------


@TABLE.add("pad")
@through({"bool": "uint8", "uint16": "uint32", "int16": "int32"})
def pad(x: Symbol, *, padding: Sequence[tuple[Size, Size]], value: float) -> Symbol:
    """`x` with constants around it."""
    if all(isinstance(n, int) and n == 0 for pair in padding for n in pair):
        return x
    befores, afters = zip(*padding, strict=True)
    whole = shape_of([n + a + b for n, (a, b) in zip(x.sizes, padding, strict=True)])
    amounts, filling = vector([*befores, *afters]), number(value, x.dtype)
    # With axes named, ONNX Runtime does not make the zeros a part of max-pooling, which would then
    # leave them out of the maxima, or refuse them where they are wider than its window. All axes
    # are named, because its optimizer of transpositions takes the amounts for those of all.
    return node("Pad", x, amounts, filling, ints(*range(x.rank)), shape=whole)


# --- creation ------------------------------------------------------------------------------------


def constant_of(shape: Sequence[Size], value: float, dtype: str) -> Symbol:
    """A constant everywhere."""
    known = shape_of(shape)
    if static(shape) and math.prod(n for n in shape if isinstance(n, int)) <= _SMALL:
        return literal(np.full(known, value, dtype))  # type: ignore[arg-type]
    fill = np.full((1,), value, dtype)
    return node("ConstantOfShape", vector(shape), dtype=dtype, shape=known, value=fill)


@TABLE.add("arange")
def arange(start: Symbol, stop: Symbol, step: Symbol, *, dtype: str) -> Symbol:
    """Evenly spaced numbers."""
    if not is_float(start.dtype):
        wide = [x.cast("int64") for x in (start, stop, step)]
        return node("Range", *wide).cast(dtype)
    # Counted in whole steps: adding the step again and again would lose digits.
    first, last, by = (x.cast("float64") for x in (start, stop, step))
    count = node("Ceil", node("Div", node("Sub", last, first), by)).cast("int64")
    steps = node("Range", number(0, "int64"), count, number(1, "int64"))
    return node("Add", first, node("Mul", steps.cast("float64"), by)).cast(dtype)
