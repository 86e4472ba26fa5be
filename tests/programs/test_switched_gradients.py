"""A branch of a switch that was not chosen gives a gradient of 0, whatever its values are there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from backplane.core.graph import toposort

POINTS = np.array([[0.0, 0.5, 2.0], [-1.0, 0.0, 3.0]], "float32")
Rule = Callable[[Any], Any]


def positive(then: Rule, orelse: Rule | None = None) -> Rule:
    """The switch that chooses `then` for positive elements."""
    return lambda x: K.switch(x > 0, then(x), orelse(x) if orelse else K.zeros_like(x))


def log_of_mean(x: Any) -> Any:
    """A switch above a reduction and a row-wise function."""
    rows = K.log(K.mean(K.square(K.log(x)), axis=-1, keepdims=True)) * K.softmax(K.log(x))
    return K.switch(K.min(x, axis=-1) > 0, rows, K.zeros_like(rows))


CASES: dict[str, tuple[Rule, Callable[[np.ndarray], np.ndarray]]] = {
    "product": (positive(lambda x: x * K.log(x)), lambda x: np.log(x) + 1),
    "square": (positive(lambda x: K.square(K.log(x))), lambda x: 2 * np.log(x) / x),
    "cube": (positive(lambda x: K.pow(K.log(x), 3)), lambda x: 3 * np.log(x) ** 2 / x),
    "quotient": (positive(lambda x: K.sin(x) / x), lambda x: np.cos(x) / x - np.sin(x) / x**2),
    "products": (
        positive(lambda x: x * (2.0 + K.log(x) * (1.0 / x)) * K.exp(-1.0 / x)),
        lambda x: np.exp(-1 / x) * (2 + 1 / x + (2 * x + np.log(x)) / x**2),
    ),
    "squashed": (
        positive(lambda x: K.tanh(K.log(x)) + K.sigmoid(K.log(x))),
        lambda x: (1 - np.tanh(np.log(x)) ** 2) / x + 1 / (1 + x) ** 2,
    ),
    "sine": (positive(lambda x: K.sin(1.0 / x)), lambda x: -np.cos(1 / x) / x**2),
    "absolute": (positive(lambda x: K.abs(K.log(x))), lambda x: np.sign(np.log(x)) / x),
    "nested": (
        positive(lambda x: K.switch(x > 1.0, x * K.log(x - 1.0), x * K.log(x))),
        lambda x: np.where(x > 1, np.log(np.abs(x - 1)) + x / (x - 1), np.log(x) + 1),
    ),
    "products above": (
        lambda x: K.exp(x) * positive(lambda x: x * K.log(x))(x) ** 2,
        lambda x: np.exp(x) * ((x * np.log(x)) ** 2 + 2 * x * np.log(x) * (np.log(x) + 1)),
    ),
    "both": (
        positive(lambda x: x * K.log(x), lambda x: K.relu(x) * K.exp(100.0 * x)),
        lambda x: np.log(x) + 1,
    ),
}


def slopes(program: Rule, points: np.ndarray = POINTS) -> np.ndarray:
    x = K.placeholder(shape=(None, points.shape[-1]))
    return K.function([x], K.gradients(K.sum(program(x)), [x]))([points])[0]


@pytest.mark.parametrize("name", CASES)
def test_a_branch_that_is_not_chosen_gives_0(engine: Any, name: str) -> None:
    program, slope = CASES[name]
    with np.errstate(all="ignore"):
        wanted = np.where(POINTS > 0, slope(np.where(POINTS > 0, POINTS, 1)), 0)
    np.testing.assert_allclose(slopes(program), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("branch", "curvature"),
    [
        (lambda x: x * K.log(x), lambda x: 1 / x),
        (lambda x: K.square(K.log(x)), lambda x: 2 * (1 - np.log(x)) / x**2),
        (lambda x: x * K.sqrt(x) / x, lambda x: -(x**-1.5) / 4),
        (lambda x: x * K.log(x) / x, lambda x: -1 / x**2),
        (lambda x: x * K.log(x) * K.log(x), lambda x: 2 * (np.log(x) + 1) / x),
        (lambda x: K.cos(1 / x), lambda x: -np.cos(1 / x) / x**4 - 2 * np.sin(1 / x) / x**3),
        (lambda x: K.pow(1 / x, 3), lambda x: 12 / x**5),
        (
            lambda x: K.exp(-K.square(K.log(x))),
            lambda x: np.exp(-(np.log(x) ** 2)) * (4 * np.log(x) ** 2 + 2 * np.log(x) - 2) / x**2,
        ),
    ],
    ids=["product", "square", "quotient", "three factors", "x·log²", "cosine", "cube", "Gauss"],
)
def test_gradients_of_gradients(engine: Any, branch: Rule, curvature: Any) -> None:
    found = slopes(lambda x: K.gradients(K.sum(positive(branch)(x)), [x])[0])
    wanted = np.where(POINTS > 0, curvature(np.where(POINTS > 0, POINTS, 1)), 0)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_a_row_that_is_not_chosen_gives_0(engine: Any) -> None:
    found = slopes(log_of_mean, np.array([[0.0, 1.0], [2.0, 3.0], [-1.0, 2.0]], "float32"))
    assert not found[0].any()
    assert not found[2].any()
    assert np.isfinite(found[1]).all()
    assert found[1].any()


def test_a_normalized_row_that_is_not_chosen_gives_0(engine: Any) -> None:
    def normalized(x: Any) -> Any:
        y = x * K.log(x)
        centered = y - K.mean(y, axis=-1, keepdims=True)
        rows = centered / K.sqrt(K.var(y, axis=-1, keepdims=True) + 1e-3)
        chosen = K.min(x, axis=-1, keepdims=True) > 0
        return K.switch(chosen, K.square(rows) * K.constant([1.0, 2.0]), K.zeros_like(x))

    found = slopes(normalized, np.array([[0.0, 1.0], [2.0, 3.0], [-1.0, 2.0]], "float32"))
    assert not found[[0, 2]].any()
    assert np.isfinite(found[1]).all()
    assert found[1].any()


ABOVE: dict[str, Rule] = {
    "map_fn": lambda x: K.map_fn(lambda r: K.switch(r > -1, r, 0 * r), x * K.log(x)),
    "map_fn of two": lambda x: K.map_fn(
        lambda r: K.switch(r[0] > 0, r[1], K.zeros_like(r[1])), (x, x * K.log(x)), dtype="float32"
    ),
    "switch in a branch": lambda x: positive_inside(x, x * K.log(x)),
    "rnn": lambda x: K.rnn(
        lambda row, _: (K.switch(row[:, :1] > 0, row[:, 1:], K.zeros_like(row[:, 1:])), []),
        K.stack([x, x * K.log(x)], axis=-1),
        [],
    )[1],
    "unrolled rnn": lambda x: K.rnn(
        lambda row, _: (K.switch(row[:, :1] > 0, row[:, 1:], K.zeros_like(row[:, 1:])), []),
        K.stack([x, x * K.log(x)], axis=-1),
        [],
        unroll=True,
    )[1],
    "foldl": lambda x: K.foldl(
        lambda total, row: total + K.switch(row[0] > 0, row[1], K.zeros_like(row[1])),
        K.stack([x, x * K.log(x)], axis=1),
        initializer=K.zeros_like(x[0]),
    ),
    "switch within": lambda x: K.map_fn(
        lambda r: K.switch(r > 0, r * K.log(r) * K.sin(r) / K.sin(r), 0 * r), x
    ),
}
"""Loops and scalar switches whose steps and branches hold an element-wise switch."""


def positive_inside(x: Any, y: Any) -> Any:
    return K.switch(
        K.sum(x) > -9, lambda: K.switch(x > 0, y, K.zeros_like(y)), lambda: K.zeros_like(y)
    )


@pytest.mark.parametrize("name", ABOVE)
def test_a_switch_inside_of_a_loop_or_a_branch(engine: Any, name: str) -> None:
    found = slopes(ABOVE[name])
    chosen = np.where(POINTS > 0, POINTS, 1)
    np.testing.assert_allclose(found, np.where(POINTS > 0, np.log(chosen) + 1, 0), atol=1e-5)
    found = slopes(lambda x: K.gradients(K.sum(ABOVE[name](x)), [x])[0])
    np.testing.assert_allclose(found, np.where(POINTS > 0, 1 / chosen, 0), rtol=1e-3)


def test_a_loop_under_a_switch(engine: Any) -> None:
    def program(x: Any) -> Any:
        mapped = K.map_fn(lambda row: row * K.log(row), x)
        return K.switch(x > 0, mapped, K.zeros_like(x))

    wanted = np.where(POINTS > 0, np.log(np.where(POINTS > 0, POINTS, 1)) + 1, 0)
    np.testing.assert_allclose(slopes(program), wanted, rtol=1e-4, atol=1e-5)


def test_a_switch_in_a_loop(engine: Any) -> None:
    def step(total: Any, row: Any) -> Any:
        worth = row * K.log(row)
        return K.switch(row > 0, total + worth * worth, total)

    found = slopes(lambda x: K.foldl(step, x, initializer=K.zeros_like(x[0])))
    safe = np.where(POINTS > 0, POINTS, 1)
    wanted = np.where(POINTS > 0, 2 * safe * np.log(safe) * (np.log(safe) + 1), 0)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_missing_data(engine: Any) -> None:
    """Products with data that is NaN where the switch drops them."""
    data = np.array([[1.0, np.nan], [2.0, 3.0]], "float32")
    x, w = K.placeholder(shape=(None, 2)), K.variable([2.0, 5.0])
    kept = K.switch(K.equal(x, x), K.square(x * w), K.zeros_like(x))
    found = K.function([x], K.gradients(K.sum(kept), [w]))([data])[0]
    np.testing.assert_allclose(found, [2 * 2.0 * (1 + 4), 2 * 5.0 * 9], rtol=1e-5)


def test_graphs_without_a_switch_multiply_plainly() -> None:
    x = K.placeholder(shape=(3,))
    slope = K.gradients(K.sum(x * K.sin(x)), [x])[0]
    assert "mul_no_nan" not in {t.op.name for t in toposort([slope]) if t.op is not None}
