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
