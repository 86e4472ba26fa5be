"""Lowerings of branches and loops: Python's own, around functions that run the closed graphs."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from backplane.engines.arrays.control import Room, Rows
from backplane.engines.arrays.fast.buffers import LOOPS
from backplane.engines.table import Value
from backplane.engines.torch.dtypes import TORCH
from backplane.engines.torch.fast.blocks import NUMPY
from backplane.engines.torch.tracing import only_values_count


def _empty(count: int, y: Value) -> Value:
    """Room for `count` values like y, on the processor in memory that an earlier stack had."""
    dtype = NUMPY.get(y.dtype) if y.is_cpu else None
    if dtype is None:
        return y.new_empty((count, *y.shape))
    return torch.from_numpy(LOOPS.empty((count, *y.shape), dtype))


def _zeros(shape: Sequence[int], dtype: str) -> Value:
    return torch.zeros(tuple(shape), dtype=TORCH[dtype])


ROWS = Rows(
    of=torch.unbind,
    stack=torch.stack,
    zeros=_zeros,
    room=Room(lambda operands: only_values_count(*operands), _empty, torch.unbind, torch.clone),
)
