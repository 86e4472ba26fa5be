"""Tensors from sizes and numbers, and the sizes themselves."""

from __future__ import annotations

from typing import Any

from backplane.core.primitive import primitive
from backplane.core.sizes import follow, given
from backplane.core.spec import DTYPES, Spec, is_integer


def check_sizes(name: str, shape: tuple[int | None, ...], dims: tuple[Spec, ...]) -> None:
    """Each None of the parameter `shape` is one of the operands `dims`, an integer scalar."""
    if len(dims) != shape.count(None):
        raise ValueError(
            f"{name}: shape {shape} has {shape.count(None)} unknown sizes, got {len(dims)} of them"
        )
    for d in dims:
        if d.shape or not is_integer(d.dtype):
            raise TypeError(
                f"{name}: a size must be an integer scalar, got shape {d.shape} and dtype {d.dtype}"
            )


@primitive(host=0)
def full(*dims: Spec, shape: tuple[int | None, ...], value: Any, dtype: str) -> Spec:
    """A tensor filled with one number."""
    if dims or None in shape:
        check_sizes("full", shape, dims)
    if dtype not in DTYPES:
        raise ValueError(f"full: unknown dtype {dtype!r}; known are {', '.join(sorted(DTYPES))}")
    return Spec(shape, dtype)


follow(given, full)


@primitive(host=0)
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


@primitive
def dim(x: Spec, *, axis: int) -> Spec:
    """The size of an axis: an int32 scalar, a host value where the engine has them."""
    if not 0 <= axis < len(x.shape):
        raise ValueError(f"dim: axis {axis} is out of range for a tensor with {len(x.shape)} axes")
    return Spec((), "int32")
