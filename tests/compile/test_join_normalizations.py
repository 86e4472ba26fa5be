"""Normalization by given moments as one node, for engines that have a kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from backplane import engines
from backplane.compile import passes
from backplane.compile.passes.join_groups import join_normalizations
from backplane.core.graph import toposort
from backplane.ops.groups import normalize_by
from core.evaluate import leaf

RNG = np.random.default_rng(3)
EPSILON = 1e-3

Form = Callable[..., Any]


def by_k(x: Any, mean: Any, variance: Any, gamma: Any, beta: Any) -> Any:
    return K.batch_normalization(x, mean, variance, beta, gamma, epsilon=EPSILON)


def divided(x: Any, mean: Any, variance: Any, gamma: Any, beta: Any) -> Any:
    return beta + gamma * (x - mean) / K.sqrt(variance + EPSILON)


def shifted(x: Any, mean: Any, variance: Any, gamma: Any, beta: Any) -> Any:
    """As Keras 3 writes it."""
    factor = gamma * K.pow(EPSILON + variance, -0.5)
    return x * factor + (beta - mean * factor)


def negated(x: Any, mean: Any, variance: Any, gamma: Any, beta: Any) -> Any:
    factor = gamma / K.sqrt(variance + EPSILON)
    return x * factor + (-mean * factor + beta)


def without_gamma(x: Any, mean: Any, variance: Any, gamma: Any, beta: Any) -> Any:
    return K.batch_normalization(x, mean, variance, beta, None, epsilon=EPSILON)


def without_beta(x: Any, mean: Any, variance: Any, gamma: Any, beta: Any) -> Any:
    return K.batch_normalization(x, mean, variance, None, gamma, epsilon=EPSILON)


def without_epsilon(x: Any, mean: Any, variance: Any, gamma: Any, beta: Any) -> Any:
    return K.batch_normalization(x, mean, variance, beta, gamma, epsilon=0.0)


def two_in_a_row(x: Any, mean: Any, variance: Any, gamma: Any, beta: Any) -> Any:
    y = divided(x, mean, variance, gamma, beta)
    return shifted(K.relu(y) + x, beta, variance, gamma, mean)


FORMS = [
    by_k, divided, shifted, negated, without_gamma, without_beta, without_epsilon, two_in_a_row,
]  # fmt: skip


@pytest.fixture
def joining() -> Any:
    """An engine that has the kernel."""
    installed = map(engines.get, filter(engines.installed, engines.names()))
    for engine in installed:
        if normalize_by.name in engine.table:
            return engine
    pytest.skip("no installed engine has the kernel")


def operands(*shape: int | None, size: int = 8, dtype: str = "float32") -> list[Any]:
    return [leaf(*shape, dtype=dtype), *[leaf(size, dtype=dtype) for _ in range(4)]]


def joined(outputs: list[Any], engine: Any) -> int:
    """How many such nodes a program of the engine has."""
    return [node.op for node in toposort(join_normalizations(outputs, engine))].count(normalize_by)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", [(None, 8), (None, 3, 8), (2, 3, 4, 8), (2, 3, 1, 4, 8)])
def test_each_form_is_one_node(joining: Any, form: Form, shape: tuple[int | None, ...]) -> None:
    y = form(*operands(*shape))
    assert joined([y], joining) == (2 if form is two_in_a_row else 1)
    present = {node.op.name for node in toposort(join_normalizations([y], joining)) if node.op}
    assert "sqrt" not in present
    assert present.isdisjoint(("sub", "mul", "div"))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rows", [5, 0])
def test_values_are_those_of_what_was_written(engine: Any, form: Form, rows: int) -> None:
    given = operands(None, 2, 3, 8)
    shapes = [(rows, 2, 3, 8), *[(8,)] * 4]
    data = [RNG.uniform(0.5, 2, shape).astype("float32") for shape in shapes]
    found = K.function(given, [form(*given)])(data)[0]
    with passes.without("join_groups"):
        wanted = K.function(given, [form(*given)])(data)[0]
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)


def test_behind_a_convolution_and_before_a_rectifier(engine: Any) -> None:
    """TensorFlow computes all three by one kernel."""
    x, kernel = leaf(None, 5, 5, 4), leaf(3, 3, 4, 8)
    given = operands(None, 8)[1:]
    y = K.relu(by_k(K.conv2d(x, kernel, padding="same"), *given))
    shapes = [(2, 5, 5, 4), (3, 3, 4, 8), *[(8,)] * 4]
    data = [RNG.normal(size=shape).astype("float32") for shape in shapes]
    data[3] = np.abs(data[3])
    found = K.function([x, kernel, *given], [y])(data)[0]
    with passes.without("join_groups"):
        wanted = K.function([x, kernel, *given], [y])(data)[0]
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5 * np.abs(wanted).max())


def test_infinities_and_nan_stay_what_they_are(engine: Any) -> None:
    odd = np.array([np.inf, -np.inf, np.nan, 0.0, 1.0, -1.0, 1.0, 3e38], "float32")
    given = operands(None, 8)
    y = by_k(*given)
    ones = np.ones(8, "float32")
    rows = np.stack([odd, odd[::-1], ones])
    for place in range(5):
        data = [rows, *[ones] * 4]
        if place:
            data[place] = odd
        found = K.function(given, [y])(data)[0]
        with passes.without("join_groups"):
            wanted = K.function(given, [y])(data)[0]
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_what_looks_alike_stays(joining: Any) -> None:
    x, mean, variance, gamma, beta = operands(4, 8)
    rows = leaf(4, 1)
    for outputs in (
        [x / K.sqrt(variance + EPSILON) + beta],  # One pass less, and nothing to gain.
        [by_k(x, rows, variance, gamma, beta)],
        [(x - mean) * rows / K.sqrt(variance + EPSILON)],
        [(x - mean) * gamma * gamma / K.sqrt(variance + EPSILON) + beta],
        [2.0 * (x - mean) / K.sqrt(variance + EPSILON) + beta],
        [(x + mean) / K.sqrt(variance) - 1.0 / K.sqrt(variance)],
        [by_k(*operands(4, 8, dtype="float64"))],
        [K.batch_normalization(leaf(4, 8, 3, 3), mean, variance, beta, gamma, axis=1)],
        [without_gamma(leaf(1, 5, 4), *[leaf(None) for _ in range(4)])],
    ):
        assert joined(outputs, joining) == 0


def test_what_is_added_without_being_a_vector_is_added_behind(joining: Any) -> None:
    x, mean, variance, gamma, beta = operands(4, 8)
    y = by_k(x, mean, variance, gamma, beta)
    assert joined([y + x], joining) == 1
    assert joined([by_k(x, mean, variance, gamma, x)], joining) == 1
    assert joined([(x - mean) / K.sqrt(variance + EPSILON) + 2.0 * beta], joining) == 1


def test_what_others_read_inside_stays(joining: Any) -> None:
    x, mean, variance, _, beta = operands(4, 8)
    centred = x - mean
    scale = 1.0 / K.sqrt(variance + EPSILON)
    y = centred * scale + beta
    assert joined([y, K.sum(centred)], joining) == 0
    assert joined([y, centred], joining) == 0
    assert joined([y, scale], joining) == 1  # To compute a vector twice costs nothing.


def test_gradients_are_those_of_what_was_written(engine: Any) -> None:
    given = operands(None, 8)
    y = K.tanh(by_k(*given))
    outputs = [y, *K.gradients(K.sum(K.square(y)), given)]
    data = [RNG.uniform(0.5, 2, (5, 8) if i == 0 else (8,)) for i in range(5)]
    found = K.function(given, outputs)(data)
    with passes.without("join_groups"):
        wanted = K.function(given, outputs)(data)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("power", [-2.5, -1.5, -0.25, 1.5, 2.5, 3.0])
def test_other_powers_are_no_roots(engine: Any, power: float) -> None:
    """Whatever stands around them. Each kind of function tells where to look for normalizations."""
    x, v = K.placeholder((4, 3)), K.placeholder((3,))
    given = RNG.normal(size=(4, 3)).astype("float32"), RNG.uniform(1, 2, 3).astype("float32")
    root = K.pow(v + EPSILON, power)
    results = [
        x * root,
        x * root + v,
        2.0 * K.pow(v, power),
        (x - v) * root,
        x * K.pow(x * x, power),
    ]
    found = K.function([x, v], results + K.gradients(K.sum(results[3]), [x, v]))(list(given))
    a, b = (np.float64(n) for n in given)
    wanted = (b + EPSILON) ** power
    expected = [a * wanted, a * wanted + b, 2 * b**power, (a - b) * wanted, a * (a * a) ** power]
    for y, e in zip(found, expected, strict=False):
        np.testing.assert_allclose(y, e, rtol=2e-5, atol=1e-6)
