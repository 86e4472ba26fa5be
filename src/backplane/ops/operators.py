"""The effect of `+`, `<`, `[]`, … on tensors: promotion, then primitives."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from backplane.core import shapes
from backplane.core.graph import Tensor, is_scalar
from backplane.core.hooks import HOOKS
from backplane.core.spec import UNSIGNED, bits, is_float, is_integer
from backplane.ops import elementwise as ew
from backplane.ops.axes import contracted, permuted
from backplane.ops.creation import Amount, arange, as_scalar, scalar, shaped, size_at, sizes_of
from backplane.ops.indexing import ALL, dynamic_slice, flip, gather, slice
from backplane.ops.lift import as_tensor, cast_to, promoted
from backplane.ops.linear import times
from backplane.ops.shaping import broadcast_to, expand_dims, scalars_in, squeeze, stack

Operator = Callable[..., Any]
Part = tuple[int | None, int | None, int]
End = int | Tensor | None
Ends = tuple[End, End]

RANKS = 16
"""Longer vectors of integers are no shapes."""


# --- arithmetic, comparison, logic ----------------------------------------------------------------


def _define(name: str, function: Operator, reflected: bool = False) -> None:
    """Set the operator `name`, and its reflected form where Python has one."""
    HOOKS[name] = function
    if reflected:
        HOOKS["r" + name] = lambda x, y: function(y, x)


def _of(primitive: ew.Op) -> Operator:
    def apply(x: object, y: object) -> Tensor:
        a, b = promoted(x, y)
        return primitive(a, b)

    return apply


def true_divide(x: object, y: object) -> Tensor:
    """True division; two integers are divided as `floatx()`."""
    a, b = promoted(x, y)
    if not is_float(a.spec.dtype):
        a, b = (cast_to(t, HOOKS["floatx"]()) for t in (a, b))
    return ew.div(a, b)


PRODUCTS = (2, 3)
"""The powers that are computed as products."""


def power(x: object, a: object, name: str = "pow") -> Tensor:
    """`x` to the power of `a`. Squares and cubes are frequent, and become products: for a square
    NumPy's `power` takes 13 times as long (256 × 256 float32: 88 µs instead of 6.5).
    """
    base, exponent = promoted(x, a)
    known = ew.number(exponent)
    if known is not None and known < 0 and not is_float(base.spec.dtype):
        raise ValueError(
            f"{name}: a must not be negative for integers, got {known:g}; cast x to floats"
        )
    if known not in PRODUCTS:
        return ew.pow(base, exponent)
    square = ew.mul(base, base)
    return square if known == 2 else ew.mul(square, base)


def _logic(on_bools: Operator, on_integers: Operator, sign: str) -> Operator:
    def apply(x: object, y: object) -> Tensor:
        a, b = promoted(x, y)
        if a.spec.dtype == "bool":
            return on_bools(a, b)
        if not is_integer(a.spec.dtype):
            raise TypeError(f"{sign} takes bools or integers, got dtype {a.spec.dtype}")
        return on_integers(a, b)

    return apply


def invert(x: Tensor) -> Tensor:
    """`~x`: logical for bools, bit by bit for integers."""
    dtype = x.spec.dtype
    if dtype == "bool":
        return ew.logical_not(x)
    if not is_integer(dtype):
        raise TypeError(f"~ takes bools or integers, got dtype {dtype}")
    mask = 2 ** bits(dtype) - 1 if dtype in UNSIGNED else -1
    return ew.bit_xor(x, scalar(mask, dtype))


for _op in (ew.add, ew.sub, ew.mul, ew.floordiv, ew.mod):
    _define(_op.name, _of(_op), reflected=True)
_define("truediv", true_divide, reflected=True)
_define("pow", power, reflected=True)
_less, _less_equal = _of(ew.less), _of(ew.less_equal)
_define("lt", _less)
_define("le", _less_equal)
_define("gt", lambda x, y: _less(y, x))
_define("ge", lambda x, y: _less_equal(y, x))
_define("and", _logic(ew.logical_and, ew.bit_and, "&"), reflected=True)
_define("or", _logic(ew.logical_or, ew.bit_or, "|"), reflected=True)
_define("xor", _logic(ew.not_equal, ew.bit_xor, "^"), reflected=True)
_define("invert", invert)
_define("neg", ew.neg)
_define("abs", ew.abs)


# --- matrix product -------------------------------------------------------------------------------


def matrix_product(x: object, y: object) -> Tensor:
    """The product as NumPy's matmul has it: vectors get an axis, batch axes are broadcast."""
    a, b = promoted(x, y)
    if not a.ndim or not b.ndim:
        raise ValueError(f"@ needs at least one axis, got shapes {a.spec.shape} and {b.spec.shape}")
    if a.spec.sparse and b.ndim > 2:
        product = contracted(a, b, [1], [b.ndim - 2])  # One product, of all columns.
        return permuted(product, [*range(1, b.ndim - 1), 0, b.ndim - 1])
    row, column = a.ndim == 1, b.ndim == 1
    a = expand_dims(a, axes=(0,)) if row else a
    b = expand_dims(b, axes=(1,)) if column else b
    if a.ndim > 2 and b.ndim == 2:
        z = contracted(a, b, [a.ndim - 1], [0])  # One product of all rows; so is its gradient.
    else:
        z = times(*_equal_batches(a, b))
    axes = (*([z.ndim - 2] if row else ()), *([z.ndim - 1] if column else ()))
    return squeeze(z, axes=axes) if axes else z


