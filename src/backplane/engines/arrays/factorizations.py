"""Factors of matrices: NumPy's functions, and what NumPy does not have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from backplane.core.spec import Spec
from backplane.engines.factorizations import is_half
from backplane.engines.table import Lowering, Table, Value

TABLE = Table()

Results = Sequence[Value]


def _or_nan(function: Callable[[Value], Results]) -> Callable[[Value], list[Value]]:
    """`function` of matrices, with NaN for those that it refuses. NumPy refuses all of them then,
    so they are tried one by one.
    """

    def run(x: Value) -> list[Value]:
        try:
            return list(function(x))
        except np.linalg.LinAlgError:
            if x.ndim == 2:
                fine = np.eye(*x.shape, dtype=x.dtype)
                return [np.full_like(y, np.nan) for y in function(fine)]
        results = [run(matrix) for matrix in x.reshape(-1, *x.shape[-2:])]
        stacks = [np.stack(ys) for ys in zip(*results, strict=True)]
        return [y.reshape(*x.shape[:-2], *y.shape[1:]) for y in stacks]

    return run


@TABLE.add("cholesky", unless=is_half)
def _cholesky(x: Value) -> Value:
    return _or_nan(lambda x: [np.linalg.cholesky(x)])(x)[0]


@TABLE.add("qr", unless=is_half)
def _qr(x: Value, *, complete: bool) -> list[Value]:
    return list(np.linalg.qr(x, "complete" if complete else "reduced"))


@TABLE.add("svd", unless=is_half)
def _svd(x: Value, *, full: bool) -> list[Value]:
    return _or_nan(partial(np.linalg.svd, full_matrices=full))(x)


@TABLE.add("eigh", unless=is_half)
def _eigh(x: Value) -> list[Value]:
    return _or_nan(np.linalg.eigh)(x)


@TABLE.add("eig", unless=is_half)
def _eig(x: Value) -> list[Value]:
    values, vectors = _or_nan(np.linalg.eig)(x)
    parts = [values.real, values.imag, vectors.real, vectors.imag]
    return [np.array(part, x.dtype) for part in parts]


# --- Fourier transforms ---------------------------------------------------------------------------


@TABLE.build("fft", unless=is_half)
def _fft(specs: Sequence[Spec]) -> Lowering:
    kind = np.dtype(np.complex64 if specs[0].dtype == "float32" else np.complex128)

    def fft(re: Value, im: Value) -> list[Value]:
        x = np.empty(re.shape, kind)
        x.real, x.imag = re, im
        y = np.fft.fft(x) if x.size else x
        return [np.array(part, re.dtype) for part in (y.real, y.imag)]  # NumPy 1 makes complex128.

    return fft


# --- triangular equations and LU: NumPy has neither -----------------------------------------------

BLOCK = 32
"""Rows that are solved, or columns that are eliminated, one by one. Products do the rest."""


@TABLE.add("triangular_solve", unless=is_half)
def _triangular_solve(a: Value, b: Value, *, lower: bool, transpose: bool, unit: bool) -> Value:
    if transpose:
        a, lower = a.swapaxes(-1, -2), not lower
    if not lower:  # In the other order of rows and columns it is a lower one.
        a, b = a[..., ::-1, ::-1], b[..., ::-1, :]
    x = np.array(np.broadcast_to(b, b.shape))
    with np.errstate(all="ignore"):
        _substitute(a, x, unit)
    return x if lower else np.ascontiguousarray(x[..., ::-1, :])


def _substitute(a: Value, x: Value, unit: bool) -> None:
    """Solve for the rows of `x`, in its memory, where `a` is lower triangular."""
    n = a.shape[-1]
    for start in range(0, n, BLOCK):
        stop = min(start + BLOCK, n)
        if start:
            x[..., start:stop, :] -= a[..., start:stop, :start] @ x[..., :start, :]
        for i in range(start, stop):
            if i > start:
                x[..., i, :] -= (a[..., i : i + 1, start:i] @ x[..., start:i, :])[..., 0, :]
            if not unit:
                x[..., i, :] /= a[..., i, i, None]


@TABLE.add("lu", unless=is_half)
def _lu(x: Value) -> list[Value]:
    rows, columns = x.shape[-2:]
    a = np.array(x).reshape(-1, rows, columns) if x.size else np.array(x)
    order = np.zeros(x.shape[:-1], np.int32) + np.arange(rows, dtype=np.int32)
    if not x.size:
        return [a, order]
    order = order.reshape(-1, rows)
    with np.errstate(all="ignore"):
        for start in range(0, min(rows, columns), BLOCK):
            stop = min(start + BLOCK, rows, columns)
            for k in range(start, stop):
                _eliminate(a, order, k, stop)
            if stop < columns:
                _substitute(a[:, start:stop, start:stop], a[:, start:stop, stop:], True)
                a[:, stop:, stop:] -= a[:, stop:, start:stop] @ a[:, start:stop, stop:]
    return [a.reshape(x.shape), order.reshape(x.shape[:-1])]


def _eliminate(a: Value, order: Value, k: int, stop: int) -> None:
    """Bring the largest element to the pivot, and clear the column below, up to column `stop`."""
    each = np.arange(len(a))
    best = k + np.abs(a[:, k:, k]).argmax(1)
    for t in (a, order):
        t[each, k], t[each, best] = t[each, best], t[each, k]
    pivot = a[:, k, k, None]
    factors = a[:, k + 1 :, k] / np.where(pivot == 0, 1, pivot)
    a[:, k + 1 :, k] = factors
    a[:, k + 1 :, k + 1 : stop] -= factors[..., None] * a[:, k, None, k + 1 : stop]
