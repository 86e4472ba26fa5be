"""Factors of matrices: `jax.lax.linalg` and `jax.numpy.linalg`."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from backplane.engines.factorizations import is_half
from backplane.engines.jax.compiled import compiled
from backplane.engines.table import Table, Value

TABLE = Table()


@TABLE.add("cholesky", unless=is_half)
@compiled()
def _cholesky(x: Value) -> Value:
    """JAX fills only lower triangles with NaN."""
    y = lax.linalg.cholesky(x, symmetrize_input=False)
    return jnp.where(jnp.isnan(y).any((-2, -1), keepdims=True), jnp.nan, y)


@TABLE.add("triangular_solve", unless=is_half)
@compiled("lower", "transpose", "unit")
def _triangular_solve(a: Value, b: Value, *, lower: bool, transpose: bool, unit: bool) -> Value:
    return lax.linalg.triangular_solve(
        a, b, left_side=True, lower=lower, transpose_a=transpose, unit_diagonal=unit
    )


@TABLE.add("lu", unless=is_half)
@compiled()
def _lu(x: Value) -> list[Value]:
    factors, _, order = lax.linalg.lu(x)
    return [factors, order]


@TABLE.add("qr", unless=is_half)
@compiled("complete")
def _qr(x: Value, *, complete: bool) -> list[Value]:
    return list(jnp.linalg.qr(x, "complete" if complete else "reduced"))


@TABLE.add("svd", unless=is_half)
@compiled("full")
def _svd(x: Value, *, full: bool) -> list[Value]:
    return list(jnp.linalg.svd(x, full_matrices=full))


@TABLE.add("eigh", unless=is_half)
@compiled()
def _eigh(x: Value) -> list[Value]:
    return list(jnp.linalg.eigh(x, UPLO="L", symmetrize_input=False))


@TABLE.add("eig", unless=is_half)
@compiled()
def _eig(x: Value) -> list[Value]:
    values, vectors = jnp.linalg.eig(lax.stop_gradient(x))
    return [f(t) for t in (values, vectors) for f in (jnp.real, jnp.imag)]


@TABLE.add("fft", unless=is_half)
@compiled()
def _fft(re: Value, im: Value) -> list[Value]:
    if not re.size:
        return [re, im]
    y = jnp.fft.fft(lax.complex(re, im))
    return [jnp.real(y), jnp.imag(y)]
