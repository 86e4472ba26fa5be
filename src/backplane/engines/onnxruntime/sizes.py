"""Sizes: Python ints where they are known, else vectors of one element that the model computes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from backplane.engines.onnxruntime.builder import (
    Shape,
    Size,
    Symbol,
    cast,
    current,
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


def size(x: Symbol, axis: int) -> Size:
    """The size of an axis."""
    assert x.shape is not None
    known = x.shape[axis]
    if known is not None:
        return known
    return node("Shape", x, shape=(1,), start=axis, end=axis + 1)


def sizes(x: Symbol) -> tuple[Size, ...]:
    """The sizes of all axes."""
    return tuple([size(x, axis) for axis in range(x.rank)])


def as_size(value: Symbol | int) -> Size:
    """A scalar, as operands that are sizes are, as a size."""
    if isinstance(value, int):
        return value
    if value.array is not None:
        return int(value.array)
    found: Symbol | None = current().find(("size", value.name))
    return found or node("Reshape", cast(value, "int64"), ints(1), shape=(1,))


def as_scalar(n: Size) -> Symbol:
    """A size as an int32 scalar."""
    if isinstance(n, int):
        return number(n, "int32")
    scalar = cast(node("Reshape", n, ints(), shape=()), "int32")
    current().note(("size", scalar.name), n)
    return scalar


def as_scalar_of_int64(n: Size) -> Symbol:
    """A size as an int64 scalar, as `Range` and `Loop` take it."""
    return number(n, "int64") if isinstance(n, int) else reshape(n, ())


def filled(shape: Shape, dims: Sequence[Symbol]) -> tuple[Size, ...]:
    """`shape`, its None filled by `dims`."""
    return tuple([as_size(n) for n in merge(shape, dims)])


def vector(numbers: Sequence[Size]) -> Symbol:
    """Sizes as one int64 vector."""
    parts: list[Symbol] = []
    run: list[int] = []
    for n in numbers:
        if isinstance(n, int):
            run.append(n)
            continue
        parts += [ints(*run), n] if run else [n]
        run = []
    if run or not parts:
        parts.append(ints(*run))
    return parts[0] if len(parts) == 1 else node("Concat", *parts, axis=0, shape=(len(numbers),))


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


def reshape(x: Symbol, numbers: Sequence[Size | int]) -> Symbol:
    """`x` in another shape; one size may be -1."""
    shape = tuple([n if isinstance(n, int) and n >= 0 else None for n in numbers])
    if x.shape == shape and None not in shape:
        return x
    unknown = [i for i, n in enumerate(numbers) if not isinstance(n, int)]
    if len(unknown) == 1 and all(n > 0 for n in numbers if isinstance(n, int)):
        # What is left over is the one that is not known: no need to compute it.
        numbers = [-1 if i == unknown[0] else n for i, n in enumerate(numbers)]
    # Zero is a size, except beside -1, where ONNX does not allow it to be.
    allowzero = int(not any(isinstance(n, int) and n < 0 for n in numbers))
    return node("Reshape", x, vector(numbers), shape=shape, allowzero=allowzero)
