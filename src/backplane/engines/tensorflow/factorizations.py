"""Factors of matrices: TensorFlow's kernels, and NumPy's where these refuse singular matrices."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from backplane.core.spec import Spec
from backplane.engines import get
from backplane.engines.base import Engine
from backplane.engines.factorizations import gradient_graph, is_half
from backplane.engines.table import Lowering, Table, Value
from backplane.engines.tensorflow.constants import number
from backplane.engines.tensorflow.library import raw, tf

TABLE = Table()


@TABLE.add("cholesky", unless=is_half)
def _cholesky(x: Value) -> Value:
    """The kernel leaves old memory in factors of matrices that are not positive definite."""
    y = raw.Cholesky(input=x)
    failed = tf.reduce_any(raw.IsNan(x=y), axis=[-2, -1], keepdims=True)
    return raw.SelectV2(condition=failed, t=number(float("nan"), x.dtype.name), e=y)


@TABLE.add("triangular_solve", unless=is_half)
def _triangular_solve(a: Value, b: Value, *, lower: bool, transpose: bool, unit: bool) -> Value:
    if unit:
        a = tf.linalg.set_diag(a, tf.ones(tf.shape(a)[:-1], a.dtype))
    return raw.MatrixTriangularSolve(matrix=a, rhs=b, lower=lower, adjoint=transpose)


@TABLE.add("qr", unless=is_half)
def _qr(x: Value, *, complete: bool) -> list[Value]:
    return list(raw.Qr(input=x, full_matrices=complete))


@TABLE.add("svd", unless=is_half)
def _svd(x: Value, *, full: bool) -> list[Value]:
    s, u, v = raw.Svd(input=x, compute_uv=True, full_matrices=full)
    return [u, s, tf.linalg.matrix_transpose(v)]


@TABLE.add("eigh", unless=is_half)
def _eigh(x: Value) -> list[Value]:
    return list(raw.SelfAdjointEigV2(input=x, compute_v=True))


@TABLE.add("eig", unless=is_half)
def _eig(x: Value) -> list[Value]:
    kind = tf.complex64 if x.dtype == tf.float32 else tf.complex128
    factors = raw.Eig(input=tf.stop_gradient(x), compute_v=True, Tout=kind)
    return [f(t) for t in (factors.e, factors.v) for f in (tf.math.real, tf.math.imag)]


@TABLE.add("fft", unless=is_half)
def _fft(re: Value, im: Value) -> list[Value]:
    y = raw.FFT(input=tf.complex(re, im))
    return [tf.math.real(y), tf.math.imag(y)]


def lowerings(engine: Engine) -> Table:
    """`lu` on the host: the kernel refuses singular matrices. The tape has our gradient."""
    table = Table()
    table.build("lu", unless=is_half)(partial(_lu, engine))
    return table


def _lu(engine: Engine, specs: Sequence[Spec]) -> Lowering:
    kernel = get("numpy").table["lu"].lowering(specs, {})

    @tf.custom_gradient
    def lu(x: Value) -> Any:
        factors, order = tf.numpy_function(kernel, [x], [x.dtype, tf.int32], stateful=False)
        factors = tf.ensure_shape(factors, x.shape)

        def backward(g: Value, _: Value) -> Value:
            spec = Spec(tuple(x.shape), x.dtype.name)
            graph, _ = gradient_graph("lu", [spec], {}, {0}.__contains__)
            return engine.callable(graph)(x, g)[0]

        return (factors, tf.ensure_shape(order, x.shape[:-1])), backward

    return lambda x: list(lu(x))
