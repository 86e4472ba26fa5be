"""Joining tensors, and taking them apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from backplane import backend as K
from backplane.backend._args import as_axis
from backplane.core.graph import Tensor
from backplane.keras3.call import op
from backplane.keras3.operands import alike, result_type, tensor_of
from backplane.keras3.ops.numpy.operands import flat, integers_or_floats, like, lined_up
from backplane.ops import elementwise as ew
from backplane.ops.creation import shaped, size_at
from backplane.ops.lift import cast_to
from backplane.ops.shaping import broadcast_to, expand_dims

__all__ = [
    "append", "array_split", "concatenate", "dsplit", "dstack", "hsplit", "hstack", "meshgrid",
    "split", "stack", "unravel_index", "vsplit", "vstack",
]  # fmt: skip


# --- joining --------------------------------------------------------------------------------------


def _parts(xs: Any) -> list[Tensor]:
    """The tensors to be joined, in one dtype. One tensor stands for those along its first axis."""
    if isinstance(xs, Tensor):
        xs = [xs[i] for i in range(xs.spec.shape[0] or 0)]
    return alike(*[tensor_of(x) for x in xs])


@op
def concatenate(xs: Any, axis: int | None = 0) -> Tensor:
    """Tensors one after another along `axis`; with None, their elements as one vector."""
    parts = _parts(xs)
    if axis is None:
        return K.concatenate([flat(t) for t in parts], 0)
    return K.concatenate(parts, axis)


@op
def stack(x: Any, axis: int = 0) -> Tensor:
    """Tensors one after another along a new axis."""
    return K.stack(_parts(x), axis)


@op
def append(x1: Any, x2: Any, axis: int | None = None) -> Tensor:
    """The second tensor behind the first one along `axis`; with None, their elements as one
    vector.
    """
    return concatenate([x1, x2], axis)


def _at_least(x: Tensor, rank: int) -> Tensor:
    """`x` with so many axes at least. A vector is a row; a third axis comes last."""
    if rank > 1 and x.ndim == 1:
        x = expand_dims(x, axes=(0,))
    missing = rank - x.ndim
    return expand_dims(x, axes=tuple(range(x.ndim, rank))) if missing > 0 else x


def _joined(xs: Any, rank: int, axis: int) -> Tensor:
    return K.concatenate([_at_least(t, rank) for t in _parts(xs)], axis)


@op
def hstack(xs: Any) -> Tensor:
    """Tensors side by side: joined along the second axis, vectors along their only one."""
    parts = [_at_least(t, 1) for t in _parts(xs)]
    return K.concatenate(parts, min(1, parts[0].ndim - 1))


@op
def vstack(xs: Any) -> Tensor:
    """Tensors one below the other: joined along the first axis. Vectors are rows."""
    return _joined(xs, 2, 0)


@op
def dstack(xs: Any) -> Tensor:
    """Tensors one behind the other: joined along the third axis."""
    return _joined(xs, 3, 2)


# --- parts ----------------------------------------------------------------------------------------


def _between(x: Tensor, ends: Sequence[Any], axis: int) -> list[Tensor]:
    lead = (slice(None),) * axis
    return [x[(*lead, slice(a, b))] for a, b in zip([0, *ends], [*ends, None], strict=True)]


def _sized(name: str, x: Tensor, axis: int) -> int:
    size = x.spec.shape[axis]
    if size is None:
        raise ValueError(
            f"{name}: the size of axis {axis} of a tensor of shape {x.spec.shape} is unknown, so "
            "the number of parts does not tell their sizes; give the indices between them"
        )
    return size


@op(static=("indices_or_sections",))
def split(x: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    """Parts along `axis`: so many of equal size, or those between indices.

    Raises:
        ValueError: if there are no such equal parts, or the size is unknown.
    """
    x = tensor_of(x)
    at = as_axis(axis, x)
    sections = indices_or_sections
    if isinstance(sections, list | tuple):
        return _between(x, list(sections), at)
    n = _sized("split", x, at)
    if n % sections:
        raise ValueError(f"split: axis {at} of size {n} has no {sections} parts of equal size")
    return _between(x, range(n // sections, n, n // sections), at) if n else [x] * sections


@op(static=("indices_or_sections",))
def array_split(x: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    """Parts along `axis`: so many of nearly equal size, the larger ones first, or those between
    indices.
    """
    x = tensor_of(x)
    at = as_axis(axis, x)
    sections = indices_or_sections
    if isinstance(sections, list | tuple):
        return _between(x, list(sections), at)
    small, more = divmod(_sized("array_split", x, at), sections)
    sizes = [small + 1] * more + [small] * (sections - more)
    return _between(x, np.cumsum(sizes)[:-1].tolist(), at)


@op(static=("indices_or_sections",))
def hsplit(x: Any, indices_or_sections: Any) -> list[Tensor]:
    """Parts along the second axis, or along the only one."""
    x = tensor_of(x)
    return split(x, indices_or_sections, 1 if x.ndim > 1 else 0)


@op(static=("indices_or_sections",))
def vsplit(x: Any, indices_or_sections: Any) -> list[Tensor]:
    """Parts along the first axis."""
    return split(x, indices_or_sections, 0)


@op(static=("indices_or_sections",))
def dsplit(x: Any, indices_or_sections: Any) -> list[Tensor]:
    """Parts along the third axis."""
    return split(x, indices_or_sections, 2)


# --- grids ----------------------------------------------------------------------------------------


@op
def meshgrid(*x: Any, indexing: str = "xy") -> list[Tensor]:
    """The coordinates of all points of a grid, from those along each of its axes. With "xy", the
    first two axes of the results are swapped.

    Raises:
        ValueError: if `indexing` is neither "xy" nor "ij".
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing must be 'xy' or 'ij', got {indexing!r}")
    given = [flat(tensor_of(v)) for v in x]
    rank = len(given)
    order = list(range(rank))
    if indexing == "xy" and rank > 1:
        order[:2] = [1, 0]
    lines = [lined_up(t, order.index(i), rank) for i, t in enumerate(given)]
    sizes = [size_at(given[i], 0) for i in order]
    return [shaped(broadcast_to, sizes, t) for t in lines]


@op(static=("shape",))
def unravel_index(indices: Any, shape: Any) -> tuple[Tensor, ...]:
    """The positions along each axis of a tensor of `shape` of what `indices` count row by row."""
    rest = tensor_of(indices)
    rest = integers_or_floats(cast_to(rest, result_type(rest.spec.dtype)))
    total = int(np.prod(shape))
    found = []
    rest = ew.where(ew.less(rest, ew.zero(rest)), ew.add(rest, like(total, rest)), rest)
    for n in reversed(shape):
        found.append(ew.mod(rest, like(n, rest)))
        rest = ew.floordiv(rest, like(n, rest))
    return tuple(reversed(found))
