"""Sizes: Python ints where they are known, else vectors of one element that the model computes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from backplane.engines.onnxruntime.builder import (
    Shape,
    Size,
    Symbol,
    current_scope,
    ints,
    node,
    number,
    sized,
)
from backplane.engines.table import merge


def at_least(a: Size, b: Size) -> Size:
    """The larger of two sizes."""
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b)
    return sized("Max", a, b)


def at_most(a: Size, b: Size) -> Size:
    """The smaller of two sizes."""
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    return sized("Min", a, b)


def as_size(value: Symbol | int) -> Size:
    """A scalar, as operands that are sizes are, as a size."""
    if isinstance(value, int):
        return value
    if value.array is not None:
        return int(value.array)
    size: Symbol | None = current_scope().find(("size", value.name))
    return size or node("Reshape", value.cast("int64"), ints(1), shape=(1,))


def as_scalar(n: Size) -> Symbol:
    """A size as an int32 scalar."""
    if isinstance(n, int):
        return number(n, "int32")
    scalar = node("Reshape", n, ints(), shape=()).cast("int32")
    current_scope().note(("size", scalar.name), n)
    return scalar


def as_scalar_of_int64(n: Size) -> Symbol:
    """A size as an int64 scalar, as `Range` and `Loop` take it."""
    return number(n, "int64") if isinstance(n, int) else n.reshape(())


def filled(shape: Shape, dims: Sequence[Symbol]) -> tuple[Size, ...]:
    """`shape`, its None filled by `dims`."""
    return tuple([as_size(n) for n in merge(shape, dims)])


def static(numbers: Sequence[Size]) -> bool:
    """Whether all sizes are known."""
    return all(isinstance(n, int) for n in numbers)


def total(numbers: Sequence[Size]) -> Size:
    """The product of sizes."""
    known = math.prod([n for n in numbers if isinstance(n, int)])
    product: Size = known
    for n in numbers:
        if not isinstance(n, int):
            product = n * product
    return product


def shape_of(numbers: Sequence[Size]) -> Shape:
    """Sizes as a shape, None where they are not known."""
    return tuple([n if isinstance(n, int) else None for n in numbers])
