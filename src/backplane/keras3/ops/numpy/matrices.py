"""Diagonals, triangles, and matrices that are made of them."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from backplane.backend._args import as_axis
from backplane.core.graph import Tensor, constant
from backplane.keras3.call import op
from backplane.keras3.operands import result_type, standard, tensor_of
from backplane.keras3.ops.numpy.operands import (
    Function,
    flat,
    float_of,
    floatx,
    length,
    like,
    places,
    reduced,
    wide,
)
from backplane.ops import elementwise as ew
from backplane.ops import reduction as red
from backplane.ops.axes import merge_axes, permuted
from backplane.ops.creation import arange, scalar, shaped, size_at
from backplane.ops.factorization import determinant_parts
from backplane.ops.indexing import gather, pad
from backplane.ops.lift import cast_to
from backplane.ops.shaping import broadcast_to, expand_dims

__all__ = [
    "diag", "diagflat", "diagonal", "eye", "identity", "slogdet", "trace", "tri", "tril",
    "triu", "vander",
]  # fmt: skip


def _distance(x: Tensor) -> Tensor:
    """For each place of the matrices of `x`, its column less its row."""
    return ew.sub(places(x, x.ndim - 1), places(x, x.ndim - 2))


def _kept(x: Any, k: int, test: Function) -> Tensor:
    """The elements of matrices where a test of the distance from the diagonal `k` holds, and
    zeros. A vector stands for a matrix with equal rows.
    """
    x = tensor_of(x)
    if x.ndim == 1:
        x = shaped(broadcast_to, [size_at(x, 0)] * 2, x)
    return ew.where(test(_distance(x), scalar(k, "int32")), x, scalar(0, x.spec.dtype))


@op(static=("k",))
def tril(x: Any, k: int = 0) -> Tensor:
    """The lower triangle of matrices, up to the diagonal `k`; zeros above."""
    return _kept(x, k, ew.less_equal)


@op(static=("k",))
def triu(x: Any, k: int = 0) -> Tensor:
    """The upper triangle of matrices, from the diagonal `k` on; zeros below."""
    return _kept(x, k, lambda d, k: ew.less_equal(k, d))


def _made(rows: int, columns: int | None, dtype: Any, test: Function, k: int) -> Tensor:
    """The matrix that is 1 where a test of the distance from the diagonal `k` holds."""
    rows, k = operator.index(rows), operator.index(k)  # Raises a TypeError for floats.
    across = constant(np.arange(rows if columns is None else operator.index(columns)), "int32")
    down = constant(np.arange(rows)[:, None], "int32")
    return cast_to(test(ew.sub(across, down), scalar(k, "int32")), standard(dtype))


@op(static=("N", "M", "k"))
def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = None) -> Tensor:
    """The matrix of N rows and M columns with ones up to the diagonal `k`, and zeros above."""
    return _made(N, M, dtype, ew.less_equal, k)


@op(static=("N", "M", "k"))
def eye(N: int, M: int | None = None, k: int = 0, dtype: Any = None) -> Tensor:
    """The matrix of N rows and M columns with ones on the diagonal `k`, and zeros elsewhere."""
    return _made(N, M, dtype, ew.equal, k)


@op(static=("n",))
def identity(n: int, dtype: Any = None) -> Tensor:
    """The square matrix with ones on its diagonal, and zeros elsewhere."""
    return eye(n, dtype=dtype)


# --- diagonals ------------------------------------------------------------------------------------


@op(static=("offset",))
def diagonal(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The elements on a diagonal of matrices, whose rows and columns lie along two axes. They lie
    along the last axis of the result.
    """
    x = tensor_of(x)
    first, second = as_axis(axis1, x, "axis1"), as_axis(axis2, x, "axis2")
    if first == second:
        raise ValueError(f"diagonal: axis1 and axis2 must differ, both are {axis1}")
    others = [i for i in range(x.ndim) if i not in (first, second)]
    x = permuted(x, [*others, first, second])
    rows, columns = x.spec.shape[-2:]
    down, across = max(-offset, 0), max(offset, 0)
    lead = len(others)
    rest = merge_axes(x, [*[[i] for i in range(lead)], [lead, lead + 1]])
    if rows is not None and columns is not None:
        count = max(0, min(rows - down, columns - across))
        start, step = down * columns + across, columns + 1
        return rest[(..., slice(start, start + count * step, step) if count else slice(0, 0))]
    width = length(x, lead + 1)
    zero, one = scalar(0, "int32"), scalar(1, "int32")
    left = ew.sub(length(x, lead), scalar(down, "int32"))
    count = ew.maximum(ew.minimum(left, ew.sub(width, scalar(across, "int32"))), zero)
    steps = ew.mul(arange(zero, count, one, dtype="int32"), ew.add(width, one))
    start = ew.add(ew.mul(width, scalar(down, "int32")), scalar(across, "int32"))
    return gather(rest, ew.add(steps, start), axis=lead)


@op(static=("offset",))
def trace(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The sum of the elements on a diagonal of matrices; small integers are added in 32 bits."""
    found = diagonal(x, offset, axis1, axis2)
    return reduced(red.sum, cast_to(found, wide(found.spec.dtype)), -1, False)


@op(static=("k",))
def diag(x: Any, k: int = 0) -> Tensor:
    """The diagonal `k` of a matrix, or the matrix with a vector on its diagonal `k`, and zeros
    elsewhere.
    """
    x = tensor_of(x)
    if x.ndim == 2:
        return diagonal(x, k)
    if x.ndim != 1:
        raise ValueError(f"diag: x must have 1 or 2 axes, got shape {x.spec.shape}")
    column = expand_dims(pad(x, padding=((max(-k, 0), max(k, 0)),), value=0.0), axes=(1,))
    row = permuted(column, (1, 0))
    distance = ew.sub(places(row, 1), places(column, 0))
    return ew.where(ew.equal(distance, scalar(k, "int32")), column, like(0, x))


@op(static=("k",))
def diagflat(x: Any, k: int = 0) -> Tensor:
    """The matrix with the elements of a tensor on its diagonal `k`, and zeros elsewhere."""
    return diag(flat(tensor_of(x)), k)


@op(static=("N",))
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Tensor:
    """The matrix whose columns are the powers of a vector, the highest one first, or last if
    `increasing`.
    """
    x = tensor_of(x)
    n = x.spec.shape[0] if N is None else N
    if n is None:
        raise ValueError("vander: the size of x is unknown, so N must be given")
    dtype = result_type(x.spec.dtype, floatx())
    powers = constant(np.arange(n)[:: 1 if increasing else -1], dtype)
    found = ew.pow(expand_dims(cast_to(x, dtype), axes=(1,)), expand_dims(powers, axes=(0,)))
    return cast_to(found, result_type(x.spec.dtype))


@op
def slogdet(x: Any) -> tuple[Tensor, Tensor]:
    """The sign of the determinants of square matrices, and the logarithm of their size."""
    sign, pivots = determinant_parts(float_of(x))
    last = pivots.ndim - 1
    sign = ew.mul(sign, red.prod(ew.sign(pivots), axes=(last,), keepdims=False))
    return sign, red.sum(ew.log(ew.abs(pivots)), axes=(last,), keepdims=False)