_define("matmul", matrix_product, reflected=True)


def _equal_batches(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Both operands, with the batch axes that they are broadcast to."""
    rank = max(a.ndim, b.ndim)
    a, b = (
        expand_dims(t, axes=tuple(range(rank - t.ndim))) if t.ndim < rank else t for t in (a, b)
    )
    if a.spec.shape[:-2] == b.spec.shape[:-2]:
        return a, b
    shapes.broadcast(a.spec.shape[:-2], b.spec.shape[:-2])
    sizes = zip(a.spec.shape[:-2], b.spec.shape[:-2], strict=True)
    sources = [b if n == 1 or (n is None and m not in (1, None)) else a for n, m in sizes]
    return _with_batch(a, sources), _with_batch(b, sources)


def _with_batch(x: Tensor, sources: Sequence[Tensor]) -> Tensor:
    """`x` with each batch axis broadcast to the size of that axis of its source."""
    if all(s is x or s.spec.shape[i] == x.spec.shape[i] for i, s in enumerate(sources)):
        return x
    return shaped(broadcast_to, [size_at(s, i) for i, s in enumerate((*sources, x, x))], x)


# --- indexing -------------------------------------------------------------------------------------


def getitem(x: Tensor, key: object) -> Tensor:
    """`x[key]` for integers, slices, None, an ellipsis, and integer tensors or arrays. A scalar
    integer tensor takes the place of an integer, also as an end or the step of a slice; an array of
    them picks along its axis. IndexError for an integer outside a known size, or too many indices;
    TypeError for boolean masks, several index arrays and anything else.
    """
    parts: list[Part] = []
    ends: dict[int, Ends] = {}
    strided: dict[int, tuple[End, End, Tensor]] = {}
    flipped: list[int] = []
    dropped: list[int] = []
    new: list[int] = []
    chosen: list[tuple[int, Tensor]] = []
    position = 0
    items = _complete(key, x)
    if (size := _size(x, items)) is not None:
        return size
    for item in items:
        axis = len(parts)
        if item is None:
            new.append(position)
            position += 1
            continue
        if isinstance(item, builtins.slice):
            parts.append(_range(item, axis, strided, flipped, ends))
            position += 1
        elif (integer := _integer(item)) is not None:
            parts.append(_single(integer, x.spec.shape[axis], axis))
            dropped.append(axis)
        else:
            chosen.append((axis - len(dropped), _index(item)))
            parts.append(ALL)
            position += chosen[-1][1].ndim
    _check_arrays(items, [index for _, index in chosen if index.ndim], x)
    if flipped:
        x = flip(x, axes=tuple(flipped))
    if ends:
        x = _between(x, ends)
    for axis, numbers in strided.items():
        x = gather(x, _places(x, axis, *numbers), axis=axis)
    if any(part != ALL for part in parts):
        x = slice(x, slices=tuple(parts))
    if dropped:
        x = squeeze(x, axes=tuple(dropped))
    for axis, index in reversed(chosen):
        x = gather(x, index, axis=axis)
    return expand_dims(x, axes=tuple(new)) if new else x


def _range(
    item: builtins.slice,
    axis: int,
    strided: dict[int, tuple[End, End, Tensor]],
    flipped: list[int],
    ends: dict[int, Ends],
) -> Part:
    """The part of an axis that a slice takes, once the axis is `flipped` if the step is negative.
    It is the whole axis if tensors say what is taken: then that goes to `strided` or `ends`.
    """
    start, stop, step = (_bound(b) for b in (item.start, item.stop, item.step))
    if isinstance(step, Tensor):
        strided[axis] = (start, stop, step)
        return ALL
    start, stop, step = _forward(start, stop, step)
    if step < 0:
        flipped.append(axis)
    if isinstance(start, Tensor) or isinstance(stop, Tensor):
        ends[axis] = (start, stop)
        start = stop = None
    return start, stop, builtins.abs(step)


def _size(x: Tensor, items: Sequence[Any]) -> Tensor | None:
    """The size, maybe a known one, of `K.shape(y)[i]`, or the sizes of `K.shape(y)[i:j]`."""
    shape = x.spec.shape
    if len(shape) != 1 or (shape[0] or RANKS) >= RANKS or not is_integer(x.spec.dtype):
        return None
    sizes = scalars_in(x)
    if sizes is None or len(items) != 1:
        return None
    if isinstance(items[0], builtins.slice):
        ends = (items[0].start, items[0].stop, items[0].step)
        plain = all(end is None or isinstance(end, int) for end in ends)
        chosen = sizes[items[0]] if plain and ends[2] != 0 else []
        return stack(chosen, 0) if chosen else None
    position = _integer(items[0])
    return None if position is None or not -len(sizes) <= position < len(sizes) else sizes[position]


def _is_list_of_slices(key: object) -> bool:
    """Whether `key` is a list that TensorFlow takes for a tuple. A list of integers is an array."""
    ends = (builtins.slice, type(None), type(Ellipsis))
    return isinstance(key, list) and any(isinstance(item, ends) for item in key)


def _complete(key: Any, x: Tensor) -> list[Any]:
    """One item per axis, besides the Nones: the ellipsis is replaced by what it stands for."""
    items = list(key) if isinstance(key, tuple) or _is_list_of_slices(key) else [key]
    dots = [i for i, item in enumerate(items) if item is Ellipsis]
    used = len(items) - len(dots) - builtins.sum(item is None for item in items)
    if len(dots) > 1:
        raise IndexError("x[...]: only one ellipsis is possible")
    if used > x.ndim:
        raise IndexError(f"x[...]: {used} indices for a tensor of shape {x.spec.shape}")
    at = dots[0] if dots else len(items)
    return [*items[:at], *[builtins.slice(None)] * (x.ndim - used), *items[at + 1 :]]


def _forward(start: End, stop: End, step: int | None) -> tuple[End, End, int]:
    """The ends and step of a slice; for a negative step, the ends on the reversed axis."""
    if step == 0:
        raise ValueError("x[...]: the step of a slice must not be 0")
    if step is None or step > 0:
        return start, stop, step or 1
    # Element i is element ~i, counted from the end, of the reversed axis.
    start, stop = (None if b is None else -1 - b for b in (start, stop))
    return start, stop, step


def _bound(value: object) -> End:
    """An end or the step of a slice: an int if it is known."""
    if value is None:
        return None
    integer = _integer(value)
    if integer is not None:
        return integer
    if isinstance(value, Tensor) and not value.ndim and is_integer(value.spec.dtype):
        return cast_to(value, "int32")
    raise TypeError(
        "x[a:b:c]: the ends and the step of a slice must be integers or scalar integer tensors, "
        f"got {value!r}"
    )


def _between(x: Tensor, ends: Mapping[int, Ends]) -> Tensor:
    """The part of `x` between ends that are computed. As in a slice of Python, negative ones count
    from the end of the axis, and what lies beyond the axis is cut off.
    """
    starts: list[Tensor] = []
    sizes: list[Amount] = []
    for axis, whole in enumerate(sizes_of(x)):
        size = as_scalar(whole)
        start, stop = ends.get(axis, (None, None))
        first = scalar(0, "int32") if start is None else _inside(start, size)
        last = size if stop is None else _inside(stop, size)
        starts.append(first)
        part = ew.maximum(ew.sub(last, first), scalar(0, "int32"))
        sizes.append(part if axis in ends else whole)
    return shaped(dynamic_slice, sizes, x, stack(starts, 0))


def _places(x: Tensor, axis: int, start: End, stop: End, step: Tensor) -> Tensor:
    """The indices along `axis` that a slice with a computed step reads."""
    size = as_scalar(size_at(x, axis))
    zero, one = scalar(0, "int32"), scalar(1, "int32")
    back = ew.less(step, zero)
    # Backwards, places are counted from the last one to the one before the first one.
    shift = ew.where(back, one, zero)
    first, last = ew.neg(shift), ew.sub(size, shift)
    begin = ew.where(back, last, first) if start is None else _inside(start, size, shift)
    end = ew.where(back, first, last) if stop is None else _inside(stop, size, shift)
    return arange(begin, end, step, dtype="int32")


def _inside(end: int | Tensor, size: Tensor, shift: Tensor | None = None) -> Tensor:
    """An end of a slice as a place from 0 to the size of the axis, both less `shift`."""
    zero = scalar(0, "int32")
    end = as_scalar(end)
    from_start = ew.where(ew.less(end, zero), ew.add(end, size), end)
    low, high = (zero, size) if shift is None else (ew.neg(shift), ew.sub(size, shift))
    return ew.minimum(ew.maximum(from_start, low), high)


def _integer(item: Any) -> int | None:
    """A Python integer from an integer, a NumPy integer or a constant, None for anything else."""
    if isinstance(item, Tensor) and is_scalar(item):
        item = item.value[()]
    if isinstance(item, Tensor | bool | np.bool_):
        return None
    try:
        return operator.index(item)
    except TypeError:
        return None


def _single(i: int, size: int | None, axis: int) -> Part:
    if size is not None and not -size <= i < size:
        raise IndexError(f"x[...]: index {i} is out of range for axis {axis} of size {size}")
    return (i, i + 1 or None, 1)


def _index(item: object) -> Tensor:
    """An index array as an integer tensor."""
    if isinstance(item, str | float):
        raise TypeError(f"x[...]: an index must be an integer, a slice, None or ..., got {item!r}")
    index = as_tensor(item)
    if index.spec.dtype == "bool":
        raise TypeError(
            "x[...]: boolean masks are not possible, as the shape of the result would depend on "
            "values; use K.switch to choose, or multiply by the mask"
        )
    if not is_integer(index.spec.dtype):
        raise TypeError(f"x[...]: an index array must hold integers, got dtype {index.spec.dtype}")
    return index


def _check_arrays(items: Sequence[Any], arrays: Sequence[Tensor], x: Tensor) -> None:
    """One index array at most; NumPy moves its axes to the front if an integer stands apart."""
    if not arrays:
        return
    if len(arrays) > 1:
        raise TypeError(f"x[...]: only one index array is possible, got {len(arrays)} for {x!r}")
    places = [i for i, t in enumerate(items) if not (t is None or isinstance(t, builtins.slice))]
    if places[-1] - places[0] >= len(places):
        raise TypeError(
            "x[...]: an index array and an integer with a slice between them are ambiguous; index "
            "in two steps"
        )


HOOKS["getitem"] = getitem
