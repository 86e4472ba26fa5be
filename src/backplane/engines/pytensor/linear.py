"""The matrix product."""

from __future__ import annotations

import pytensor.tensor as pt

from backplane.engines.pytensor.elementwise import in_single
from backplane.engines.pytensor.library import shuffled
from backplane.engines.table import Table, Value

TABLE = Table()


@TABLE.add("matmul")
def matmul(x: Value, y: Value, *, transpose_x: bool, transpose_y: bool) -> Value:
    """The product of the last two axes."""
    product = pt.dot if x.ndim == 2 else pt.matmul
    turned = (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)
    left = shuffled(x, turned) if transpose_x else x
    right = shuffled(y, turned) if transpose_y else y
    return in_single(product)(left, right)
