"""Lowerings: slices, and gathering by indices."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import torch

from backplane.core.spec import Spec
from backplane.engines.table import Lowering, Shape, Slices, Table, Value, index_of, window_at
from backplane.engines.torch.dtypes import SIGNED, modular, ordered
from backplane.engines.torch.shaping import pad_amounts
from backplane.engines.torch.tracing import host_shape, only_values_count

aten = torch.ops.aten

TABLE = Table()


# --- slices -------------------------------------------------------------------------------------


@TABLE.build("slice", view=True)
def slice_(specs: Sequence[Spec], *, slices: Slices) -> Lowering:
    """A view."""
    key = index_of(slices)
    return lambda x: x[key]


@TABLE.build("slice_grad")
def slice_grad(specs: Sequence[Spec], *, shape: Shape, slices: Slices) -> Lowering:
    """Padding where all steps are 1, else one `slice_backward` per axis."""
    if any(step > 1 for _, _, step in slices):
        return lambda g, *dims: _spread(g, host_shape(shape, dims), slices)
    if None not in shape:
        amounts = _outside(host_shape(shape, ()), slices)
        return lambda g: torch.constant_pad_nd(g, amounts, 0)
    return lambda g, *dims: torch.constant_pad_nd(g, _outside(host_shape(shape, dims), slices), 0)


def _outside(sizes: Sequence[int], slices: Slices) -> list[int]:
    """The elements that slices of step 1 leave out before and after, as `pad_amounts`."""
    spans = [(slice(*s).indices(n), n) for s, n in zip(slices, sizes, strict=True)]
    return pad_amounts([(start, n - max(start, stop)) for (start, stop, _), n in spans])


def _spread(g: Value, sizes: Sequence[int], slices: Slices) -> Value:
    """Zeros of shape `sizes` with `g` put where `slices` would read, axis by axis."""
    for axis, (s, n) in enumerate(zip(slices, sizes, strict=True)):
        start, stop, step = slice(*s).indices(n)
        if (start, stop, step) != (0, n, 1):
            target = [*g.shape[:axis], n, *g.shape[axis + 1 :]]
            g = aten.slice_backward.default(g, target, axis, start, max(start, stop), step)
    return g


@TABLE.add("dynamic_slice")
def dynamic_slice(x: Value, starts: Value, *dims: Value, shape: Shape) -> Value:
    """A view. PyTorch slices at numbers of the host, so the starts are copied to the host."""
    return x[window_at(starts.tolist(), x.shape, host_shape(shape, dims))]


@TABLE.add("dynamic_slice_grad")
def dynamic_slice_grad(g: Value, starts: Value, *dims: Value, shape: Shape) -> Value:
    """Padding around `g`. The starts are copied to the host."""
    sizes = host_shape(shape, dims)
    inside = window_at(starts.tolist(), sizes, g.shape)
    amounts = pad_amounts([(s.start, n - s.stop) for s, n in zip(inside, sizes, strict=True)])
    return torch.constant_pad_nd(g, amounts, 0)


# --- gathering ----------------------------------------------------------------------------------


def flat_indices(indices: Value, size: int) -> Value:
    """The indices as a vector, negative ones counted from the end."""
    flat = indices.reshape(-1)
    if flat.dtype not in (torch.int32, torch.int64):
        flat = flat.to(torch.int64)
    return torch.where(flat < 0, flat + size, flat)


def selected(x: Value, axis: int, indices: Value) -> tuple[Value, Value]:
    """The result of `index_select` for the indices, and these as a vector without negative ones.

    The kernel refuses negative indices, and to look for them takes as long as 256 rows of 16. So
    they are looked for only after it has refused the indices as they are.
    """
    flat = indices if indices.ndim == 1 else indices.reshape(-1)
    if x.is_cpu and flat.dtype in (torch.int32, torch.int64) and only_values_count(x, flat):
        with suppress(IndexError, RuntimeError):  # An index that is out of range is refused below.
            return torch.index_select(x, axis, flat), flat
    flat = flat_indices(flat, x.shape[axis])
    return torch.index_select(x, axis, flat), flat


def rows_of(x: Value, indices: Value) -> Value:
    """The indices of rows of `x` as a vector without negative ones. It fails if `x` lacks one. The
    least and the largest index take half of the time of a lookup that nobody reads, for 256 rows.
    """
    flat = indices if indices.ndim == 1 else indices.reshape(-1)
    plain = flat.is_cpu and flat.dtype in (torch.int32, torch.int64) and flat.shape[0] > 0
    if plain and only_values_count(flat):
        low, high = torch.aminmax(flat)
        if low.item() >= 0 and high.item() < x.shape[0]:
            return flat
    return selected(x[(slice(None), *[slice(1)] * (x.ndim - 1))], 0, flat)[1]


@TABLE.build("gather")
def gather(specs: Sequence[Spec], *, axis: int) -> Lowering:
    """`index_select`, which is three times as fast as indexing by a tensor."""

    def lowering(x: Value, indices: Value) -> Value:
        shape = x.shape
        rows, _ = selected(x, axis, indices)
        if indices.ndim == 1:
            return rows
        return rows.reshape(shape[:axis] + indices.shape + shape[axis + 1 :])

    if specs[0].dtype in SIGNED:
        return lambda x, indices: modular(specs[0], lambda bits: lowering(bits, indices))(x)
    return lowering


FEWEST, NARROWEST = 256, 8
"""Rows, and elements of a row, from which on sums are made in the order of the indices: 50,000 rows
of 64 into 5,000 take 0.4 of the time of `index_add_`, and rows of 4 elements 1.2."""


@TABLE.build("scatter_add")
def scatter_add(specs: Sequence[Spec], *, shape: Shape, axis: int) -> Lowering:
    """`index_add_`, which writes to the zeros, where `index_add` would copy them. Many wide rows
    are added up in the order of their indices, by the kernel of `embedding_bag`.
    """
    sorts = axis == 0 and specs[0].dtype in ("float16", "bfloat16", "float32")

    def lowering(g: Value, indices: Value, *dims: Value) -> Value:
        sizes = host_shape(shape, dims)
        flat = flat_indices(indices, sizes[axis])
        rows = g.reshape(*sizes[:axis], flat.shape[0], *sizes[axis + 1 :])
        if sorts and _is_large(rows, sizes[0]) and only_values_count(rows, flat):
            return _added_in_order(rows, flat, sizes)
        # The kernel for int32 indices takes as long as ten elements of each row.
        return g.new_zeros(sizes).index_add_(axis, flat.to(torch.int64), rows)

    if specs[0].dtype in SIGNED:
        return lambda g, *rest: modular(specs[0], lambda bits: lowering(bits, *rest))(g)
    return lowering


def _is_large(rows: Value, size: int) -> bool:
    """Whether there are many wide rows, and not many more to which none is added."""
    count = rows.shape[0]
    wide = rows.numel() >= count * NARROWEST
    return count >= FEWEST and wide and size <= 4 * count and rows.is_cpu


def _added_in_order(rows: Value, indices: Value, sizes: Sequence[int]) -> Value:
    """Zeros of shape `sizes` to which the rows are added; no index is negative."""
    if indices.dtype is torch.int64 and sizes[0] < 2**31:
        indices = indices.clamp_max(2**31 - 1).to(torch.int32)  # They are sorted in half the time.
    ordered, order = torch.sort(indices, stable=True)
    for index in (int(ordered[0]), int(ordered[-1])):
        if not 0 <= index < sizes[0]:
            raise IndexError(f"index {index} is out of range for an axis of {sizes[0]} elements")
    offsets = torch._convert_indices_from_coo_to_csr(ordered, sizes[0], out_int32=False)
    table = rows.reshape(rows.shape[0], -1)
    bags = torch.ops.aten._embedding_bag_forward_only
    sums = bags(table, order, offsets, False, SUM, False, None, include_last_offset=True)[0]
    return sums.reshape(sizes)


SUM = 0
"""The mode of `embedding_bag`."""

_COMBINED = {"max": (ordered, "amax"), "min": (ordered, "amin"), "product": (modular, "prod")}


@TABLE.build("scatter")
def scatter(specs: Sequence[Spec], *, by: str) -> Lowering:
    """`scatter_reduce` along the first axis."""
    choice, reduce = _COMBINED[by]

    def lowering(x: Value, indices: Value, updates: Value) -> Value:
        flat = flat_indices(indices, x.shape[0])
        rows = updates.reshape(-1, *x.shape[1:])
        places = flat.to(torch.int64).reshape(-1, *[1] * (x.ndim - 1)).expand_as(rows)
        return choice(specs[0], lambda x, rows: x.scatter_reduce(0, places, rows, reduce))(x, rows)

    return lowering


# --- one element along an axis --------------------------------------------------------------------


def _aligned(x: Value, labels: Value, axis: int) -> tuple[Value, Value]:
    """Both with the same sizes, but along `axis`, and the labels as indices."""
    rest = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    indices = labels.to(torch.int64)
    if rest != labels.shape:
        shape = torch.broadcast_shapes(rest, labels.shape)
        indices = indices.expand(shape)
        x = x.expand(*shape[:axis], x.shape[axis], *shape[axis + 1 :])
    return x, indices


@TABLE.add("pick")
def pick(x: Value, labels: Value, *, axis: int) -> Value:
    """`gather`, which takes no index outside of the axis."""
    x, indices = _aligned(x, labels, axis)
    size = x.shape[axis]
    if not size:
        return x.new_zeros(indices.shape)
    inside = indices.clamp(0, size - 1)
    return torch.where(inside == indices, x.gather(axis, inside), 0)


@TABLE.add("place")
def place(g: Value, labels: Value, *, axis: int, size: int) -> Value:
    """`scatter`."""
    g, indices = _aligned(g, labels, axis)
    sizes = (*g.shape[:axis], size, *g.shape[axis + 1 :])
    if not size:
        return g.new_zeros(sizes)
    inside = indices.clamp(0, size - 1)
    placed = torch.where(inside == indices, g, 0)
    return g.new_zeros(sizes).scatter_(axis, inside, placed)
