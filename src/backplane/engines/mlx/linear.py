"""Lowerings: matrix products."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx
import numpy as np

from backplane.core.spec import Spec, is_float
from backplane.engines import get
from backplane.engines.mlx.indexing import scatter_add
from backplane.engines.mlx.values import from_numpy, to_numpy
from backplane.engines.table import Lowering, Table, Value

TABLE = Table()


@TABLE.build("matmul")
def matmul(specs: Sequence[Spec], **swaps: bool) -> Lowering:
    """`mx.matmul`, whose kernels read swapped axes as they are."""
    product = _of_floats if is_float(specs[0].dtype) else _of_ints
    return (lambda x, y: product(*_swapped(x, y, **swaps))) if any(swaps.values()) else product


@TABLE.add("matmul_add")
def matmul_add(x: Value, y: Value, c: Value, **swaps: bool) -> Value:
    """`mx.addmm`."""
    x, y = _swapped(x, y, **swaps)
    return mx.addmm(c, x, y) if x.size and y.size else _of_nothing(x, y) + c


def _of_floats(x: Value, y: Value) -> Value:
    return mx.matmul(x, y) if x.size and y.size else _of_nothing(x, y)


def _of_nothing(x: Value, y: Value) -> Value:
    """Zeros: without elements, products end the process on CUDA (MLX 0.32)."""
    batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    return mx.zeros((*batch, x.shape[-2], y.shape[-1]), x.dtype)


def _swapped(x: Value, y: Value, *, transpose_x: bool, transpose_y: bool) -> tuple[Value, Value]:
    return x.swapaxes(-1, -2) if transpose_x else x, y.swapaxes(-1, -2) if transpose_y else y


AT_ONCE = 16
"""Columns of integers that are multiplied at once: the products take so many times the memory of
the result."""


def _of_ints(x: Value, y: Value) -> Value:
    """Sums of products: MLX multiplies matrices of floats only."""
    total = mx.zeros((*x.shape[:-1], y.shape[-1]), x.dtype)
    for i in range(0, x.shape[-1], AT_ONCE):
        products = x[..., i : i + AT_ONCE, None] * y[..., None, i : i + AT_ONCE, :]
        total = total + mx.sum(products, -2).astype(x.dtype)
    return total


@TABLE.build("rows_matmul", unless=lambda specs: specs[0].dtype not in ("float32", "float64"))
def _rows_matmul(specs: Sequence[Spec]) -> Lowering:
    """SciPy's product, or NumPy's, on a processor: MLX's sums by index take 15 times as long."""
    by_numpy = get("numpy").table["rows_matmul"].lowering(specs, {})

    def product(*operands: Value) -> Value:
        if mx.default_device() != mx.cpu:
            return _added_rows(*operands)
        try:
            arrays = list(map(to_numpy, operands))
        except ValueError:  # `mx.compile` traces.
            return _added_rows(*operands)
        return from_numpy(by_numpy(*arrays))

    return product


def _added_rows(
    values: Value, columns: Value, offsets: Value, rows: Value, across: Value, y: Value
) -> Value:
    y = y.reshape(across.size, y.shape[1])
    products = values[:, None] * mx.take(y, columns, 0)
    return scatter_add(products, rows, shape=(offsets.size - 1, y.shape[1]), axis=0)
