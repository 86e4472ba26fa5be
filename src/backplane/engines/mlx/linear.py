"""Lowerings: matrix products."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx

from backplane.core.spec import Spec, is_float
from backplane.engines.table import Lowering, Table, Value

TABLE = Table()


def _swapped(x: Value) -> Value:
    return mx.swapaxes(x, -1, -2)


@TABLE.build("matmul")
def matmul(specs: Sequence[Spec], *, transpose_x: bool, transpose_y: bool) -> Lowering:
    """`mx.matmul`, whose kernels read swapped axes as they are."""
    function = mx.matmul if is_float(specs[0].dtype) else _of_ints
    if transpose_x and transpose_y:
        return lambda x, y: function(_swapped(x), _swapped(y))
    if transpose_x:
        return lambda x, y: function(_swapped(x), y)
    if transpose_y:
        return lambda x, y: function(x, _swapped(y))
    return function


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


@TABLE.build("matmul_add")
def matmul_add(specs: Sequence[Spec], *, transpose_x: bool, transpose_y: bool) -> Lowering:
    """`mx.addmm`."""

    def lowering(x: Value, y: Value, c: Value) -> Value:
        return mx.addmm(c, _swapped(x) if transpose_x else x, _swapped(y) if transpose_y else y)

    return lowering
