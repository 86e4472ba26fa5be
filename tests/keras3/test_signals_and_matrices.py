"""The functions of `keras.ops.math` and `keras.ops.linalg`, on symbolic tensors and on values,
beside NumPy's; and their gradients beside differences.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

from backplane import backend as K
from backplane import engines
from backplane.engines.base import Engine
from backplane.keras3.call import eager_engine
from backplane.keras3.ops import linalg, numpy
from backplane.keras3.ops import math as signals
from backplane.keras3.tensor import Tensor

rng = np.random.default_rng(7)


class Case(NamedTuple):
    """A function of arrays, and what it must give."""

    name: str
    function: Callable[..., Any]
    arrays: Sequence[np.ndarray]
    oracle: Callable[..., Any]
    smooth: bool = True

    def __repr__(self) -> str:
        return self.name


def normal(*shape: int) -> np.ndarray:
    """Numbers that float32 holds."""
    return rng.normal(size=shape).astype("float32").astype("float64")


MATRIX = normal(2, 4, 4) + 4 * np.eye(4)
SYMMETRIC = MATRIX @ MATRIX.swapaxes(1, 2)
TALL, WIDE = normal(5, 3), normal(3, 5)
RE, IM = normal(2, 3, 6), normal(2, 3, 6)
IDS = np.array([0, 2, -1, 2, 5, 0], "int32")
ROWS = normal(6, 3)


def segments(start: float, by: Any) -> Callable[..., Any]:
    """The reduction of rows by segments 0 to 3, where others are left out."""

    def oracle(rows: np.ndarray) -> np.ndarray:
        found = np.full((4, rows.shape[1]), float(start))
        for i, row in zip(IDS, rows, strict=True):
            if 0 <= i < 4:
                found[i] = by(found[i], row)
        return found

    return oracle


def of_segments(function: Any) -> Callable[..., Any]:
    return lambda rows: function(rows, IDS, num_segments=4)


def spectrum(x: np.ndarray) -> list[np.ndarray]:
    return [x.real, x.imag]


def frames(x: np.ndarray, length: int, stride: int) -> np.ndarray:
    starts = range(0, x.shape[-1] - length + 1, stride)
    return np.stack([x[..., i : i + length] for i in starts], -2)


def windowed(x: np.ndarray) -> list[np.ndarray]:
    """stft(x, 6, 2, 8), centered."""
    window = np.pad(0.5 - 0.5 * np.cos(2 * np.pi * np.arange(6) / 6), 1)
    padded = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(4, 4)], mode="reflect")
    return spectrum(np.fft.rfft(frames(padded, 8, 2) * window))


def there_and_back(x: Any) -> Any:
    return signals.istft(signals.stft(x, 8, 2, 8), 8, 2, 8, length=20)


def sine(x: Any) -> Any:
    return linalg.jvp(lambda t: numpy.sin(t) * t, (x,), (x * 2.0,))


REDUCTIONS: list[Case] = [
    Case("segment_sum", of_segments(signals.segment_sum), [ROWS], segments(0, np.add)),
    Case("segment_max", of_segments(signals.segment_max), [ROWS], segments(-np.inf, np.maximum)),
    Case("segment_min", of_segments(signals.segment_min), [ROWS], segments(np.inf, np.minimum)),
    Case("segment_prod", of_segments(signals.segment_prod), [ROWS], segments(1, np.multiply)),
]
SIGNALS: list[Case] = [
    Case("fft", lambda *x: signals.fft(x), [RE, IM], lambda a, b: spectrum(np.fft.fft(a + 1j * b))),
    Case("fft2", lambda *x: signals.fft2(x), [RE, IM],
         lambda a, b: spectrum(np.fft.fft2(a + 1j * b))),
    Case("ifft2", lambda *x: signals.ifft2(x), [RE, IM],
         lambda a, b: spectrum(np.fft.ifft2(a + 1j * b))),
    Case("rfft", lambda x: signals.rfft(x, 9), [RE], lambda x: spectrum(np.fft.rfft(x, 9))),
    Case("irfft", lambda *x: signals.irfft(x), [RE, IM], lambda a, b: np.fft.irfft(a + 1j * b)),
    Case("irfft-odd", lambda *x: signals.irfft(x, 7), [RE, IM],
         lambda a, b: np.fft.irfft(a + 1j * b, 7)),
    Case("extract_sequences", lambda x: signals.extract_sequences(x, 4, 3), [normal(2, 12)],
         lambda x: frames(x, 4, 3)),
    Case("stft", lambda x: signals.stft(x, 6, 2, 8), [normal(2, 20)], windowed),
    Case("istft", there_and_back, [normal(2, 20)], lambda x: x),
]  # fmt: skip
FUNCTIONS: list[Case] = [
    Case("erfc", signals.erfc, [np.array([-30.0, -3, -0.5, 0, 0.5, 1, 2, 7.9, 8.1, 9])],
         np.vectorize(math.erfc)),
    Case("rsqrt", signals.rsqrt, [np.array([0.25, 1, 9])], lambda x: 1 / np.sqrt(x)),
    Case("cdist", signals.cdist, [TALL, normal(2, 3)],
         lambda x, y: np.linalg.norm(x[:, None] - y, axis=-1)),
    Case("logsumexp", lambda x: signals.logsumexp(x, axis=0), [TALL],
         lambda x: np.log(np.exp(x).sum(0))),
    Case("logsumexp-number", signals.logsumexp, [np.array(2.5)], lambda x: x),
    Case("logsumexp-no-axes", lambda x: signals.logsumexp(x, axis=()), [TALL], lambda x: x),
    Case("jvp", sine, [normal(5)], lambda x: [np.sin(x) * x, 2 * x * (np.cos(x) * x + np.sin(x))]),
]  # fmt: skip
ORDERS: dict[Any, Any] = {1: (None, 1, 3, np.inf, -np.inf), (0, 2): ("fro", "nuc", 2, 1, -2)}
MATRICES: list[Case] = [
    Case("det", linalg.det, [MATRIX], np.linalg.det),
    Case("logdet", signals.logdet, [MATRIX], lambda x: np.linalg.slogdet(x)[1]),
    Case("inv", linalg.inv, [MATRIX], np.linalg.inv),
    Case("solve", linalg.solve, [MATRIX, normal(2, 4, 3)], np.linalg.solve),
    Case("solve-vectors", linalg.solve, [MATRIX, normal(2, 4)],
         lambda a, b: np.linalg.solve(a, b[..., None])[..., 0]),
    Case("solve_triangular", lambda a, b: linalg.solve_triangular(a, b, lower=True),
         [MATRIX, normal(2, 4, 3)], lambda a, b: np.linalg.solve(np.tril(a), b)),
    Case("cholesky_inverse", linalg.cholesky_inverse, [MATRIX],
         lambda x: np.linalg.inv(np.tril(x) @ np.tril(x).swapaxes(1, 2))),
    Case("pinv", linalg.pinv, [TALL], np.linalg.pinv),
    Case("lstsq", linalg.lstsq, [TALL, normal(5)], lambda a, b: np.linalg.lstsq(a, b)[0]),
    Case("lstsq-wide", linalg.lstsq, [WIDE, normal(3, 2)], lambda a, b: np.linalg.lstsq(a, b)[0]),
    Case("matrix_rank", linalg.matrix_rank, [np.stack([np.eye(3), np.ones((3, 3))])],
         lambda x: np.array([3, 1], "int32"), False),
    Case("lu_factor", lambda x: linalg.lu_factor(x)[1],
         [np.array([[0.0, 1, 2], [5, 0, 1], [1, 3, 0]])], lambda x: np.array([1, 2, 2], "int32"),
         False),
    *[
        Case(f"norm-{order}-{axis}", lambda x, o=order, a=axis: linalg.norm(x, o, a),
             [normal(2, 3, 4)], lambda x, o=order, a=axis: np.linalg.norm(x, o, a))
        for axis, orders in ORDERS.items()
        for order in orders
    ],
]  # fmt: skip
CASES = [*REDUCTIONS, *SIGNALS, *FUNCTIONS, *MATRICES]


def listed(result: Any) -> list[Any]:
    return list(result) if isinstance(result, list | tuple) else [result]


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_values(engine: Engine, case: Case) -> None:
    """In a K.function, and on values at once."""
    arrays = [a.astype("float32") for a in case.arrays]
    inputs = [K.placeholder(shape=a.shape) for a in arrays]
    outputs = [t.core for t in listed(case.function(*map(Tensor, inputs)))]
    found = K.function(inputs, outputs)(arrays)
    at_once = listed(case.function(*map(eager_engine().from_numpy, arrays)))
    for y, now, want in zip(found, at_once, listed(case.oracle(*case.arrays)), strict=True):
        np.testing.assert_allclose(y, want, rtol=2e-3, atol=2e-4)
        np.testing.assert_allclose(eager_engine().to_numpy(now), want, rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize("case", [c for c in CASES if c.smooth], ids=repr)
def test_gradients(case: Case) -> None:
    """The change of a weighted sum along random directions, in float64."""
    with engines.use("numpy"):
        inputs = [K.placeholder(shape=a.shape, dtype="float64") for a in case.arrays]
        outputs = [t.core for t in listed(case.function(*map(Tensor, inputs)))]
        values = [np.asarray(y) for y in listed(case.oracle(*case.arrays))]
        weights = [np.where(np.isfinite(y), rng.normal(size=y.shape), 0) for y in values]
        finite = [np.isfinite(y) for y in values]
        terms = []
        for y, w, f in zip(outputs, weights, finite, strict=True):
            kept = K.switch(K.constant(f, dtype="bool"), y, K.zeros_like(y))
            terms.append(K.sum(kept * K.constant(w, "float64")))
        slopes = K.function(inputs, K.gradients(sum(terms), inputs))(list(case.arrays))
    directions = [rng.normal(size=a.shape) for a in case.arrays]

    def total(step: float) -> float:
        moved = [a + step * d for a, d in zip(case.arrays, directions, strict=True)]
        pairs = zip(listed(case.oracle(*moved)), weights, finite, strict=True)
        return float(sum(np.sum(np.where(f, y, 0) * w) for y, w, f in pairs))

    numeric = (total(1e-6) - total(-1e-6)) / 2e-6
    found = sum(float(np.sum(g * d)) for g, d in zip(slopes, directions, strict=True))
    assert found == pytest.approx(numeric, rel=1e-5, abs=1e-6)


def test_a_matrix_without_a_factor_is_refused_on_values(engine: Engine) -> None:
    """In a graph the result is NaN."""
    wrong = np.array([[1.0, 2.0], [2.0, 1.0]], "float32")
    with pytest.raises(ValueError, match="Cholesky decomposition failed"):
        linalg.cholesky(wrong)
    x = K.placeholder(shape=(2, 2))
    assert np.isnan(K.function([x], [linalg.cholesky(Tensor(x)).core])([wrong])[0]).all()


def test_signs_of_vectors_are_the_same_everywhere(engine: Engine) -> None:
    """The element of each vector that is farthest from 0 is positive."""
    given = TALL.astype("float32")
    u, _, vt = map(eager_engine().to_numpy, linalg.svd(given, full_matrices=False))
    _, v = map(eager_engine().to_numpy, linalg.eigh((TALL.T @ TALL).astype("float32")))
    for vectors in (u, v):
        assert (np.take_along_axis(vectors, np.abs(vectors).argmax(0)[None], 0) > 0).all()
    full, _, rows = map(eager_engine().to_numpy, linalg.svd(given))
    np.testing.assert_allclose(full[:, :3], u, atol=1e-5)
    np.testing.assert_allclose(rows, vt, atol=1e-5)


def test_complex_eigenvalues_are_arrays_and_have_no_graph(engine: Engine) -> None:
    values, vectors = linalg.eig(np.array([[0.0, 1.0], [-1.0, 0.0]], "float32"))
    assert sorted(values.imag) == [-1, 1]
    assert vectors.shape == (2, 2)
    with pytest.raises(TypeError, match="eigenvalues may be complex"):
        linalg.eig(Tensor(K.placeholder(shape=(2, 2))))


def test_segments_without_a_number(engine: Engine) -> None:
    """Values tell it; in a graph it must be given."""
    found = signals.segment_sum(ROWS.astype("float32"), np.array([0, 1, 1, 2, 0, 2]))
    assert tuple(found.shape) == (3, 3)
    with pytest.raises(ValueError, match="num_segments"):
        signals.segment_sum(
            Tensor(K.placeholder(shape=(6, 3))), Tensor(K.placeholder(shape=(6,), dtype="int32"))
        )


def test_targets_that_are_no_classes_are_not_in_the_top_k(engine: Engine) -> None:
    targets = np.array([-1, 2, 4, 3, 1], "int32")
    predictions = np.array([[1.0, 2.0, 4.0, 3.0]] * 5, "float32")
    inputs = [K.placeholder(shape=(None,), dtype="int32"), K.placeholder(shape=(None, 4))]
    found = signals.in_top_k(*map(Tensor, inputs), 2)
    for k, value in (
        (2, K.function(inputs, [found.core])([targets, predictions])[0]),
        (2, eager_engine().to_numpy(signals.in_top_k(targets, predictions, 2))),
        (9, eager_engine().to_numpy(signals.in_top_k(targets, predictions, 9))),
    ):
        assert value.tolist() == [False, True, False, True, k == 9]


def test_signals_of_unknown_length(engine: Engine) -> None:
    """Parts, spectra and the way back where the size of the last axis is open."""
    x = K.placeholder(shape=(None, None))
    given = normal(2, 20).astype("float32")
    results = [
        signals.extract_sequences(Tensor(x), 4, 3),
        *signals.stft(Tensor(x), 6, 2, 8),
        there_and_back(Tensor(x)),
        signals.istft(signals.stft(Tensor(x), 8, 2, 8, None), 8, 2, 8, window=None),
    ]
    found = K.function([x], [t.core for t in results])([given])
    wanted = [frames(given, 4, 3), *windowed(given), given, given * 4]
    for y, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(y, want, rtol=1e-3, atol=1e-4)
