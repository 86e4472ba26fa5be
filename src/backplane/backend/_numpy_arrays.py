"""NumPy's functions on tensors that multiply, arrange and join them, in terms of K."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from backplane.backend import arithmetic, creation, linear, reduction, selection, shaping
from backplane.backend._args import as_axis, as_dtype, as_entries, as_int
from backplane.backend._numpy_table import in_dtype, listed, of, of_newer
from backplane.backend.inspection import int_shape
from backplane.core.graph import Tensor
from backplane.core.shapes import normalize_axes
from backplane.ops import elementwise as ew
from backplane.ops import shaping as sh
from backplane.ops.axes import contracted
from backplane.ops.creation import shaped, size_at, sizes_of
from backplane.ops.indexing import flip, pad, part
from backplane.ops.lift import as_tensor, cast_to, promoted
from backplane.ops.ragged import column, row
from backplane.ops.reduction import count

# --- products -------------------------------------------------------------------------------------


@of(np.dot, k="dot")
def _dot(a: Any, b: Any, out: None = None) -> Tensor:
    x, y = promoted(a, b)
    return linear.dot(x, y) if x.ndim and y.ndim else ew.mul(x, y)


@of(np.matmul, k="matmul")
def _matmul(x1: Any, x2: Any, /, *, dtype: Any = None) -> Tensor:
    a, b = promoted(x1, x2)
    return linear.matmul(in_dtype(dtype, a), in_dtype(dtype, b))


@of(np.einsum, k="einsum")
def _einsum(subscripts: Any, *operands: Any, optimize: Any = False) -> Tensor:
    return linear.einsum(subscripts, *operands)


@of(np.inner, k="dot")
def _inner(a: Any, b: Any, /) -> Tensor:
    x, y = promoted(a, b)
    if not x.ndim or not y.ndim:
        return ew.mul(x, y)
    return contracted(x, y, [x.ndim - 1], [y.ndim - 1])


@of(np.vdot, k="dot")
def _vdot(a: Any, b: Any, /) -> Tensor:
    x, y = promoted(a, b)
    return linear.dot(shaping.flatten(x), shaping.flatten(y))


@of_newer("vecdot", k="sum")
def _vecdot(x1: Any, x2: Any, /, *, axis: Any = -1) -> Tensor:
    return reduction.sum(ew.mul(*promoted(x1, x2)), axis)


@of(np.outer)
def _outer(a: Any, b: Any, out: None = None) -> Tensor:
    x, y = promoted(a, b)
    return ew.mul(column(shaping.flatten(x)), row(shaping.flatten(y)))


@of(np.tensordot, k="dot")
def _tensordot(a: Any, b: Any, axes: Any = 2) -> Tensor:
    x, y = promoted(a, b)
    if isinstance(axes, list | tuple):
        of_x, of_y = (listed(group) for group in axes)
    else:
        count = as_int(axes, "axes")
        of_x, of_y = list(range(x.ndim - count, x.ndim)), list(range(count))
    of_x = [as_axis(i, x, "axes") for i in of_x]
    of_y = [as_axis(i, y, "axes") for i in of_y]
    if len(of_x) != len(of_y):
        raise ValueError(f"axes must name as many axes of a as of b, got {axes!r}")
    return contracted(x, y, of_x, of_y)


# --- shapes ---------------------------------------------------------------------------------------


@of(np.reshape, k="reshape")
def _reshape(
    a: Any, /, shape: Any = None, order: str = "C", *, newshape: Any = None, copy: Any = None
) -> Tensor:
    if order not in ("C", "A", "K"):
        raise TypeError(f"np.reshape: order must be 'C' for tensors, got {order!r}")
    return shaping.reshape(a, newshape if shape is None else shape)


@of(np.ravel, k="flatten")
def _ravel(a: Any, order: str = "C") -> Tensor:
    if order not in ("C", "A", "K"):
        raise TypeError(f"np.ravel: order must be 'C' for tensors, got {order!r}")
    return shaping.flatten(a)


@of(np.transpose, k="permute_dimensions")
def _transpose(a: Any, axes: Any = None) -> Tensor:
    return linear.transpose(a) if axes is None else shaping.permute_dimensions(a, axes)


@of_newer("matrix_transpose", k="permute_dimensions")
def _matrix_transpose(x: Any, /) -> Tensor:
    return _swapaxes(x, -1, -2)


def _moved(x: Tensor, source: Sequence[int], destination: Sequence[int]) -> Tensor:
    order = [i for i in range(x.ndim) if i not in source]
    for position, axis in sorted(zip(destination, source, strict=True)):
        order.insert(position, axis)
    return shaping.permute_dimensions(x, order)


@of(np.moveaxis, k="permute_dimensions")
def _moveaxis(a: Any, source: Any, destination: Any) -> Tensor:
    x = as_tensor(a)
    places = [[as_axis(i, x) for i in listed(given)] for given in (source, destination)]
    if len(places[0]) != len(places[1]):
        raise ValueError("np.moveaxis: source and destination must name as many axes")
    return _moved(x, *places)


@of(np.swapaxes, k="permute_dimensions")
def _swapaxes(a: Any, axis1: int, axis2: int) -> Tensor:
    x = as_tensor(a)
    i, j = as_axis(axis1, x, "axis1"), as_axis(axis2, x, "axis2")
    return _moved(x, [i, j], [j, i])


@of(np.expand_dims, k="expand_dims")
def _expand_dims(a: Any, axis: Any) -> Tensor:
    x = as_tensor(a)
    places = listed(axis)
    return sh.expand_dims(x, axes=normalize_axes(places, x.ndim + len(places)))


@of(np.squeeze, k="squeeze")
def _squeeze(a: Any, axis: Any = None) -> Tensor:
    x = as_tensor(a)
    if axis is not None:
        return sh.squeeze(x, axes=normalize_axes(listed(axis), x.ndim))
    if None in x.spec.shape:
        raise ValueError(
            "np.squeeze: axis must be given where sizes are unknown, as the number of axes of the "
            f"result would depend on them; the shape is {x.spec.shape}"
        )
    ones = tuple(i for i, n in enumerate(x.spec.shape) if n == 1)
    return sh.squeeze(x, axes=ones) if ones else x


@of(np.broadcast_to)
def _broadcast_to(array: Any, shape: Any) -> Tensor:
    return shaped(sh.broadcast_to, as_entries(shape, "shape"), as_tensor(array))


@of(np.flip, k="reverse")
def _flip(m: Any, axis: Any = None) -> Tensor:
    x = as_tensor(m)
    axes = normalize_axes(None if axis is None else listed(axis), x.ndim)
    return flip(x, axes=axes) if axes else x


of(np.flipud, k="reverse")(lambda m: selection.reverse(m, 0))
of(np.fliplr, k="reverse")(lambda m: selection.reverse(m, 1))


@of(np.roll)
def _roll(a: Any, shift: Any, axis: Any = None) -> Tensor:
    x = as_tensor(a)
    if axis is None:
        return shaping.reshape(_rolled(shaping.flatten(x), as_int(shift, "shift"), 0), sizes_of(x))
    pairs = np.broadcast_arrays(listed(axis), listed(shift, "shift"))
    for position, step in np.stack(pairs, 1).tolist():
        x = _rolled(x, step, as_axis(position, x))
    return x


def _rolled(x: Tensor, step: int, axis: int) -> Tensor:
    size = size_at(x, axis)
    cut = (-step) % size if not isinstance(size, int) or size else 0
    whole = (slice(None),) * axis
    return sh.concat(x[(*whole, slice(cut, None))], x[(*whole, slice(None, cut))], axis=axis)


@of(np.tile, k="tile")
def _tile(A: Any, reps: Any) -> Tensor:
    return shaping.tile(A, as_entries(reps, "reps"))


@of(np.repeat, k="repeat_elements")
def _repeat(a: Any, repeats: int, axis: Any = None) -> Tensor:
    x = as_tensor(a)
    if axis is None:
        x, axis = shaping.flatten(x), 0
    return shaping.repeat_elements(x, repeats, axis)


# --- joining, parting, picking --------------------------------------------------------------------


@of(np.concatenate, k="concatenate")
def _concatenate(arrays: Any, /, axis: Any = 0, out: None = None, *, dtype: Any = None) -> Tensor:
    parts = list(arrays)
    if axis is None:
        parts, axis = [shaping.flatten(part) for part in parts], 0
    return in_dtype(dtype, selection.concatenate(parts, axis))


@of(np.stack, k="stack")
def _stack(arrays: Any, axis: int = 0, out: None = None, *, dtype: Any = None) -> Tensor:
    return in_dtype(dtype, selection.stack(list(arrays), axis))


def _at_least(x: Any, ndim: int) -> Tensor:
    """With as many axes, added where NumPy adds them."""
    x = as_tensor(x)
    if x.ndim >= ndim:
        return x
    if ndim < 3 or x.ndim < 1:
        return sh.expand_dims(x, axes=tuple(range(ndim - x.ndim)))
    return sh.expand_dims(x, axes=(0, 2) if x.ndim == 1 else (2,))


def _at_least_each(function: Any, ndim: int) -> None:
    @of(function, k="reshape")
    def call(*arys: Any) -> Any:
        made = [_at_least(x, ndim) for x in arys]
        return made[0] if len(made) == 1 else tuple(made)


_at_least_each(np.atleast_1d, 1)
_at_least_each(np.atleast_2d, 2)


@of(np.vstack, k="concatenate")
def _vstack(tup: Any, *, dtype: Any = None) -> Tensor:
    return in_dtype(dtype, selection.concatenate([_at_least(x, 2) for x in tup], 0))


@of(np.hstack, k="concatenate")
def _hstack(tup: Any, *, dtype: Any = None) -> Tensor:
    parts = [_at_least(x, 1) for x in tup]
    return in_dtype(dtype, selection.concatenate(parts, 0 if parts[0].ndim == 1 else 1))


of(np.dstack, k="concatenate")(lambda tup: selection.concatenate([_at_least(x, 3) for x in tup], 2))


@of(np.column_stack, k="concatenate")
def _column_stack(tup: Any) -> Tensor:
    parts = [as_tensor(x) for x in tup]
    columns = [x if x.ndim > 1 else shaping.expand_dims(_at_least(x, 1), 1) for x in parts]
    return selection.concatenate(columns, 1)


@of(np.append, k="concatenate")
def _append(arr: Any, values: Any, axis: Any = None) -> Tensor:
    return _concatenate([arr, values], axis)


def _split(name: str, uneven: bool) -> Any:
    def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
        x = as_tensor(ary)
        position = as_axis(axis, x)
        size = x.spec.shape[position]
        if isinstance(indices_or_sections, list | tuple | np.ndarray):
            ends = [as_int(n, "indices") for n in indices_or_sections]
        else:
            count = as_int(indices_or_sections, "sections")
            if size is None:
                raise ValueError(
                    f"{name}: the size of axis {position} is unknown; "
                    "give the indices where to split"
                )
            if count < 1 or (size % count and not uneven):
                raise ValueError(f"{name}: {count} equal parts of an axis of size {size}")
            more = size % count
            sizes = [size // count + (i < more) for i in range(count)]
            ends = list(itertools.accumulate(sizes))[:-1]
        bounds = zip([0, *ends], [*ends, None], strict=True)
        return [part(x, position, start, stop) for start, stop in bounds]

    return split


of(np.split, k="slice")(_split("np.split", uneven=False))
of(np.array_split, k="slice")(_split("np.array_split", uneven=True))


@of(np.take, k="gather")
def _take(a: Any, indices: Any, axis: Any = None, out: None = None) -> Tensor:
    x = as_tensor(a)
    if axis is None:
        x, axis = shaping.flatten(x), 0
    position = as_axis(axis, x)
    whole = (slice(None),) * position
    taken: Tensor = x[(*whole, indices if isinstance(indices, Tensor) else np.asarray(indices))]
    return taken


@of(np.diff, k="slice")
def _diff(a: Any, n: int = 1, axis: int = -1) -> Tensor:
    x = as_tensor(a)
    position = as_axis(axis, x)
    for _ in range(as_int(n, "n")):
        x = part(x, position, 1) - part(x, position, None, -1)
    return x


@of(np.pad, k="spatial_2d_padding")
def _pad(array: Any, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0) -> Tensor:
    if mode != "constant" or not isinstance(constant_values, int | float):
        raise TypeError("np.pad takes symbolic tensors with mode='constant' and one number only")
    x = as_tensor(array)
    pairs = np.broadcast_to(np.asarray(pad_width), (x.ndim, 2)).tolist()
    padding = tuple((as_int(a, "pad_width"), as_int(b, "pad_width")) for a, b in pairs)
    return pad(x, padding=padding, value=constant_values) if x.ndim else x


# --- like another ---------------------------------------------------------------------------------


of(np.zeros_like, np.empty_like, k="zeros_like")(
    lambda a, dtype=None: creation.zeros_like(a, dtype)
)
of(np.ones_like, k="ones_like")(lambda a, dtype=None: creation.ones_like(a, dtype))
of(np.copy, k="identity")(lambda a, order="K": arithmetic.identity(a))


@of(np.full_like, k="ones_like")
def _full_like(a: Any, fill_value: Any, dtype: Any = None) -> Tensor:
    x = as_tensor(a)
    dtype = x.spec.dtype if dtype is None else as_dtype(dtype)
    return sh.broadcast_like(cast_to(as_tensor(fill_value), dtype), x)


@of_newer("astype", k="cast")
def _astype(x: Any, dtype: Any, /, *, copy: bool = True) -> Tensor:
    return arithmetic.cast(x, dtype)


# --- what is known without values -----------------------------------------------------------------


of(np.shape, k="int_shape", plain=True)(lambda a: int_shape(a))
of(np.ndim, k="ndim", plain=True)(lambda a: int(a.ndim))
of(np.iscomplexobj, plain=True)(lambda x: False)
of(np.isrealobj, plain=True)(lambda x: True)


@of(np.size, k="size", plain=True)
def _size(a: Any, axis: Any = None) -> Any:
    axes = range(a.ndim) if axis is None else [as_axis(i, a) for i in listed(axis)]
    sizes = [a.spec.shape[i] for i in axes]
    return count(a, axes, "int32") if None in sizes else math.prod(sizes)
