"""ONNX Runtime: normalization over the last axes, and GELU, by their kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from backplane import backend as K
from backplane import engines
from backplane.compile import passes
from backplane.engines.onnxruntime import engine
from spying import Spy

rng = np.random.default_rng(0)


@pytest.fixture
def kinds(spied: Spy) -> Iterator[Callable[[], list[str]]]:
    """The operations of the last model."""
    made = spied(engine, "model")
    with engines.use("cntk"):
        yield lambda: [node.op_type for node in made[-1].result.graph.node]


def moments(x: Any, axes: list[int]) -> tuple[Any, Any, Any]:
    centred = x - K.mean(x, axis=axes, keepdims=True)
    variance = K.mean(K.square(centred), axis=axes, keepdims=True)
    return centred / K.sqrt(variance + 1e-3), K.mean(x, axis=axes, keepdims=True), variance


def oracle(x: Any, axes: tuple[int, ...]) -> Any:
    x = x.astype("float64")
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-3)


@pytest.mark.parametrize("shape", [(7,), (1, 7), (4, 1), (4, 7), ()])
@pytest.mark.parametrize("axes", [(-1,), (-2, -1), (1,)])
def test_parameters_of_any_shape(
    kinds: Callable[[], list[str]], shape: tuple[int, ...], axes: tuple[int, ...]
) -> None:
    """The kernel takes parameters of the sizes that are normalized over."""
    x = K.placeholder((None, 4, 7))
    gamma, beta = (rng.normal(size=shape).astype("float32") for _ in range(2))
    y = moments(x, [*axes])[0] * K.variable(gamma) + K.variable(beta)
    f = K.function([x], [y])
    fits = shape == (4, 7)[axes[0] :] and axes != (1,)
    for rows in (3, 0):
        given = (rng.normal(size=(rows, 4, 7)) + 5).astype("float32")
        np.testing.assert_allclose(
            f([given])[0], oracle(given, axes) * gamma + beta, rtol=1e-4, atol=1e-5
        )
    assert not fits or "LayerNormalization" in kinds()
    assert axes != (1,) or "LayerNormalization" not in kinds()


@pytest.mark.parametrize("off", [(), ("join_groups",)])
def test_values_moments_and_gradients(kinds: Callable[[], list[str]], off: tuple[str, ...]) -> None:
    x, g = K.placeholder((None, 8)), K.placeholder((None, 8))
    gamma, beta = K.variable(rng.normal(size=8)), K.variable(rng.normal(size=8))
    normed, mean, variance = moments(x, [-1])
    y = normed * gamma + beta
    h = x - 100.0
    z = y + 0.5 * h * (1.0 + K.tanh(np.sqrt(2 / np.pi) * (h + 0.044715 * K.pow(h, 3))))
    slopes = K.gradients(K.sum(z * g), [x, gamma, beta])
    results = [z, mean, variance, *slopes]
    given = [rng.normal(size=(5, 8)).astype("float32") + 100, rng.normal(size=(5, 8))]
    with passes.without(*off):
        found = K.function([x, g], results)(given)
    assert ("Gelu" in kinds()) == (not off)
    with engines.use("numpy"):
        wanted = K.function([x, g], results)(given)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_hard_silu(kinds: Callable[[], list[str]], dtype: str) -> None:
    x = K.placeholder((None, 6), dtype=dtype)
    y = x * K.relu(x + 3.0, max_value=6.0) / 6.0
    given = np.array([[-3, 3, np.nan, np.inf, -0.5, 4]], dtype)
    for rows in (given, given[:0]):
        with np.errstate(invalid="ignore"):
            wanted = rows * np.clip(rows + 3, 0, 6) / 6
        np.testing.assert_allclose(K.function([x], [y])([rows])[0], wanted, rtol=1e-6)
        assert ("HardSwish" in kinds()) == (dtype == "float32")
    (slope,) = K.function([x], K.gradients(K.sum(y), [x]))([given[:, [0, 1, 4, 5, 5, 5]]])
    np.testing.assert_allclose(slope, [[0, 1, 1 / 3, 1, 1, 1]], rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_silu(kinds: Callable[[], list[str]], dtype: str) -> None:
    """By one quotient; the relative error is small where the sigmoid nearly vanishes, too."""
    x = K.placeholder((None, 5), dtype=dtype)
    given = np.array([[-80, -17, -0.5, 0, 30], [np.inf, np.nan, 2, -1, 4]], dtype)
    for rows in (given, given[:0]):
        wide = rows.astype("float64")
        wanted = wide / (1 + np.exp(-wide))
        found = K.function([x], [x * K.sigmoid(x)])([rows])[0]
        tolerance = 2e-3 if dtype == "float16" else 1e-6
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=1e-7 * (dtype == "float16"))
        assert ("Div" in kinds()) == (dtype != "float16")


def by_quotient(x: Any, gamma: Any) -> Any:
    return x / K.sqrt(K.mean(K.square(x), axis=-1, keepdims=True) + 1e-5) * gamma


def by_scale(x: Any, gamma: Any) -> Any:
    return gamma * (x * K.pow(1e-5 + K.mean(x * x, -1, keepdims=True), -0.5))


@pytest.mark.parametrize("form", [by_quotient, by_scale])
@pytest.mark.parametrize("shape", [(None, 8), (None, 3, 8)])
def test_normalization_by_the_root_of_the_mean_square(
    kinds: Callable[[], list[str]], form: Callable[..., Any], shape: tuple[int | None, ...]
) -> None:
    x, gamma = K.placeholder(shape), K.variable(rng.normal(size=8))
    f, y = K.function([x], [form(x, gamma)]), K.get_value(gamma)
    for rows in (5, 0):
        given = rng.normal(size=(rows, *[n or 0 for n in shape[1:]])).astype("float32")
        scale = np.sqrt(np.mean(given * given, -1, keepdims=True) + 1e-5)
        np.testing.assert_allclose(f([given])[0], given / scale * y, rtol=1e-5, atol=1e-6)
        assert "SimplifiedLayerNormalization" in kinds()


def test_exports_hold_operators_of_onnx_alone(
    kinds: Callable[[], list[str]], tmp_path: Path
) -> None:
    x = K.placeholder((None, 8))
    f = K.function([x], [by_quotient(x, K.ones((8,)))])
    f.to_onnx(tmp_path / "f.onnx")
    found = {node.op_type for node in onnx.load(tmp_path / "f.onnx").graph.node}
    assert "SimplifiedLayerNormalization" not in found
    assert "ReduceMean" in found


def test_what_looks_like_that_stays(kinds: Callable[[], list[str]]) -> None:
    """A mean over rows, gamma as a column, another dtype, a square that is read, gradients."""
    x, gamma, column = K.placeholder((4, 8)), K.placeholder((8,)), K.placeholder((4, 1))
    wide, weights = (K.placeholder(s, dtype="float64") for s in ((4, 8), (8,)))
    square = K.square(x)
    read = x / K.sqrt(K.mean(square, -1, keepdims=True) + 1e-5) * gamma
    for inputs, outputs in (
        ([x, gamma], [x / K.sqrt(K.mean(K.square(x), 0, keepdims=True) + 1e-5) * gamma]),
        ([x, column], [by_quotient(x, column)]),
        ([wide, weights], [by_quotient(wide, weights)]),
        ([x, gamma], [read, square]),
        ([x, gamma], K.gradients(K.sum(K.square(by_quotient(x, gamma))), [x, gamma])),
    ):
        given = [rng.normal(size=K.int_shape(t)) for t in inputs]
        found = K.function(inputs, outputs)(given)
        assert "SimplifiedLayerNormalization" not in kinds()
        with engines.use("numpy"):
            wanted = K.function(inputs, outputs)(given)
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_a_large_mean_costs_no_digits(kinds: Callable[[], list[str]]) -> None:
    x = K.placeholder((None, 64))
    given = (rng.normal(size=(9, 64)) + 1000).astype("float32")
    found = K.function([x], [moments(x, [-1])[0]])([given])[0]
    assert "LayerNormalization" in kinds()
    np.testing.assert_allclose(found, oracle(given, (-1,)), atol=3e-4)


@pytest.mark.parametrize(("rows", "inner"), [(3, 5), (0, 5), (3, 0)])
@pytest.mark.parametrize("shape", [(2,), (1, 2), (3, 2), (1,), ()])
def test_a_product_that_adds(
    kinds: Callable[[], list[str]], rows: int, inner: int, shape: tuple[int, ...]
) -> None:
    x, w = K.placeholder((None, inner)), K.variable(rng.normal(size=(inner, 2)))
    if shape == (3, 2) and rows == 0:
        shape = (1, 2)
    c = rng.normal(size=shape).astype("float32")
    f = K.function([x], [K.dot(x, w) + K.variable(c)])
    given = rng.normal(size=(rows, inner)).astype("float32")
    np.testing.assert_allclose(f([given])[0], given @ K.get_value(w) + c, rtol=1e-5, atol=1e-6)
    assert ("Gemm" in kinds()) == (shape != (3, 2))
