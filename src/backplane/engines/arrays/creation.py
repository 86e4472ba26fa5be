"""Making arrays, for few elements too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from backplane.engines.base import Value


def filled(shape: Sequence[int], value: float, dtype: Any) -> Value:
    """`np.full`, which takes twice as long for few elements; memory often comes zeroed."""
    if value == 0:
        return np.zeros(shape, dtype)
    y = np.empty(shape, dtype)
    y.fill(value)
    return y


def pad(x: Value, *, padding: Sequence[tuple[int, int]], value: float) -> Value:
    """`x` between (before, after) elements of `value` per axis. `np.pad` takes 20 µs a call."""
    shape = [before + n + after for n, (before, after) in zip(x.shape, padding, strict=True)]
    y = filled(shape, value, x.dtype)
    inner = [slice(before, before + n) for n, (before, _) in zip(x.shape, padding, strict=True)]
    y[tuple(inner)] = x
    return y
