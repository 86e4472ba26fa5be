"""Lowerings: shapes, padding, creation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from backplane.core.spec import UNSIGNED, Spec
from backplane.engines.table import Lowering, Shape, Table, Value
from backplane.engines.torch.dtypes import TORCH, modular
from backplane.engines.torch.tracing import host_shape

TABLE = Table(
    dim=lambda x, *, axis: x.shape[axis],
)


# --- shape --------------------------------------------------------------------------------------


def _to_shape(function: Callable[[Value, Any], Value], shape: Shape) -> Lowering:
    """`function`, which gives a view where the memory allows it. `torch.reshape` takes 0.6 of the
    time of the method.
    """
    if None in shape:
        return lambda x, *dims: function(x, host_shape(shape, dims))
    return lambda x: function(x, shape)


TABLE.build("reshape")(lambda specs, *, shape: _to_shape(torch.reshape, shape))
TABLE.build("broadcast_to")(lambda specs, *, shape: _to_shape(torch.Tensor.expand, shape))
TABLE.build("transpose")(lambda specs, *, perm: lambda x: x.permute(perm))


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
    """A view. `Tensor.squeeze` keeps axes whose size is not 1, so unknown sizes are checked."""
    if all(specs[0].shape[axis] == 1 for axis in axes):
        return lambda x: x.squeeze(axes)

    def lowering(x: Value) -> Value:
        for axis in axes:
            if x.shape[axis] != 1:
                shape = tuple(x.shape)
                raise ValueError(f"axis {axis} of shape {shape} has not size 1: cannot squeeze it")
        return x.squeeze(axes)

    return lowering


TABLE.build("concat", into=True)(
    lambda specs, *, axis: lambda *xs, out=None: torch.cat(xs, axis, out=out)
)
# A copy, because PyTorch has no negative strides.
TABLE.build("flip")(lambda specs, *, axes: modular(specs[0], lambda x: x.flip(axes)))


def pad_amounts(padding: Sequence[tuple[int, int]]) -> list[int]:
    """(before, after) per axis as PyTorch wants it: flat, the last axis first."""
    return [amount for pair in reversed(padding) for amount in pair]


@TABLE.build("pad")
def pad(specs: Sequence[Spec], *, padding: tuple[tuple[int, int], ...], value: Any) -> Lowering:
    """`torch.constant_pad_nd`."""
    amounts = pad_amounts(padding)
    return lambda x: torch.constant_pad_nd(x, amounts, value)


# --- creation -----------------------------------------------------------------------------------


@TABLE.build("full")
def full(specs: Sequence[Spec], *, shape: Shape, value: Any, dtype: str) -> Lowering:
    """`torch.full`."""
    target = TORCH[dtype]
    return lambda *dims: torch.full(host_shape(shape, dims), value, dtype=target)


@TABLE.build("arange")
def arange(specs: Sequence[Spec], *, dtype: str) -> Lowering:
    """`torch.arange`, but empty, as in NumPy, if no step leads from start to stop.

    Operands that are computed from sizes may be NumPy arrays, which `torch.arange` does not take.
    """
    target = TORCH[dtype]
    kind = torch.int64 if dtype in UNSIGNED else target

    def lowering(*bounds: Value) -> Value:
        start, stop, step = [x.item() if isinstance(x, np.ndarray) else x for x in bounds]
        if (stop < start) if step > 0 else (stop > start):
            stop = start
        return torch.arange(start, stop, step, dtype=kind).to(target)

    return lowering
