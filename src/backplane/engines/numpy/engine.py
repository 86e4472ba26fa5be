"""NumPy as an engine: arrays are its values, an emitted program is its own compiled form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from backplane.core.spec import DTYPES, Spec
from backplane.engines.arrays.control import Room, Rows, loops
from backplane.engines.arrays.engine import SILENCE, ArrayEngine
from backplane.engines.arrays.fast import updates
from backplane.engines.arrays.fast.buffers import BLOCKS, LOOPS
from backplane.engines.arrays.linear import for_steps
from backplane.engines.arrays.native import TakesFunctions
from backplane.engines.base import natives
from backplane.engines.programs import Blocks
from backplane.engines.table import Table, Value

# `dtype.name` takes longer than a small ufunc; types of equal width share a name (long, long long).
_NAMES = {np.dtype(code).num: np.dtype(code).name for code in np.typecodes["AllInteger"] + "?efd"}
assert set(_NAMES.values()) == DTYPES - {"bfloat16"}


def _places(stack: Value) -> list[Value]:
    """The rows of a stack as views: those without axes, which are numbers, get one element."""
    return list(stack if stack.ndim > 1 else stack.reshape(-1, 1))


def _empty(count: int, y: Value) -> Value:
    return LOOPS.empty((count, *y.shape), y.dtype)


ROWS = Rows(list, np.stack, np.zeros, for_steps, Room(None, _empty, _places, np.array))


class NumPyEngine(TakesFunctions, ArrayEngine):
    """Programs run as emitted. The table is that of `engines.arrays`."""

    name = "numpy"
    library = "numpy"
    native_types = (np.ndarray, np.generic)
    hashable = ("{x}.shape", "{x}.dtype")
    capabilities = frozenset({"host_shapes", "unsigned", "eager", "out", "blocks", "steps"})
    around = SILENCE

    def __init__(self) -> None:
        own = updates.TABLE, loops(self, ROWS), natives(self)
        self.table = Table.of_rooms("backplane.engines.arrays", *own)

    def spec_of(self, value: Value) -> Spec:
        """Shape and dtype name of an array or a NumPy scalar."""
        dtype = value.dtype
        return Spec(value.shape, _NAMES.get(dtype.num) or dtype.name)

    def blocks(self) -> Blocks:
        """NumPy's calls."""
        return BLOCKS

    def updates_in_place(self, options: Mapping[str, Any]) -> bool:
        """Block by block."""
        return True


ENGINE = NumPyEngine()
