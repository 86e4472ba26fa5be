"""Lowerings: factors of matrices, by MLX's kernels on the processor, with our derivatives."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import mlx.core as mx

from backplane.core.registry import primitive
from backplane.core.spec import Spec
from backplane.engines import get
from backplane.engines.base import Engine
from backplane.engines.factorizations import gradient_graph, is_half
from backplane.engines.mlx.values import from_numpy, to_numpy
from backplane.engines.mlx.wide import is_wide
from backplane.engines.table import Lowering, Table, Value

linalg = mx.linalg

TABLE = Table()


@TABLE.add("fft", unless=lambda specs: is_half(specs) or is_wide(specs))
def fft(re: Value, im: Value) -> list[Value]:
    """`mx.fft.fft`, which is for float32."""
    if not re.size:
        return [re, im]
    y = mx.fft.fft(re + im.astype(mx.complex64) * 1j)
    return [mx.real(y), mx.imag(y)]


def _eye(x: Value) -> Value:
    return mx.eye(x.shape[-2], x.shape[-1], dtype=mx.bool_) if x.size else x.astype(mx.bool_)


def _cholesky(x: Value) -> list[Value]:
    """The Cholesky factor. A failure leaves a pivot that is not positive."""
    y = linalg.cholesky(x, stream=mx.cpu)
    fine = mx.all(mx.diagonal(y, axis1=-2, axis2=-1) > 0, axis=-1)
    return [mx.where(fine[..., None, None], y, math.nan)]


def _triangular_solve(
    a: Value, b: Value, *, lower: bool, transpose: bool, unit: bool
) -> list[Value]:
    """Zeros on the diagonal would end in an error when the result is read."""
    if transpose:
        a, lower = a.swapaxes(-1, -2), not lower
    eye = mx.eye(a.shape[-1], dtype=mx.bool_)
    singular = eye & (a == 0) & (not unit)
    safe = mx.where(singular | (eye & unit), mx.ones_like(a), a)
    x = linalg.solve_triangular(safe, b, upper=not lower, stream=mx.cpu)
    return [mx.where(mx.any(singular, axis=(-2, -1), keepdims=True), math.nan, x)]


def _lu(x: Value) -> list[Value]:
    """`mx.linalg.lu` says at which row of the factors each row of `x` is."""
    places, lower, upper = linalg.lu(x, stream=mx.cpu)
    order = mx.argsort(places, axis=-1).astype(mx.int32)
    return [_filled(mx.tril(lower, -1), x) + _filled(mx.triu(upper), x), order]


def _filled(part: Value, x: Value) -> Value:
    """A factor, with zeros up to the size of the matrices."""
    amounts = [(0, n - m) for n, m in zip(x.shape, part.shape, strict=True)]
    return mx.pad(part, amounts) if part.shape != x.shape else part


def _qr(x: Value, *, complete: bool) -> list[Value]:
    """MLX has reduced factors only. NumPy computes others, not while `mx.compile` traces."""
    rows, columns = x.shape[-2:]
    if complete and rows > columns:
        factors = get("numpy").table["qr"].function(to_numpy(x), complete=True)
        return [from_numpy(t) for t in factors]
    return list(linalg.qr(x, stream=mx.cpu))


def _svd(x: Value, *, full: bool) -> list[Value]:
    """`mx.linalg.svd`, which has full factors only."""
    u, s, vt = linalg.svd(x, stream=mx.cpu)
    k = s.shape[-1]
    return [u, s, vt] if full else [u[..., :k], s, vt[..., :k, :]]


def _eig(x: Value) -> list[Value]:
    """NumPy's: MLX computes eigenvalues of float64 in float32."""
    return [from_numpy(t) for t in get("numpy").table["eig"].function(to_numpy(x))]


_KERNELS: dict[str, Callable[..., list[Value]]] = {
    "cholesky": _cholesky, "triangular_solve": _triangular_solve, "lu": _lu, "qr": _qr,
    "svd": _svd, "eigh": lambda x: list(linalg.eigh(x, stream=mx.cpu)),
}  # fmt: skip


def lowerings(engine: Engine) -> Table:
    """The kernels with our gradients."""
    table = Table()
    for name, kernel in _KERNELS.items():
        table.build(name, unless=is_half)(partial(_followed, engine, name, kernel))
    table.add("eig", unless=is_half)(_eig)
    return table


def _followed(
    engine: Engine, name: str, kernel: Lowering, specs: Sequence[Spec], **params: Any
) -> Lowering:
    """A kernel that MLX's tape follows by the rule of its primitive."""
    multiple = primitive(name).multiple

    @mx.custom_function
    def run(*operands: Value) -> Any:
        results = kernel(*operands, **params)
        return tuple(results) if multiple else results[0]

    @run.vjp
    def _(operands: Any, g: Any, y: Any) -> Any:
        given, cotangents = _listed(operands), _listed(g)
        known = [Spec(tuple(x.shape), s.dtype) for x, s in zip(given, specs, strict=True)]
        graph, has = gradient_graph(name, known, params, lambda i: True)
        flowing = [t for t in cotangents if mx.issubdtype(t.dtype, mx.floating)]
        values = iter(engine.callable(graph)(*given, *flowing))
        pairs = zip(has, given, strict=True)
        gradients = [next(values) if yes else mx.zeros_like(x) for yes, x in pairs]
        return tuple(gradients) if len(gradients) > 1 else gradients[0]

    return (lambda *xs: list(run(*xs))) if multiple else run


def _listed(values: Any) -> list[Value]:
    return list(values) if isinstance(values, tuple | list) else [values]
