"""Tensors made from sizes and numbers, and the sizes themselves."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np

from backplane.core.graph import Constant, Tensor, constant, is_array, is_scalar
from backplane.core.primitive import Primitive, primitive
from backplane.core.spec import DTYPES, Spec, is_float, is_integer
from backplane.core.traits import Axis, Memory, Precision, Stacked, later_axes

Number = bool | int | float
Amount = int | Tensor
"""A number of elements: an int where it is known, else an integer scalar."""


def check_sizes(name: str, shape: tuple[int | None, ...], dims: tuple[Spec, ...]) -> None:
    """Check that each None of the parameter `shape` has one of `dims`, an integer scalar."""
    if len(dims) != shape.count(None):
        raise ValueError(
            f"{name}: shape {shape} has {shape.count(None)} unknown sizes, got {len(dims)} of them"
        )
    for d in dims:
        if d.shape or not is_integer(d.dtype):
            raise TypeError(
                f"{name}: a size must be an integer scalar, got shape {d.shape} and dtype {d.dtype}"
            )


def given(node: Tensor, axis: int) -> Sequence[Axis]:
    """The trait `axes` where unknown sizes are operands: a `dim` among these tells its axis."""
    assert node.op is not None
    assert node.op.host is not None
    shape = node.params["shape"]
    if shape[axis] is not None:
        return ()
    size = node.inputs[node.op.host + sum(n is None for n in shape[:axis])]
    return [(size.inputs[0], size.params["axis"])] if size.op is dim else ()


def stacked_shape(node: Tensor, operands: Sequence[Stacked], **changed: object) -> Tensor | None:
    """The trait `stacks` of primitives with the operands x, *dims and a parameter `shape`: time
    becomes the first entry of `shape`. `changed` holds other parameters that differ for the stack.
    """
    assert node.op is not None
    x, dims = operands[0], operands[1:]
    shape = node.params["shape"]
    if not x.stacked or any(d.stacked for d in dims):
        return None
    if -1 in shape:
        # If the number of steps is unknown or 0, -1 would be ambiguous.
        if None in node.spec.shape:
            return None
        shape = node.spec.shape
    steps = x.tensor.spec.shape[0]
    time = [dim(x.tensor, axis=0)] if steps is None else []
    params = {**node.params, **changed, "shape": (steps, *shape)}
    return node.op(x.tensor, *time, *[d.tensor for d in dims], **params)


@primitive(host=0, precision=Precision.FOLLOWS, memory=Memory.FRESH, axes=given)
def full(*dims: Spec, shape: tuple[int | None, ...], value: object, dtype: str) -> Spec:
    """A tensor filled with one number."""
    if dims or None in shape:
        check_sizes("full", shape, dims)
    if dtype not in DTYPES:
        raise ValueError(f"full: unknown dtype {dtype!r}; known are {', '.join(sorted(DTYPES))}")
    return Spec(shape, dtype)


def _counted(node: Tensor, axis: int) -> Sequence[Axis]:
    """The numbers 0, 1, … below the size of an axis are as many as that."""
    start, stop, step = node.inputs
    given = [t.value.item() if is_scalar(t) else None for t in (start, step)]
    whole = given == [0, 1] and stop.op is dim
    return [(stop.inputs[0], stop.params["axis"])] if whole else ()


@primitive(host=0, memory=Memory.FRESH, axes=_counted)
def arange(start: Spec, stop: Spec, step: Spec, *, dtype: str) -> Spec:
    """The vector start, start + step, … before stop."""
    for name, x in (("start", start), ("stop", stop), ("step", step)):
        if x.shape:
            raise ValueError(f"arange: {name} must be a scalar, got shape {x.shape}")
        if x.dtype != start.dtype:
            raise TypeError(
                f"arange: start has dtype {start.dtype} and {name} {x.dtype}: not equal"
            )
    return Spec((None,), dtype)


def numbers(total: Tensor, dtype: str = "int32") -> Tensor:
    """The vector 0, 1, … before `total`."""
    return arange(scalar(0, dtype), total, scalar(1, dtype), dtype=dtype)


@lru_cache(maxsize=64)
def numbers_along(axis: int, size: int, rank: int, dtype: str) -> Constant:
    """0, 1, … along an axis of `rank`: one tensor, so that nodes over it are found to be equal."""
    shape = [size if i == axis else 1 for i in range(rank)]
    return constant(np.arange(size, dtype=dtype).reshape(shape), dtype)


@primitive(memory=Memory.FRESH, stacks=later_axes("axis"))
def dim(x: Spec, *, axis: int) -> Spec:
    """The size of an axis: an int32 scalar, which is a host value on engines with `host_shapes`."""
    if not 0 <= axis < len(x.shape):
        raise ValueError(f"dim: axis {axis} is out of range for a tensor with {len(x.shape)} axes")
    return Spec((), "int32")


def sizes_among(order: Iterable[Tensor]) -> set[Tensor]:
    """The nodes whose values follow from sizes alone. `order` has operands before users."""
    sizes: set[Tensor] = set()
    for node in order:
        if node.op is dim:
            sizes.add(node)
        elif node.op is not None and node.op.on_host and not is_float(node.spec.dtype):
            known = [t in sizes or (is_array(t) and t.value.size <= 64) for t in node.inputs]
            if all(known) and any(t in sizes for t in node.inputs):
                sizes.add(node)
    return sizes


def scalar(value: Number, dtype: str) -> Constant:
    """A constant number. Equal ones share one node: gradient rules make very many of them."""
    if value == 0 and isinstance(value, float) and math.copysign(1.0, value) < 0:
        return constant(value, dtype)  # As a key it equals 0, but it is another number.
    return _scalar(value, dtype)


def like(value: Number, x: Tensor) -> Constant:
    """A constant number in the dtype of `x`."""
    return scalar(value, x.spec.dtype)


def as_scalar(n: Number | Tensor, dtype: str = "int32") -> Tensor:
    """A number as a scalar; a tensor as it is."""
    return n if isinstance(n, Tensor) else scalar(n, dtype)


@lru_cache(maxsize=1024)
def _scalar(value: Number, dtype: str) -> Constant:
    return constant(value, dtype)


def dims_of(x: Tensor) -> tuple[list[Tensor], tuple[int | None, ...]]:
    """`(dims, shape)` for primitives that take sizes: x's unknown sizes and static shape."""
    shape = x.spec.shape
    return ([], shape) if None not in shape else dims_and_shape(sizes_of(x))


