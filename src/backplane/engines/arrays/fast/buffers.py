"""Memory of large arrays, used again, and the functions that loops over blocks of arrays call.

A program makes arrays of the same sizes in each run. Memory that went back to the system in between
comes back page by page, which takes as long as filling it: a sixth of an LSTM's training step, a
third of a step of Adam. So the last large arrays are kept, and given out again when nobody else
refers to them, by Python's count of references: results belong to users, who need not tell.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial
from operator import attrgetter
from sys import getrefcount
from typing import Any

import numpy as np

from backplane.engines.fast import applies
from backplane.engines.programs import Blocks
from backplane.engines.table import Value

SMALLEST, MOST = 1 << 17, 1 << 26
"""Bytes: arrays of loops are kept from here on, and so many altogether."""
LOOKS = 16
"""Kept arrays of one shape that are looked at for a free one."""


class Buffers:
    """Kept arrays: `smallest` bytes at least, `most` altogether, `count` of a shape and dtype."""

    def __init__(self, smallest: int = 0, most: int | None = None, count: int | None = None):
        self.smallest, self.most, self.count = smallest, most, count
        self.kept: dict[Any, deque[np.ndarray]] = {}
        self.bytes = 0

    def empty(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """A C-contiguous array of any content, as of `np.empty`."""
        key = (shape, dtype)
        arrays = self.kept.get(key, ())
        for _ in range(min(len(arrays), LOOKS)):
            array, references = _next(arrays)  # type: ignore[arg-type]
            if references == _ALONE:
                return array
        array = np.empty(shape, dtype)
        fits = self.smallest <= array.nbytes and (self.most is None or array.nbytes <= self.most)
        if fits and applies("arrays.buffers"):
            self._keep(key, array)
        return array

    def clear(self) -> None:
        """Keep nothing."""
        self.kept.clear()
        self.bytes = 0

    def _keep(self, key: Any, array: np.ndarray) -> None:
        if self.most is not None and self.bytes + array.nbytes > self.most:
            self.clear()
        arrays = self.kept.setdefault(key, deque(maxlen=self.count))
        if len(arrays) != self.count:
            self.bytes += array.nbytes
        arrays.append(array)


def _next(arrays: deque[np.ndarray]) -> tuple[np.ndarray, int]:
    """The array that was looked at least recently, and how many refer to it. Views do, too.

    It is taken out meanwhile: another thread that finds it afterwards sees this one's reference.
    """
    array = arrays.popleft()
    references = getrefcount(array)
    arrays.append(array)
    return array, references


_ALONE = _next(deque([np.empty(0)]))[1]

LOOPS = Buffers(SMALLEST, MOST)
"""The arrays that all loops of the process share."""


def for_values() -> Buffers:
    """Memory for the values of a variable: the present one, the next, and one that is held."""
    return Buffers(count=3)


# --- blocks ---------------------------------------------------------------------------------------

UFUNCS = {"sum": np.add, "max": np.maximum, "min": np.minimum}


def _flat(*arrays: Value) -> Sequence[Value]:
    if all(x.flags.c_contiguous for x in arrays):
        return [x.reshape(-1) for x in arrays]
    return arrays


def _combined(name: str, parts: Sequence[Any], x: Value, dtype: str) -> Any:
    return UFUNCS[name].reduce(np.array(parts, np.dtype(dtype)))


BLOCKS = Blocks(
    empty=np.empty,
    recycler=for_values,
    flat=_flat,
    size=attrgetter("size"),
    reduced={name: partial(ufunc.reduce, axis=None) for name, ufunc in UFUNCS.items()},
    combined=_combined,
)
