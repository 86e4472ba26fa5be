"""Room for large arrays, used again.

A program makes arrays of the same sizes in each run. Memory that went back to the system in between
comes back page by page, which takes as long as filling it: a sixth of an LSTM's training step. The
last large arrays are therefore kept, and given out again once nobody else refers to them.
"""

from __future__ import annotations

from collections import deque
from sys import getrefcount
from typing import Any

import numpy as np

SMALLEST, MOST = 1 << 17, 1 << 26
"""Bytes: arrays from here on are kept, and so many altogether."""
LOOKS = 16
"""Kept arrays of one shape that are looked at for a free one."""

_kept: dict[Any, deque[np.ndarray]] = {}
_bytes = 0


def empty(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """A C-contiguous array of any content, as of `np.empty`."""
    key = (shape, dtype)
    arrays = _kept.get(key, ())
    for _ in range(min(len(arrays), LOOKS)):
        array, references = _next(arrays)  # type: ignore[arg-type]
        if references == _ALONE:
            return array
    array = np.empty(shape, dtype)
    if SMALLEST <= array.nbytes <= MOST:
        _keep(key, array)
    return array


def clear() -> None:
    """Keep nothing."""
    global _bytes
    _kept.clear()
    _bytes = 0


def _keep(key: Any, array: np.ndarray) -> None:
    global _bytes
    if _bytes + array.nbytes > MOST:
        clear()
    _bytes += array.nbytes
    _kept.setdefault(key, deque()).append(array)


def _next(arrays: deque[np.ndarray]) -> tuple[np.ndarray, int]:
    """The array that was looked at least recently, and how many refer to it. Views do, too.

    It is taken out meanwhile: another thread that finds it afterwards sees this one's reference.
    """
    array = arrays.popleft()
    references = getrefcount(array)
    arrays.append(array)
    return array, references


_ALONE = _next(deque([np.empty(0)]))[1]