def dims_and_shape(sizes: Sequence[Amount]) -> tuple[list[Tensor], tuple[int | None, ...]]:
    """`(dims, shape)` for primitives that take sizes. The shape has None for each tensor."""
    dims = [n for n in sizes if isinstance(n, Tensor)]
    return dims, tuple([None if isinstance(n, Tensor) else n for n in sizes])


def filled(shape: Sequence[int | None], dims: Sequence[Tensor]) -> list[Amount]:
    """The inverse of `dims_and_shape`: `shape`, with each None filled by one of `dims`."""
    given = iter(dims)
    return [next(given) if n is None else n for n in shape]


def size_at(x: Tensor, axis: int) -> Amount:
    """The size of an axis: an int if it is known, or else a scalar tensor."""
    size = x.spec.shape[axis]
    return dim(x, axis=axis) if size is None else size


def sizes_of(x: Tensor) -> list[Amount]:
    """The sizes of all axes."""
    return [size_at(x, axis) for axis in range(x.ndim)]


def shaped(op: Primitive[Tensor], sizes: Sequence[Amount], *xs: Tensor, **params: object) -> Tensor:
    """`op` on `xs` with `sizes` for its parameter `shape`."""
    dims, shape = dims_and_shape(sizes)
    return op(*xs, *dims, shape=shape, **params)


def shaped_as(op: Primitive[Tensor], like: Tensor, *xs: Tensor, **params: object) -> Tensor:
    """`op` on `xs` with the shape of `like` for its parameter `shape`."""
    dims, shape = dims_of(like)
    return op(*xs, *dims, shape=shape, **params)
