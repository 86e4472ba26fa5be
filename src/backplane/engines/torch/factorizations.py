"""Lowerings: factors of matrices, `torch.linalg`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch

from backplane.engines.factorizations import is_half
from backplane.engines.table import Table, Value

TABLE = Table()


def _or_nan(function: Callable[[Value], Sequence[Value]], x: Value) -> list[Value]:
    """`function` of matrices; NaN if it refuses infinite or undefined elements."""
    try:
        return list(function(x))
    except torch.linalg.LinAlgError:
        fine = torch.eye(*x.shape[-2:], dtype=x.dtype, device=x.device).expand(x.shape)
        return [torch.full_like(y, torch.nan) for y in function(fine)]


@TABLE.add("cholesky", unless=is_half)
def _cholesky(x: Value) -> Value:
    """`torch.linalg.cholesky_ex`, which says where it failed."""
    factors, failed = torch.linalg.cholesky_ex(x)
    return torch.where(failed[..., None, None] > 0, torch.nan, factors)


@TABLE.add("triangular_solve", unless=is_half)
def _triangular_solve(a: Value, b: Value, *, lower: bool, transpose: bool, unit: bool) -> Value:
    a = a.mT if transpose else a
    return torch.linalg.solve_triangular(a, b, upper=lower == transpose, unitriangular=unit)


@TABLE.add("lu", unless=is_half)
def _lu(x: Value) -> list[Value]:
    """`torch.linalg.lu_factor_ex`, whose pivots `lu_unpack` reads."""
    factors, pivots, _ = torch.linalg.lu_factor_ex(x)
    if not x.numel():
        order = torch.arange(x.shape[-2], dtype=torch.int32, device=x.device)
        return [factors, order.expand(x.shape[:-1]).clone()]
    order = torch.lu_unpack(factors.detach(), pivots, unpack_data=False)[0].argmax(-2)
    return [factors, order.to(torch.int32)]


@TABLE.add("qr", unless=is_half)
def _qr(x: Value, *, complete: bool) -> list[Value]:
    return list(torch.linalg.qr(x, "complete" if complete else "reduced"))


@TABLE.add("svd", unless=is_half)
def _svd(x: Value, *, full: bool) -> list[Value]:
    return _or_nan(partial(torch.linalg.svd, full_matrices=full), x)


@TABLE.add("eigh", unless=is_half)
def _eigh(x: Value) -> list[Value]:
    return _or_nan(torch.linalg.eigh, x)


@TABLE.add("eig", unless=is_half)
def _eig(x: Value) -> list[Value]:
    factors = _or_nan(torch.linalg.eig, x.detach())
    return [part.contiguous() for t in factors for part in (t.real, t.imag)]


@TABLE.add("fft", unless=is_half)
def _fft(re: Value, im: Value) -> list[Value]:
    if not re.numel():
        return [re.clone(), im.clone()]
    y = torch.fft.fft(torch.complex(re, im))
    return [y.real.contiguous(), y.imag.contiguous()]
