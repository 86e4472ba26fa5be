"""The bits of numbers: read as another dtype, and what follows from them."""

from __future__ import annotations

from typing import Any

from backplane.core.graph import Tensor
from backplane.core.spec import bits
from backplane.keras3.call import op
from backplane.keras3.operands import standard, tensor_of
from backplane.keras3.ops.numpy.operands import floats, is_floating, length, like
from backplane.ops import elementary as el
from backplane.ops import elementwise as ew
from backplane.ops.axes import merge_axes
from backplane.ops.creation import scalar, shaped, size_at
from backplane.ops.elementwise import bitcast
from backplane.ops.shaping import full_like, reshape

__all__ = ["nextafter", "signbit", "view"]


@op(exact=True)
def view(x: Any, dtype: Any = None) -> Tensor:
    """The bits of a tensor, read as another dtype. The last axis has as many more elements as they
    are smaller.

    Raises:
        ValueError: if the last axis does not hold whole elements of the dtype.
    """
    x = tensor_of(x)
    name = x.spec.dtype if dtype is None else standard(dtype)
    old, new = bits(x.spec.dtype), bits(name)
    if old == new:
        return x if name == x.spec.dtype else bitcast(x, dtype=name)
    if not x.ndim:
        raise ValueError(f"view: a scalar of {x.spec.dtype} has no parts that {name} could read")
    lead = x.ndim - 1
    if old > new:
        parts = bitcast(x, dtype=name)
        return merge_axes(parts, [*[[i] for i in range(lead)], [lead, lead + 1]])
    ratio, size = new // old, x.spec.shape[-1]
    if size is not None and size % ratio:
        raise ValueError(
            f"view: the last axis must have a multiple of {ratio} elements to be read as {name}, "
            f"x has shape {x.spec.shape}"
        )
    last = size // ratio if size is not None else length(x, lead) // scalar(ratio, "int32")
    sizes = [size_at(x, i) for i in range(lead)]
    return bitcast(shaped(reshape, [*sizes, last, ratio], x), dtype=name)


def _integer(x: Tensor) -> Tensor:
    """The bits of floats as signed integers."""
    return bitcast(x, dtype=f"int{bits(x.spec.dtype)}")


@op
def signbit(x: Any) -> Tensor:
    """Whether the sign of an element is minus, that of a zero or NaN too."""
    x = tensor_of(x)
    if is_floating(x):
        x = _integer(x)
    if x.spec.dtype == "bool":
        return full_like(x, False)
    return ew.less(x, ew.zero(x))


@op
def nextafter(x1: Any, x2: Any) -> Tensor:
    """The number next to the first element, in the direction of the second one."""
    a, b = floats(x1, x2)
    same, zero = ew.equal(a, b), ew.equal(a, ew.zero(a))
    up = ew.less(a, b)
    code = _integer(a)
    # Away from zero the code grows, whatever the sign.
    outward = ew.equal(up, ew.less(ew.zero(a), a))
    code = ew.where(outward, ew.add(code, ew.one(code)), ew.sub(code, ew.one(code)))
    tiny = bitcast(ew.where(up, *_smallest(code)), dtype=a.spec.dtype)
    found = ew.where(zero, tiny, bitcast(code, dtype=a.spec.dtype))
    found = ew.where(same, b, found)
    return ew.where(ew.logical_or(el.is_nan(a), el.is_nan(b)), ew.add(a, b), found)


def _smallest(code: Tensor) -> tuple[Tensor, Tensor]:
    """The codes of the smallest number above 0, and of that below."""
    lowest = -(2 ** (bits(code.spec.dtype) - 1))
    return like(1, code), like(lowest + 1, code)
