"""Fourier transforms and factors of matrices.

Only the lower triangles of symmetric matrices are read, and vectors have any sign. So cases make
matrices symmetric, and compare what does not depend on signs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from backplane.backend._call import api
from backplane.ops import elementwise as ew
from backplane.ops import factorization as fa
from backplane.ops import fourier, spectra
from backplane.ops.lift import as_tensor
from backplane.ops.reduction import prod
from backplane.ops.shaping import expand_dims, sum
from cases.primitives import op
from cases.record import Arg, case, floats, values


def computed(name: str, *args: Any, by: Callable[..., Any], **options: Any) -> None:
    """A case of a composition around the primitive `name`."""

    @api
    def call(*operands: Any) -> Any:
        return by(*[as_tensor(x) for x in operands])

    case(f"ops.{name}", *args, fn=lambda K, *operands: call(*operands), **options)


# --- Fourier transforms ---------------------------------------------------------------------------


def parts(y: np.ndarray) -> list[np.ndarray]:
    return [y.real, y.imag]


for shape in ((2, 3, 4), (5,), (2, 7), (1, 1), (2, 0)):
    op(
        "fft", floats(*shape), floats(*shape), id=str(shape), smooth=bool(np.prod(shape)),
        grad=bool(np.prod(shape)), batch=len(shape) > 1,
        oracle=lambda re, im: parts(np.fft.fft(re + 1j * im) if re.size else re + 1j * im),
    )  # fmt: skip
computed(
    "fft", floats(2, 6), floats(2, 6), id="inverse", smooth=True,
    by=lambda re, im: list(fourier.inverse_fft(re, im)),
    oracle=lambda re, im: parts(np.fft.ifft(re + 1j * im)),
)  # fmt: skip
computed(
    "fft", floats(2, 6), floats(2, 6), id="decomposed", smooth=True,
    by=lambda re, im: fourier.fft.decomposition(re, im),
    oracle=lambda re, im: parts(np.fft.fft(re + 1j * im)),
)  # fmt: skip

# --- Cholesky, triangles, equations ---------------------------------------------------------------


def definite(*shape: int) -> Arg:
    """Matrices far from singular, whose symmetric part is positive definite."""

    def make(rng: np.random.Generator, s: tuple[int, ...]) -> np.ndarray:
        return rng.uniform(-0.5, 0.5, s) + (1 + s[-1] / 2) * np.eye(s[-1])

    return Arg(shape, make)


def sym(x: np.ndarray) -> np.ndarray:
    return (x + x.swapaxes(-1, -2)) / 2


SHAPES = ((3, 3), (2, 4, 4), (2, 1, 2, 2))
for shape in SHAPES:
    computed(
        "cholesky", definite(*shape), id=str(shape), smooth=True, batch=len(shape) > 2,
        by=lambda x: fa.cholesky(fa.symmetric(x)), oracle=lambda x: np.linalg.cholesky(sym(x)),
    )  # fmt: skip
FAILS = [[[1.0, 2.0], [2.0, 1.0]], [[4.0, 0.0], [2.0, 2.0]]]
NAN = [[[np.nan, np.nan], [np.nan, np.nan]], [[2.0, 0.0], [1.0, 1.0]]]
op("cholesky", values(FAILS), id="indefinite", grad=False, oracle=np.array(NAN))


def unread(x: np.ndarray, lower: bool, unit: bool) -> np.ndarray:
    a = np.tril(x) if lower else np.triu(x)
    return a - a * np.eye(x.shape[-1]) + np.eye(x.shape[-1]) if unit else a


def solved(a: Any, b: Any, lower: bool, transpose: bool, unit: bool) -> np.ndarray:
    a = unread(a, lower, unit)
    return np.linalg.solve(a.swapaxes(-1, -2) if transpose else a, b)


for lower in (False, True):
    for transpose in (False, True):
        for unit in (False, True):
            op(
                "triangular_solve", definite(2, 3, 3), floats(2, 3, 2), oracle=solved, smooth=True,
                id=f"{lower}-{transpose}-{unit}", lower=lower, transpose=transpose, unit=unit,
            )  # fmt: skip
op(
    "triangular_solve", definite(70, 70), floats(70, 2), oracle=solved, id="large", batch=False,
    lower=True, transpose=False, unit=False, tolerance={"float32": 1e-4},
)  # fmt: skip
for transpose in (False, True):
    op(
        "solve", definite(2, 4, 4), floats(2, 4, 3), id=str(transpose), transpose=transpose,
        smooth=True, tolerance={"float32": 1e-4},
        oracle=lambda a, b, transpose: np.linalg.solve(a.swapaxes(1, 2) if transpose else a, b),
    )  # fmt: skip

# --- LU -------------------------------------------------------------------------------------------


def factored(x: np.ndarray) -> list[np.ndarray]:
    """Elimination, row by row."""
    m, n = x.shape[-2:]
    a = x.reshape(-1, m, n).copy()
    order = np.tile(np.arange(m, dtype="int32"), (len(a), 1))
    for matrix, rows in zip(a, order, strict=True):
        for k in range(min(m, n)):
            best = k + np.abs(matrix[k:, k]).argmax()
            matrix[[k, best]], rows[[k, best]] = matrix[[best, k]], rows[[best, k]]
            for i in range(k + 1, m):
                matrix[i, k] /= matrix[k, k] or 1
                matrix[i, k + 1 :] -= matrix[i, k] * matrix[k, k + 1 :]
    return [a.reshape(x.shape), order.reshape(x.shape[:-1])]


WILD = [[[0.0, 2.0, 1.0], [3.0, 1.0, 2.0], [1.5, -1.0, 4.0]], [[1.0, 5, 2], [-4, 1, 0], [2, 2, 8]]]
op("lu", values(WILD), oracle=factored, smooth=True)
op("lu", values(WILD[0]), oracle=factored, id="matrix", smooth=True, batch=False)
op("lu", values([[1.0, 2.0], [2.0, 4.0]]), id="singular", oracle=factored, grad=False, batch=False)
for shape in ((4, 3), (2, 2, 5)):
    op("lu", floats(*shape), id=str(shape), oracle=factored, grad=False, batch=False)
op("lu", floats(67, 67), id="large", oracle=factored, grad=False, batch=False, dtypes=["float64"])


def determinant(x: Any) -> Any:
    sign, diagonal = fa.determinant_parts(x)
    return ew.mul(sign, prod(diagonal, axes=(diagonal.ndim - 1,), keepdims=False))


computed("lu", values(WILD), id="determinant", by=determinant, oracle=np.linalg.det, smooth=True)
ODD = values(np.eye(4)[[[1, 0, 2, 3], [1, 2, 0, 3], [3, 2, 1, 0]]])
computed("lu", ODD, id="parity", by=determinant, oracle=np.array([-1.0, 1.0, 1.0]), grad=False)

# --- QR -------------------------------------------------------------------------------------------


def orthogonal(x: np.ndarray, complete: bool) -> list[np.ndarray]:
    return list(np.linalg.qr(x, "complete" if complete else "reduced"))


for shape in ((4, 3), (3, 3), (2, 2, 4)):
    for complete in (False, True):
        op(
            "qr", floats(*shape), id=f"{shape}-{complete}", complete=complete, oracle=orthogonal,
            grad=not (complete and shape[-2] > shape[-1]), batch=False,
            smooth=shape == (4, 3) and not complete, tolerance={"float32": 1e-4},
        )  # fmt: skip

# --- singular values, eigenvalues -----------------------------------------------------------------


def of_svd(x: Any) -> list[Any]:
    u, s, vt = spectra.svd(x, full=False)
    return [ew.mul(u, u), s, ew.mul(vt, vt), fa.times(u, vt)]


def svd_oracle(x: np.ndarray) -> list[np.ndarray]:
    u, s, vt = np.linalg.svd(x, full_matrices=False)
    return [u * u, s, vt * vt, u @ vt]


for shape in ((4, 3), (3, 3), (2, 2, 4)):
    computed(
        "svd", floats(*shape), id=str(shape), by=of_svd, oracle=svd_oracle, batch=len(shape) > 2,
        smooth=True, tolerance={"float32": 2e-4},
    )  # fmt: skip
    computed(
        "svd", floats(*shape), id=f"{shape}-values", by=lambda x: spectra.svd(x, full=False)[1],
        oracle=lambda x: np.linalg.svd(x, compute_uv=False), batch=False,
        tolerance={"float32": 1e-4},
    )  # fmt: skip


def restored(x: Any) -> Any:
    """The product of the full factors, and of each with itself."""
    u, s, vt = spectra.svd(x, full=True)
    return [fa.times(u, u, tx=True), s, fa.times(vt, vt, ty=True)]


computed(
    "svd", floats(4, 2), id="full", by=restored, grad=False, batch=False,
    tolerance={"float32": 1e-4},
    oracle=lambda x: [np.eye(4), np.linalg.svd(x, compute_uv=False), np.eye(2)],
)  # fmt: skip


def of_eigh(x: Any) -> list[Any]:
    w, v = spectra.eigh(fa.symmetric(x))
    return [w, ew.mul(v, v)]


def eigh_oracle(x: np.ndarray) -> list[np.ndarray]:
    w, v = np.linalg.eigh(sym(x))
    return [w, v * v]


for shape in SHAPES:
    computed(
        "eigh", floats(*shape), id=str(shape), by=of_eigh, oracle=eigh_oracle, smooth=True,
        batch=len(shape) > 2, tolerance={"float32": 2e-4},
    )  # fmt: skip
computed(
    "eigh", values([[1.0, 9.0], [0.5, 1.0]]), id="lower", grad=False, batch=False,
    by=lambda x: spectra.eigh(x)[0], oracle=np.array([0.5, 1.5]),
)  # fmt: skip


def of_eig(x: Any) -> list[Any]:
    """What x · v − λ · v is, and the sums of the values."""
    wr, wi, vr, vi = spectra.eig(x)

    def row(w: Any) -> Any:
        return expand_dims(w, axes=(w.ndim - 1,))

    re = ew.sub(fa.times(x, vr), ew.sub(ew.mul(vr, row(wr)), ew.mul(vi, row(wi))))
    im = ew.sub(fa.times(x, vi), ew.add(ew.mul(vr, row(wi)), ew.mul(vi, row(wr))))
    return [re, im, sum(wr, axes=(wr.ndim - 1,), keepdims=False)]


computed(
    "eig", values([[[0.0, 1.0], [-1.0, 0.0]], [[2.0, 1.0], [0.0, 3.0]]]), by=of_eig, grad=False,
    dtypes=["float64", "float32"],  # a rounded product is no 0 in half precision
    oracle=lambda x: [np.zeros((2, 2, 2)), np.zeros((2, 2, 2)), np.array([0.0, 5.0])],
)  # fmt: skip
