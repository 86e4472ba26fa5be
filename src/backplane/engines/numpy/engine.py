"""NumPy as an engine: arrays are its values, an emitted program is its own compiled form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from backplane.core.spec import DTYPES, Spec
from backplane.engines.arrays import convolution, indexing, pooling, random, updates
from backplane.engines.arrays.quiet import SILENCE
from backplane.engines.base import Blocks, Engine, Table, Value
from backplane.engines.numpy import elementwise, reductions, shaping
from backplane.engines.numpy.loops import loops

# `dtype.name` takes longer than a small ufunc; types of equal width share a name (long, long long).
_NAMES = {np.dtype(code).num: np.dtype(code).name for code in np.typecodes["AllInteger"] + "?efd"}
assert set(_NAMES.values()) == DTYPES - {"bfloat16"}


class NumPyEngine(Engine):
    """Programs run as emitted; values are arrays and NumPy scalars. Nothing writes to them but the
    steps of optimizers, to arrays of their own.
    """

    name = "numpy"
    takes_arrays = gives_arrays = holds_arrays = True
    library = "numpy"
    capabilities = frozenset(
        {"host_shapes", "float16", "unsigned", "eager", "out", "blocks", "steps"}
    )
    around = SILENCE

    def __init__(self) -> None:
        rooms = (
            elementwise, reductions, shaping, indexing, convolution, pooling, random, updates,
        )  # fmt: skip
        self.table = Table.joined(*[room.TABLE for room in rooms], loops(self))

    def owns(self, value: object) -> bool:
        """Whether `value` is an array or a NumPy scalar."""
        return isinstance(value, np.ndarray | np.generic)

    def spec_of(self, value: Value) -> Spec:
        """Shape and dtype name of an array or a NumPy scalar."""
        dtype = value.dtype
        return Spec(value.shape, _NAMES.get(dtype.num) or dtype.name)

    def signature(self, kind: type) -> tuple[str, ...]:
        """Shape and dtype."""
        return "{x}.shape", "{x}.dtype"

    def from_numpy(self, array: np.ndarray, dtype: str | None = None) -> Value:
        """The array itself where it has the dtype: the engine writes to no operand."""
        if dtype is None and not array.dtype.isnative:
            dtype = array.dtype.name
        return np.asarray(array, dtype)

    def to_numpy(self, value: Value) -> np.ndarray:
        """A copy, so that who writes to it does not write to a variable."""
        return np.array(value)

    def feed(self, array: np.ndarray) -> Value:
        """The array itself."""
        return array

    def fetch(self, value: Value) -> np.ndarray:
        """The array itself; a scalar becomes an array without axes."""
        return np.asarray(value)

    def lend(self, value: Value) -> Value:
        """A copy of what a later step of an optimizer writes to."""
        return np.array(value) if updates.may_be_written(value) else value

    def blocks(self) -> Blocks:
        """NumPy's calls; imported where a program has large arrays."""
        from backplane.engines.arrays.blocks import BLOCKS

        return BLOCKS

    def updates_in_place(self, options: Mapping[str, Any]) -> bool:
        """Block by block."""
        return True


ENGINE = NumPyEngine()
