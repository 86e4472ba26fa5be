"""The matrix product."""

from __future__ import annotations

from backplane.engines.table import Table, Value
from backplane.engines.tensorflow.library import HALVES, raw, tf

TABLE = Table()

_TYPES = frozenset((*HALVES, tf.float32, tf.float64, tf.int32, tf.int64))
"""Those that the kernels have."""


@TABLE.add("matmul")
def _matmul(x: Value, y: Value, *, transpose_x: bool, transpose_y: bool) -> Value:
    if x.dtype not in _TYPES:
        # Modulo 2⁶⁴ the product of wrapped integers is the wrapped product.
        wide = tf.cast(x, tf.int64), tf.cast(y, tf.int64)
        return tf.cast(_matmul(*wide, transpose_x=transpose_x, transpose_y=transpose_y), x.dtype)
    if x.shape.rank == 2:
        return raw.MatMul(a=x, b=y, transpose_a=transpose_x, transpose_b=transpose_y)
    return raw.BatchMatMulV2(x=x, y=y, adj_x=transpose_x, adj_y=transpose_y)
