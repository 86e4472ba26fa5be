"""The functions that loops over blocks of tensors call, for tensors on the processor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from backplane.engines.arrays.fast import buffers
from backplane.engines.programs import Blocks
from backplane.engines.table import Value
from backplane.engines.torch.dtypes import TORCH

REDUCED = {"sum": torch.sum, "mean": torch.sum, "max": torch.amax, "min": torch.amin}
NUMPY = {torch.float32: np.dtype("float32"), torch.float64: np.dtype("float64")}
"""The dtypes whose tensors lie in NumPy arrays, so that their memory can be used again."""


class _Recycler:
    """Memory for one variable's values: NumPy arrays, which know how many refer to them."""

    def __init__(self) -> None:
        self.arrays = buffers.for_values()

    def empty(self, shape: tuple[int, ...], dtype: str) -> Value:
        """A tensor of any content."""
        kind = NUMPY.get(TORCH[dtype])
        if kind is None:
            return _empty(shape, dtype)
        return torch.from_numpy(self.arrays.empty(tuple(shape), kind))


def _empty(shape: tuple[int, ...], dtype: str) -> Value:
    return torch.empty(shape, dtype=TORCH[dtype])


def _flat(*tensors: Value) -> Sequence[Value]:
    if all(x.is_contiguous() for x in tensors):
        return [x.view(-1) for x in tensors]
    return tensors


def _combined(name: str, parts: Sequence[Value], x: Value, dtype: str) -> Value:
    total = REDUCED[name](torch.stack(tuple(parts)) if parts else x.new_empty(0))
    return total / x.numel() if name == "mean" else total


BLOCKS = Blocks(
    empty=_empty,
    recycler=_Recycler,
    flat=_flat,
    size=torch.numel,
    reduced=REDUCED,
    combined=_combined,
)
