"""Keras' backend functions that read and write parts of tensors."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

from keras.src.backend.common.keras_tensor import KerasTensor

from backplane.core.graph import Tensor, constant
from backplane.keras3.call import op
from backplane.keras3.operands import tensor_of
from backplane.ops import elementwise as ew
from backplane.ops import shaping as sh
from backplane.ops.creation import Amount, shaped, shaped_as, size_at, sizes_of
from backplane.ops.indexing import dynamic_slice, dynamic_slice_grad, part, scatter_add
from backplane.ops.indexing import slice as static_slice
from backplane.ops.lift import cast_to
from backplane.ops.scattering import scatter as combine
from backplane.ops.scattering import scatter_set


@op
def getitem(x: Any, key: Any) -> Any:
    """A part of a tensor: what `x[key]` is for a symbolic tensor."""
    return tensor_of(x)[key]


def let_steps_go_back(operations: Any) -> None:
    """Let Keras' operation of `x[key]` take slices with negative steps on every engine: tensors of
    PyTorch refuse them.

    Args:
        operations: The module `keras.src.ops.numpy`.
    """

    def item(x: Any, key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        back = any((getattr(part, "step", None) or 1) < 0 for part in parts)
        return getitem(x, key) if back and not isinstance(x, KerasTensor) else x[key]

    def call(self: Any, x: Any, key: Any) -> Any:
        return item(x, tuple(key) if isinstance(key, list) else key)

    functools.update_wrapper(item, operations.get_item)
    operations.get_item = item
    operations.GetItem.call = call


@op(static=("axis", "start", "stop"))
def part_of(x: Any, axis: int, start: int | None, stop: int | None) -> Any:
    """The elements from `start` to `stop` along an axis."""
    x = tensor_of(x)
    slices: list[tuple[int | None, int | None, int]] = [(None, None, 1)] * x.ndim
    slices[axis] = (start, stop, 1)
    return static_slice(x, slices=tuple(slices))


@op(static=("axis",))
def joined(x1: Any, x2: Any, axis: int) -> Any:
    """Two tensors of one dtype, one after the other along an axis."""
    x1 = tensor_of(x1)
    return sh.concat(x1, tensor_of(x2, x1.spec.dtype), axis=axis % x1.ndim)


@op(static=("start_indices", "shape"))
def slice(inputs: Any, start_indices: Any, shape: Any) -> Any:
    """The part that begins at `start_indices` and has the given sizes; −1 is all that is left. The
    start is clamped so that the part lies inside.
    """
    x = tensor_of(inputs)
    starts = _starts(start_indices, x.ndim, "start_indices")
    if len(shape) != x.ndim:
        raise ValueError(
            "Length of `start_indices` must match length of `shape`. "
            f"Received: start_indices={start_indices}, shape={shape}"
        )
    sizes = [_size(x, i, start, n) for i, (start, n) in enumerate(zip(starts, shape, strict=True))]
    return shaped(dynamic_slice, sizes, x, _vector(starts))


def _starts(given: Any, rank: int, name: str) -> list[Amount]:
    """The starts as a list of numbers and scalars."""
    if isinstance(given, Tensor):
        vector = cast_to(given, "int32")
        return [vector[i] for i in range(rank)]
    starts = list(given)
    if len(starts) != rank:
        raise ValueError(f"`{name}` must have {rank} numbers, one per axis, got {given}")
    return [n if isinstance(n, int) else _scalar(n) for n in starts]


def _scalar(n: Any) -> Tensor:
    t = cast_to(tensor_of(n), "int32")
    return sh.squeeze(t, axes=tuple(range(t.ndim))) if t.ndim else t


def _size(x: Tensor, axis: int, start: Amount, size: Any) -> Amount:
    if isinstance(size, Tensor):
        return cast_to(size, "int32")
    if size != -1:
        return int(size)
    whole = size_at(x, axis)
    if isinstance(whole, int) and isinstance(start, int):
        return whole - start
    return ew.sub(tensor_of(whole, "int32"), tensor_of(start, "int32"))


def _vector(starts: Sequence[Amount]) -> Tensor:
    if all(isinstance(n, int) for n in starts):
        return constant(list(starts), "int32")
    return sh.stack([tensor_of(n, "int32") for n in starts], 0)


@op(static=("start_indices",))
def slice_update(inputs: Any, start_indices: Any, updates: Any) -> Any:
    """`inputs` with the part that begins at `start_indices` replaced by `updates`."""
    x = tensor_of(inputs)
    new = tensor_of(updates, x.spec.dtype)
    starts = _vector(_starts(start_indices, x.ndim, "start_indices"))
    kept = "int32" if x.spec.dtype == "bool" else x.spec.dtype
    placed = shaped_as(dynamic_slice_grad, x, cast_to(new, kept), starts)
    ones = sh.ones_like(new, "int32")
    there = cast_to(shaped_as(dynamic_slice_grad, x, ones, starts), "bool")
    return ew.where(there, cast_to(placed, x.spec.dtype), x)


@op(static=("num", "axis"))
def unstack(x: Any, num: int | None = None, axis: int = 0) -> Any:
    """The parts of a tensor along an axis, without that axis."""
    x = tensor_of(x)
    axis = axis % x.ndim
    count = x.spec.shape[axis] if num is None else num
    if count is None:
        raise ValueError(f"unstack: the size of axis {axis} is unknown; give `num`")
    return [sh.squeeze(part(x, axis, i, i + 1), axes=(axis,)) for i in range(count)]


# --- scatter --------------------------------------------------------------------------------------


def _product(sizes: Sequence[Amount]) -> Amount:
    if all(isinstance(n, int) for n in sizes):
        return math.prod(sizes)
    return functools.reduce(ew.mul, [tensor_of(n, "int32") for n in sizes])


def _depth(indices: Tensor) -> int:
    """The number of axes that an index names."""
    if not indices.ndim or not indices.spec.shape[-1]:
        raise ValueError(
            "the last axis of `indices` must have a known size, which is the number of axes that "
            f"an index names, and at least 1; got shape {indices.spec.shape}"
        )
    return indices.spec.shape[-1]


def _rows(indices: Tensor, lead: Sequence[Amount]) -> Tensor:
    """The numbers of the rows, counted over the leading axes together, as a vector."""
    flat: Any = None
    for i, size in enumerate(lead):
        n = tensor_of(size, indices.spec.dtype)
        part = indices[..., i]
        part = ew.where(ew.less(part, ew.zero(part)), ew.add(part, n), part)
        flat = part if flat is None else ew.add(ew.mul(flat, n), part)
    return sh.reshape(flat, shape=(-1,))


def _as_rows(x: Tensor, rest: Sequence[Amount]) -> Tensor:
    return shaped(sh.reshape, [-1, *rest], x)


@op(static=("shape",))
def scatter(indices: Any, values: Any, shape: Any) -> Any:
    """Zeros of a shape, to which values are added at indices of the first axes."""
    indices, values = cast_to(tensor_of(indices), "int32"), tensor_of(values)
    depth = _depth(indices)
    lead, rest = list(shape[:depth]), list(shape[depth:])
    rows = _as_rows(values, rest)
    total = [_product(lead), *rest]
    found = shaped(scatter_add, total, rows, _rows(indices, lead), axis=0)
    return shaped(sh.reshape, list(shape), found)


@op
def scatter_update(inputs: Any, indices: Any, updates: Any, reduction: str | None = None) -> Any:
    """`inputs` with updates at indices of the first axes: put there, or combined with what is there
    by `reduction`, one of "add", "max", "min" and "mul".
    """
    x = tensor_of(inputs)
    indices, updates = cast_to(tensor_of(indices), "int32"), tensor_of(updates, x.spec.dtype)
    if x.spec.dtype == "bool" and reduction is not None:
        numbers = (cast_to(t, "uint8") for t in (x, updates))
        new, added = numbers
        by = "max" if reduction == "add" else reduction
        return cast_to(scatter_update(new, indices, added, by), "bool")
    depth = _depth(indices)
    sizes = sizes_of(x)
    rest = sizes[depth:]
    table, rows = _as_rows(x, rest), _as_rows(updates, rest)
    places = _rows(indices, sizes[:depth])
    if reduction is None:
        found = scatter_set(table, places, rows)
    elif reduction == "add":
        found = ew.add(table, shaped_as(scatter_add, table, rows, places, axis=0))
    elif reduction in _COMBINATIONS:
        found = combine(table, places, rows, by=_COMBINATIONS[reduction])
    else:
        raise ValueError(f"Unsupported reduction: {reduction}")
    return sh.reshape_like(found, x)


_COMBINATIONS: dict[str, Any] = {"max": "max", "min": "min", "mul": "product"}
