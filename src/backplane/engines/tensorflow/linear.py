"""The matrix product."""

from __future__ import annotations

from backplane.engines.table import Table, Value
from backplane.engines.tensorflow.constants import sizes_of, vector
from backplane.engines.tensorflow.library import HALVES, raw, tf

TABLE = Table()

_TYPES = frozenset((*HALVES, tf.float32, tf.float64, tf.int32, tf.int64))
"""The dtypes that the kernels have."""


@TABLE.add("matmul")
def _matmul(x: Value, y: Value, *, transpose_x: bool, transpose_y: bool) -> Value:
    if x.dtype not in _TYPES:
        # Modulo 2⁶⁴ the product of wrapped integers is the wrapped product.
        wide = tf.cast(x, tf.int64), tf.cast(y, tf.int64)
        return tf.cast(_matmul(*wide, transpose_x=transpose_x, transpose_y=transpose_y), x.dtype)
    if x.shape.rank == 2:
        product = raw.MatMul(a=x, b=y, transpose_a=transpose_x, transpose_b=transpose_y)
        # The kernel that adds a bias to such a product would end the process.
        empty = 0 in (*x.shape, *y.shape)
        return tf.zeros(vector(sizes_of(product)), x.dtype) if empty else product
    return raw.BatchMatMulV2(x=x, y=y, adj_x=transpose_x, adj_y=transpose_y)


@TABLE.add("rows_matmul", unless=lambda specs: specs[0].dtype not in ("float32", "float64"))
def _rows_matmul(
    values: Value, columns: Value, offsets: Value, rows: Value, across: Value, y: Value
) -> Value:
    """The product of a `CSRSparseMatrix`, one for all products, five times as fast as segments."""
    height = raw.Size(input=offsets) - 1
    # The kernel ends the process if there is no row.
    shape = raw.Pack(values=[raw.Maximum(x=height, y=1), raw.Size(input=across)])
    # Both places of an entry as the halves of one number: `Pack` takes 1.7 times as long.
    pairs = tf.cast(rows, tf.int64) + tf.cast(columns, tf.int64) * (1 << 32)
    matrix = raw.SparseTensorToCSRSparseMatrix(
        indices=tf.cast(tf.bitcast(pairs, tf.int32), tf.int64),
        values=values,
        dense_shape=tf.cast(shape, tf.int64),
    )
    product = raw.SparseMatrixMatMul(a=matrix, b=y)
    known = offsets.shape[0]
    product.set_shape((known and max(known - 1, 1), y.shape[1]))
    # A slice of the first axis is no copy.
    return product if known and known > 1 else product[:height]
