"""Lowerings: shapes, indices, creation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from backplane.core.spec import UNSIGNED, Spec
from backplane.engines.base import Lowering, Table, Value, host_shape
from backplane.engines.torch.dtypes import SIGNED, TORCH, modular

aten = torch.ops.aten

TABLE = Table()

Shape = tuple[int | None, ...]
Slices = tuple[tuple[int | None, int | None, int], ...]

# --- shape --------------------------------------------------------------------------------------


@TABLE.add("dim")
def dim(x: Value, *, axis: int) -> int:
    """A host value."""
    return x.shape[axis]


@TABLE.build("reshape")
def reshape(specs: Sequence[Spec], *, shape: Shape) -> Lowering:
    """A view where the memory allows it."""
    if None in shape:
        return lambda x, *dims: x.reshape(host_shape(shape, dims))
    return lambda x: x.reshape(shape)


@TABLE.build("broadcast_to")
def broadcast_to(specs: Sequence[Spec], *, shape: Shape) -> Lowering:
    """A view."""
    if None in shape:
        return lambda x, *dims: x.expand(host_shape(shape, dims))
    return lambda x: x.expand(shape)


@TABLE.build("transpose")
def transpose(specs: Sequence[Spec], *, perm: tuple[int, ...]) -> Lowering:
    """A view."""
    return lambda x: x.permute(perm)


@TABLE.build("expand_dims")
def expand_dims(specs: Sequence[Spec], *, axes: tuple[int, ...]) -> Lowering:
    """A view."""
    if len(axes) == 1:
        return lambda x: x.unsqueeze(axes[0])
    rank = specs[0].ndim + len(axes)
    key = tuple(None if i in axes else slice(None) for i in range(rank))
    return lambda x: x[key]


@TABLE.build("squeeze")
def squeeze(specs: Sequence[Spec], *, axes: tuple[int, ...]) -> Lowering:
    """A view. `Tensor.squeeze` keeps axes of other sizes than 1, so unknown sizes are looked at."""
    if all(specs[0].shape[axis] == 1 for axis in axes):
        return lambda x: x.squeeze(axes)

    def lowering(x: Value) -> Value:
        for axis in axes:
            if x.shape[axis] != 1:
                shape = tuple(x.shape)
                raise ValueError(f"axis {axis} of shape {shape} has not size 1: cannot squeeze it")
        return x.squeeze(axes)

    return lowering


@TABLE.build("concat", into=True)
def concat(specs: Sequence[Spec], *, axis: int) -> Lowering:
    """`torch.cat`."""
    return lambda *xs, out=None: torch.cat(xs, axis, out=out)


@TABLE.build("flip")
def flip(specs: Sequence[Spec], *, axes: tuple[int, ...]) -> Lowering:
    """A copy, as PyTorch has no negative strides."""
    return modular(specs[0], lambda x: x.flip(axes))


def pad_amounts(padding: Sequence[tuple[int, int]]) -> list[int]:
    """(before, after) per axis as PyTorch wants it: flat, the last axis first."""
    return [amount for pair in reversed(padding) for amount in pair]


@TABLE.build("pad")
def pad(specs: Sequence[Spec], *, padding: tuple[tuple[int, int], ...], value: Any) -> Lowering:
    """`torch.constant_pad_nd`."""
    amounts = pad_amounts(padding)
    return lambda x: torch.constant_pad_nd(x, amounts, value)


# --- slices -------------------------------------------------------------------------------------


@TABLE.build("slice", view=True)
def slice_(specs: Sequence[Spec], *, slices: Slices) -> Lowering:
    """A view."""
    key = tuple(slice(*s) for s in slices)
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
    """What slices of step 1 leave out, before and after, as `pad_amounts`."""
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


def _put(g: Value, starts: Sequence[int], sizes: Sequence[int]) -> Value:
    """Zeros of shape `sizes` with `g` put at `starts`."""
    padding = [(s, n - s - m) for s, n, m in zip(starts, sizes, g.shape, strict=True)]
    return torch.constant_pad_nd(g, pad_amounts(padding), 0)


def _clamped(starts: Value, shape: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """Starts on the host, such that `sizes` elements from there lie inside `shape`."""
    return [
        max(0, min(start, n - m)) for start, n, m in zip(starts.tolist(), shape, sizes, strict=True)
    ]


@TABLE.build("dynamic_slice")
def dynamic_slice(specs: Sequence[Spec], *, shape: Shape) -> Lowering:
    """A view. PyTorch slices at host values, so the starts are read."""

    def lowering(x: Value, starts: Value, *dims: Value) -> Value:
        sizes = host_shape(shape, dims)
        places = zip(_clamped(starts, x.shape, sizes), sizes, strict=True)
        return x[tuple(slice(start, start + size) for start, size in places)]

    return lowering


@TABLE.build("dynamic_slice_grad")
def dynamic_slice_grad(specs: Sequence[Spec], *, shape: Shape) -> Lowering:
    """Padding, at starts that are read."""

    def lowering(g: Value, starts: Value, *dims: Value) -> Value:
        sizes = host_shape(shape, dims)
        return _put(g, _clamped(starts, sizes, g.shape), sizes)

    return lowering


# --- gathering ----------------------------------------------------------------------------------


def _flat_indices(indices: Value, size: int) -> Value:
    """The indices as a vector, negative ones counted from the end."""
    flat = indices.reshape(-1)
    if flat.dtype not in (torch.int32, torch.int64):
        flat = flat.to(torch.int64)
    return torch.where(flat < 0, flat + size, flat)


@TABLE.build("gather")
def gather(specs: Sequence[Spec], *, axis: int) -> Lowering:
    """`index_select`, three times as fast as indexing by a tensor, which knows negative indices."""

    def lowering(x: Value, indices: Value) -> Value:
        shape = x.shape
        found = torch.index_select(x, axis, _flat_indices(indices, shape[axis]))
        return found.reshape(shape[:axis] + indices.shape + shape[axis + 1 :])

    return lowering


@TABLE.build("scatter_add")
def scatter_add(specs: Sequence[Spec], *, shape: Shape, axis: int) -> Lowering:
    """`index_add_` into fresh zeros, which spares a copy of them."""

    def lowering(g: Value, indices: Value, *dims: Value) -> Value:
        sizes = host_shape(shape, dims)
        flat = _flat_indices(indices, sizes[axis])
        rows = g.reshape(*sizes[:axis], flat.shape[0], *sizes[axis + 1 :])
        return g.new_zeros(sizes).index_add_(axis, flat, rows)

    if specs[0].dtype in SIGNED:
        return lambda g, *rest: modular(specs[0], lambda bits: lowering(bits, *rest))(g)
    return lowering


# --- creation -----------------------------------------------------------------------------------


@TABLE.build("full")
def full(specs: Sequence[Spec], *, shape: Shape, value: Any, dtype: str) -> Lowering:
    """`torch.full`."""
    target = TORCH[dtype]
    return lambda *dims: torch.full(host_shape(shape, dims), value, dtype=target)


@TABLE.build("arange")
def arange(specs: Sequence[Spec], *, dtype: str) -> Lowering:
    """`torch.arange`, and like NumPy empty where no step leads from start to stop."""
    target = TORCH[dtype]
    kind = torch.int64 if dtype in UNSIGNED else target

    def lowering(start: Value, stop: Value, step: Value) -> Value:
        if (stop < start) if step > 0 else (stop > start):
            stop = start
        return torch.arange(start, stop, step, dtype=kind).to(target)

    return lowering
