"""Keras' functions of the module `numpy` that compute numbers element by element."""

from __future__ import annotations

from typing import Any

from backplane.keras3.call import alike, op
from backplane.ops import elementwise as ew


@op
def add(x1: Any, x2: Any) -> Any:
    """x1 + x2; of bools, whether one is true."""
    x, y = alike(x1, x2)
    return ew.logical_or(x, y) if x.spec.dtype == "bool" else ew.add(x, y)
