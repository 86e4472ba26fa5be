"""The normal form of arithmetic, and what it finds of declared steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from backplane.compile import passes
from backplane.compile.fuse.algebra import ZERO, Algebra, atom, number_of
from backplane.compile.fuse.numbers import NEAR, solved, tensor_of
from backplane.compile.fuse.sites import patterns
from backplane.compile.fuse.unify import by_tensors
from compile.optimizer_steps import Pairs, found, variables

RNG = np.random.default_rng(1)


def leaves(count: int) -> list[Any]:
    return [K.placeholder((2, 3)) for _ in range(count)]


def test_equal_expressions_have_equal_forms() -> None:
    x, y, z = leaves(3)
    ways = [
        (x * 2 - (y + x) / 4, 1.75 * x - 0.25 * y),
        ((x + y) * (x - y), K.square(x) - y * y),
        (x / y / z, x / (z * y)),
        (K.sqrt(x + y) * z, z * K.sqrt(y + x)),
        (x * K.pow(y + 1, -0.5), x / K.sqrt(1 + y)),
        (K.maximum(x, K.abs(y)), K.maximum(K.abs(y), x)),
        (K.pow(x + y, 2), x * x + 2 * x * y + y * y),
        (K.sum(x + y, axis=1), K.sum(y + x, axis=1)),
    ]
    for a, b in ways:
        assert Algebra()(a) == Algebra()(b)


def test_other_expressions_have_other_forms() -> None:
    x, y = leaves(2)
    ways = [
        (K.sqrt(K.square(x)), x),
        (K.maximum(x, y), K.minimum(x, y)),
        (K.sum(x, axis=1), K.sum(x, axis=0)),
        (x / y, y / x),
        (x - y, x + y),
        (K.pow(x, 1.5), x),
    ]
    for a, b in ways:
        assert Algebra()(a) != Algebra()(b)


def test_zeros_are_put_in() -> None:
    x, y = leaves(2)
    form = Algebra(zeros=[x])
    zero: list[Any] = [
        x * y,
        K.clip(x, -1, 2),
        K.sum(x),
        x / (K.sqrt(y) + 1),
        K.sin(x) * y,
        K.abs(x),
    ]
    for t in zero:
        assert form(t) == ZERO
    assert form(y + x * 3) == atom(y)
    assert form(K.cos(x)) == number_of(1)
    assert form(K.maximum(y, y + x)) == atom(y)
    assert form(K.switch(K.sum(y) > 0, x * 2, x)) == ZERO
    for unknown in (x / y, x / x, x / K.sqrt(y), x * K.pow(y, -1)):
        assert form(unknown) != ZERO
    assert form(K.clip(x, 1, 2)) == number_of(1)


def test_numbers_are_solved_for() -> None:
    a, b = (K.placeholder(()) for _ in range(2))
    one = number_of(1)
    equations = [(Algebra()(1 - a), number_of(0.25)), (Algebra()(a * b), number_of(3))]
    found = solved(tuple(equations), NEAR["float32"], {})
    assert found is not None
    assert found[a] == number_of(0.75)
    assert found[b] == number_of(4)
    assert solved((*equations, (atom(b), number_of(4.1))), NEAR["float32"], {}) is None
    assert solved(((Algebra()(a + b), one),), NEAR["float32"], {}) is None


def test_numbers_as_tensors() -> None:
    a, b = K.variable(0.5), K.variable(4.0)
    for t in (a * 3 / b, 1 - a, 2 / (1 + b) * K.sqrt(b), a - b + 1, -a):
        made = tensor_of(Algebra()(t), "float32")
        np.testing.assert_allclose(K.eval(made), K.eval(t), rtol=1e-6)
    assert by_tensors(Algebra()(a * 2)) == {frozenset(): Algebra()(2 * a)}


# --- spellings ------------------------------------------------------------------------------------


def adam_with_sums_turned(p: Any, m: Any, v: Any, g: Any) -> Pairs:
    rate = K.placeholder(())
    m_t, v_t = 0.1 * g + m * 0.9, K.pow(g, 2) * 0.001 + v * 0.999
    return [(p, -(m_t * rate / (1e-7 + K.sqrt(v_t))) + p), (m, m_t), (v, v_t)]


def adam_with_a_schedule(p: Any, m: Any, v: Any, g: Any) -> Pairs:
    lr, steps, b1, b2 = (K.variable(x) for x in (0.01, 3.0, 0.9, 0.999))
    rate = lr * K.sqrt(1 - K.pow(b2, steps)) / (1 - K.pow(b1, steps))
    m_t, v_t = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * K.square(g)
    return [(m, m_t), (v, v_t), (p, p - rate * m_t / (K.sqrt(v_t) + 1e-7))]


def adam_clipped_by_a_factor(p: Any, m: Any, v: Any, g: Any) -> Pairs:
    """The gradient is no tensor of the program by itself."""
    factor = K.placeholder(())
    m_t = 0.9 * m + 0.1 * factor * g
    v_t = 0.999 * v + 0.001 * factor * factor * g * g
    return [(m, m_t), (v, v_t), (p, p - 0.01 * m_t / (K.sqrt(v_t) + 1e-7))]


def momentum_of_averages(p: Any, m: Any, v: Any, g: Any) -> Pairs:
    m_t = m - 0.1 * (m - g)
    return [(m, m_t), (p, p - 0.01 * m_t)]


SPELLINGS: list[tuple[Callable[..., Pairs], str]] = [
    (adam_with_sums_turned, "adam_update 1"),
    (adam_with_a_schedule, "adam_update 1"),
    (adam_clipped_by_a_factor, "adam_update 1"),
    (momentum_of_averages, "momentum_update 1"),
]


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("way", "name"), SPELLINGS, ids=[w.__name__ for w, _ in SPELLINGS])
def test_spellings_are_found(way: Any, name: str, turned: bool) -> None:
    """The order of updates does not matter."""
    p, m, v, w = variables(4)
    updates = way(p, m, v, K.sin(w))
    assert found(updates[::-1] if turned else updates) == [name]


def test_near_misses() -> None:
    p, m, v, w = variables(4)
    g, h = K.sin(w), K.cos(w)

    def adam(m_t: Any, v_t: Any, divisor: Any = None) -> list[str]:
        divisor = K.sqrt(v_t) + 1e-7 if divisor is None else divisor
        return found([(m, m_t), (v, v_t), (p, p - 0.01 * m_t / divisor)])

    m_t, v_t = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * K.square(g)
    assert adam(m_t, v_t) == ["adam_update 1"]
    for near in (
        (m_t, 0.99 * v + 0.01 * K.square(h)),
        (m_t, 0.99 * v + 0.01 * K.abs(g)),
        (m_t, 0.99 * v + 0.02 * K.square(g)),
        (m_t, v_t, K.square(v_t) + 1e-7),
        (m_t, v_t, K.sqrt(v) + 1e-7),
        (m_t, v_t, K.sqrt(m_t) + 1e-7),
    ):
        assert "adam_update 1" not in adam(*near)


def test_all_declared_steps_have_patterns() -> None:
    assert {"adam_update", "momentum_update"} <= {p.op.name for p in patterns()}
    for pattern in patterns():
        assert len(pattern.results) == len(pattern.variables)


def adam_that_counts(p: Any, m: Any, v: Any, g: Any) -> Pairs:
    """The rate reads the new value of a variable."""
    steps = K.variable(0.0)
    t = steps + 1.0
    rate = 0.01 * K.sqrt(1.0 - K.pow(0.999, t)) / (1.0 - K.pow(0.9, t))
    m_t, v_t = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * K.square(g)
    return [(steps, t), (m, m_t), (v, v_t), (p, p - rate * m_t / (K.sqrt(v_t) + 1e-7))]


COMPUTED = [adam_that_counts, adam_with_a_schedule, momentum_of_averages]


@pytest.mark.parametrize("way", COMPUTED, ids=lambda way: way.__name__)
def test_spellings_compute_what_was_written(engine: Any, way: Any) -> None:
    start = RNG.random((4, 2, 3)).astype("float32")
    feeds = RNG.standard_normal((3, 2, 3)).astype("float32")

    def run() -> list[Any]:
        p, m, v = [K.variable(x) for x in start[:3]]
        g = K.placeholder((2, 3))
        updates = way(p, m, v, g * 2)
        step = K.function([g], [K.sum(p)], updates=updates)
        return [[step([x])[0] for x in feeds], *[K.get_value(t) for t, _ in updates]]

    with passes.without("optimizer_steps"):
        wanted = run()
    for a, b in zip(run(), wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_a_step_that_is_known_takes_the_numbers_of_its_own_program() -> None:
    """Both programs have one structure, and rates of their own that are computed."""
    found = []
    for start in (0.5, 0.25):
        p, rate = K.variable(np.ones((2, 3))), K.variable(start)
        a, g = K.variable(np.zeros((2, 3))), K.placeholder((2, 3))
        a_t = a + K.square(g)
        update = p - 2 * rate / 4 * g / (K.sqrt(a_t) + 1e-7)
        K.function([g], [], updates=[(a, a_t), (p, update)])([np.full((2, 3), 3.0)])
        found.append(K.get_value(p))
    np.testing.assert_allclose(found[0], 0.75, rtol=1e-5)
    np.testing.assert_allclose(found[1], 0.875, rtol=1e-5)
