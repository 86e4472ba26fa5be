"""Matrix products."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from backplane.engines.base import Value


def for_blas(x: Value) -> Value:
    """`x`, copied if one of the last two axes is not contiguous.

    `np.matmul` would leave BLAS for strides that BLAS cannot take (a broadcast gradient).
    """
    *_, rows, columns = x.strides
    item = x.itemsize
    if (columns == item and rows >= item) or (rows == item and columns >= item):
        return x
    return np.ascontiguousarray(x)


def for_steps(constants: Sequence[Value]) -> list[Value]:
    """What all steps of a loop read, matrices row by row: products with them are faster so."""
    return [np.ascontiguousarray(x) if x.ndim == 2 else x for x in constants]
