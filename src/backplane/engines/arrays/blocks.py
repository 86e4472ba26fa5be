"""What loops over blocks of NumPy arrays call."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np

from backplane.engines.arrays import rooms
from backplane.engines.base import Blocks, Value

UFUNCS = {"sum": np.add, "mean": np.add, "max": np.maximum, "min": np.minimum}


def _flat(*arrays: Value) -> Sequence[Value]:
    if all(x.flags.c_contiguous for x in arrays):
        return [x.reshape(-1) for x in arrays]
    return arrays


def _rows(x: Value, elements: int) -> int:
    return max(elements * len(x) // max(x.size, 1), 1)


def _combined(name: str, parts: Sequence[Any], x: Value, dtype: str) -> Any:
    kind = np.dtype(dtype)
    total = UFUNCS[name].reduce(np.array(parts, kind))
    return total / kind.type(x.size) if name == "mean" else total


BLOCKS = Blocks(
    empty=np.empty,
    rooms=rooms.for_values,
    flat=_flat,
    size=attrgetter("size"),
    rows=_rows,
    reduced={name: partial(ufunc.reduce, axis=None) for name, ufunc in UFUNCS.items()},
    combined=_combined,
)
