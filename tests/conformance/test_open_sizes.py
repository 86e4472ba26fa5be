"""Primitives on tensors of which no size is known, values and gradients, beside NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from backplane import engines
from backplane.core.graph import Placeholder
from backplane.core.spec import Spec
from backplane.ops import factorization as fa
from backplane.ops import fourier, reduction, scattering, spectra
from backplane.ops.elementwise import bitcast

rng = np.random.default_rng(0)
SQUARES = (rng.normal(size=(2, 4, 4)) + 4 * np.eye(4)).astype("float32")
ROWS = rng.normal(size=(2, 4, 3)).astype("float32")
TABLE = [ROWS[0], np.array([0, 2, 0], "int32"), ROWS[1, :3]]

SMOOTH: dict[str, tuple[Callable[..., Any], list[np.ndarray]]] = {
    "cholesky": (lambda x: fa.cholesky(fa.symmetric(x)), [SQUARES]),
    "solve": (lambda a, b: fa.solve(a, b, transpose=False), [SQUARES, ROWS]),
    "lu": (lambda x: fa.lu(x)[0], [SQUARES]),
    "svd": (lambda x: spectra.svd_of(x, full=False)[1], [SQUARES]),
    "eigh": (lambda x: spectra.eigh_of(fa.symmetric(x))[1], [SQUARES]),
    "inverse_fft": (lambda a, b: fourier.inverse_fft(a, b)[0], [ROWS, ROWS]),
    "sort": (lambda x: reduction.sort(x)[0], [ROWS]),
    "K.sort": (lambda x: K.sort(x, axis=1), [ROWS]),
    "scatter": (lambda x, i, u: scattering.scatter(x, i, u, by="max"), TABLE),
    "scatter_set": (scattering.scatter_set, TABLE),
    "atan2": (K.atan2, [ROWS, ROWS[:, :1]]),
}
STEPS: dict[str, tuple[Callable[..., Any], list[np.ndarray]]] = {
    "bitcast": (lambda x: bitcast(x, dtype="int16"), [ROWS]),
    "qr": (lambda x: fa.qr(x, complete=False)[1], [ROWS]),
}


def results(name: str) -> list[np.ndarray]:
    function, arrays = {**SMOOTH, **STEPS}[name]
    inputs = [Placeholder(Spec((None,) * a.ndim, a.dtype.name)) for a in arrays]
    y = function(*inputs)
    slopes = K.gradients(K.sum(K.square(y)), inputs) if name in SMOOTH else []
    return K.function(inputs, [y, *[g for g in slopes if g is not None]])(arrays)


@pytest.mark.parametrize("name", [*SMOOTH, *STEPS])
def test_no_size_is_known(engine: Any, name: str) -> None:
    with engines.use("numpy"):
        wanted = results(name)
    for found, want in zip(results(name), wanted, strict=True):
        assert found.dtype == want.dtype
        np.testing.assert_allclose(found, want, rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize(
    ("m", "n", "known"),
    [(1, 5, None), (5, 1, None), (5, 5, None), (1, 5, 5), (5, 5, 5), (5, 1, 1)],
)
@pytest.mark.parametrize("product", [K.matmul, K.batch_dot])
def test_a_batch_that_turns_out_to_be_one(
    engine: Any, product: Callable[..., Any], m: int, n: int, known: int | None
) -> None:
    """It is broadcast, and its gradient is a sum over the batch of the other matrices."""
    x, y = K.placeholder((None, 2, 3)), K.placeholder((known, 3, 4))
    z = product(x, y)
    f = K.function([x, y], [z, *K.gradients(K.sum(K.square(z)), [x, y])])
    values = [rng.normal(size=size).astype("float32") for size in ((m, 2, 3), (n, 3, 4))]
    a, b = values
    c = a @ b
    slopes = [2 * c @ b.swapaxes(1, 2), a.swapaxes(1, 2) @ (2 * c)]
    wanted = [
        c,
        *[
            s.sum(0, keepdims=True) if len(v) == 1 else s
            for s, v in zip(slopes, values, strict=True)
        ],
    ]
    for found, want in zip(f(values), wanted, strict=True):
        assert found.shape == want.shape
        np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)
