"""Tensors made of sizes and numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from backplane import backend as K
from backplane.backend._args import as_entries
from backplane.core.graph import Tensor, constant
from backplane.core.spec import is_float
from backplane.keras3.call import op
from backplane.keras3.operands import standard, tensor_of
from backplane.keras3.ops.numpy.operands import (
    SCALARS,
    cast_all,
    common_type,
    floatx,
    like,
    lined_up,
    single,
    tensors,
)
from backplane.ops import elementwise as ew
from backplane.ops.creation import full as filled
from backplane.ops.creation import shaped
from backplane.ops.effects import identity
from backplane.ops.lift import cast_to
from backplane.ops.shaping import broadcast_like, broadcast_to, expand_dims
from backplane.ops.shaping import full_like as filled_like

__all__ = [
    "arange", "array", "empty", "empty_like", "full", "full_like", "geomspace", "linspace",
    "logspace", "ones", "ones_like", "zeros", "zeros_like",
]  # fmt: skip


@op
def array(x: Any, dtype: Any = None) -> Tensor:
    """A tensor of anything that may stand for one."""
    return identity(tensor_of(x, dtype))


# --- one number -----------------------------------------------------------------------------------


@op(static=("shape",))
def full(shape: Any, fill_value: Any, dtype: Any = None) -> Tensor:
    """A tensor of a shape that holds one number, or numbers that are broadcast to it."""
    kind = standard(dtype)
    sizes = as_entries(shape, "shape")
    if isinstance(fill_value, SCALARS):
        return shaped(filled, sizes, value=fill_value, dtype=kind)
    return shaped(broadcast_to, sizes, cast_to(tensor_of(fill_value), kind))


@op(static=("shape",))
def ones(shape: Any, dtype: Any = None) -> Tensor:
    """Ones in a tensor of a shape."""
    return full(shape, 1, dtype)


@op(static=("shape",))
def zeros(shape: Any, dtype: Any = None) -> Tensor:
    """Zeros in a tensor of a shape."""
    return full(shape, 0, dtype)


@op(static=("shape",))
def empty(shape: Any, dtype: Any = None) -> Tensor:
    """A tensor of a shape whose elements nobody should read; they are 0."""
    return full(shape, 0, dtype)


@op
def full_like(x: Any, fill_value: Any, dtype: Any = None) -> Tensor:
    """A tensor of the shape of `x` that holds one number, or numbers that are broadcast to it."""
    x = tensor_of(x)
    kind = x.spec.dtype if dtype is None else standard(dtype)
    if isinstance(fill_value, SCALARS):
        return filled_like(x, fill_value, kind)
    return broadcast_like(cast_to(tensor_of(fill_value), kind), x)


@op
def ones_like(x: Any, dtype: Any = None) -> Tensor:
    """Ones in a tensor of the shape of `x`."""
    return full_like(x, 1, dtype)


@op
def zeros_like(x: Any, dtype: Any = None) -> Tensor:
    """Zeros in a tensor of the shape of `x`."""
    return full_like(x, 0, dtype)


@op
def empty_like(x: Any, dtype: Any = None) -> Tensor:
    """A tensor of the shape of `x` whose elements nobody should read; they are 0."""
    return full_like(x, 0, dtype)


# --- many numbers ---------------------------------------------------------------------------------


@op(static=("start", "stop", "step"))
def arange(start: Any, stop: Any = None, step: Any = None, dtype: Any = None) -> Tensor:
    """The numbers from `start` up to, but without, `stop`, `step` apart; from 0 to `start` if there
    is no `stop`.
    """
    given = tensors(*[v for v in (start, stop, step) if v is not None])
    kind = common_type(*given) if dtype is None else standard(dtype)
    start, stop = (0, start) if stop is None else (start, stop)
    return K.arange(start, stop, 1 if step is None else step, dtype=kind)


def _between(
    start: Tensor, stop: Tensor, num: int, endpoint: bool, axis: int
) -> tuple[Tensor, Tensor]:
    """`num` numbers from `start` to `stop` along a new axis, and the distance of two of them."""
    intervals = num - 1 if endpoint else num
    rank = max(start.ndim, stop.ndim)
    at = axis % (rank + 1)
    shape = ew.add(start, stop)
    start, stop = (expand_dims(broadcast_like(t, shape), axes=(at,)) for t in (start, stop))
    step = ew.div(ew.sub(stop, start), like(intervals or np.nan, start))
    count = lined_up(constant(np.arange(num), start.spec.dtype), at, rank + 1)
    found = start
    if intervals > 0:
        found = ew.add(start, ew.mul(count, step))
        if endpoint:  # Rounding must not move the last number.
            found = ew.where(ew.equal(count, like(intervals, count)), stop, found)
    elif not num:
        found = ew.add(start, count)
    return found, K.squeeze(step, at)


@op(static=("num",))
def linspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False,
    dtype: Any = None, axis: int = 0,
) -> Any:  # fmt: skip
    """So many numbers from `start` to `stop`, evenly spaced along a new axis; without `stop` itself
    if not `endpoint`. With `retstep`, the distance of two of them too.
    """
    given = tensors(start, stop)
    result = common_type(*given, also=[float]) if dtype is None else standard(dtype)
    kind = single(result) if is_float(result) else floatx()
    if all(isinstance(v, SCALARS) for v in given):
        numbers, width = np.linspace(start, stop, num, endpoint=endpoint, retstep=True)
        found, step = (tensor_of(v, kind) for v in (numbers, width))
    else:
        first, last = cast_all(kind, *given)
        found, step = _between(first, last, num, endpoint, axis)
    found = cast_to(found if is_float(result) else ew.floor(found), result)
    return (found, step) if retstep else found


@op(static=("num",))
def logspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: Any = 10, dtype: Any = None,
    axis: int = 0,
) -> Tensor:  # fmt: skip
    """The powers of `base` whose exponents `linspace` gives."""
    given = tensors(start, stop)
    result = common_type(*given, also=[float]) if dtype is None else standard(dtype)
    kind = single(result) if is_float(result) else floatx()
    exponents = linspace(start, stop, num, endpoint, False, kind, axis)
    return cast_to(ew.pow(cast_to(tensor_of(base), kind), exponents), result)


@op(static=("num",))
def geomspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0
) -> Tensor:
    """So many numbers from `start` to `stop` along a new axis, each the same multiple of the one
    before it; without `stop` itself if not `endpoint`. `start` and `stop` have the same sign.
    """
    given = tensors(start, stop)
    result = common_type(*given, also=[float]) if dtype is None else standard(dtype)
    kind = single(result) if is_float(result) else floatx()
    if all(isinstance(v, SCALARS) for v in given):
        numbers = np.geomspace(start, stop, num, endpoint=endpoint)
        return cast_to(constant(numbers, kind), result)
    first, last = cast_all(kind, *given)
    least, most = (ew.log(ew.abs(t)) for t in (first, last))
    sizes = ew.exp(_between(least, most, num, endpoint, axis)[0])
    sign = ew.sign(first)
    sign = expand_dims(sign, axes=(axis % (sizes.ndim),)) if first.ndim else sign
    return cast_to(ew.mul(sign, sizes), result)
