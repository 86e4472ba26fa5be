"""The NumPy engine: steps of optimizers, and the arrays that they write over."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from backplane.core.atomic import at_once
from backplane.engines.arrays.fast import updates
from backplane.engines.numpy import ENGINE

rng = np.random.default_rng(0)


def done(later: Any) -> Any:
    """The arrays of a step, after the calls that write them."""
    found, calls = later
    ENGINE.commit(calls)
    return found


def test_steps_write_over_their_own_arrays_only() -> None:
    given = [np.ones((300, 300), "float32") for _ in range(4)]
    numbers = [np.float32(x) for x in (0.1, 0.9, 0.99, 1e-3)]
    first = done(updates.TABLE["adam_update"].function(*numbers, *given))
    assert all((x == 1).all() for x in given)
    assert not any(np.shares_memory(x, y) for x in first for y in given)
    lent = ENGINE.lend(first[0])
    second = done(updates.TABLE["adam_update"].function(*numbers, *first, given[3]))
    assert all(x is y for x, y in zip(first, second, strict=True))
    assert not np.shares_memory(lent, first[0])
    assert ENGINE.lend(given[0]) is given[0]
    assert not np.shares_memory(ENGINE.lend(first[0][1:]), first[0])


def test_a_step_over_several_blocks_and_orders_of_memory() -> None:
    shape = (3, updates.BLOCK // 2 + 1)
    p, m, g = rng.random(shape), rng.random(shape), rng.random(shape[::-1]).T
    step = updates.TABLE["momentum_update"].function
    for nesterov in (False, True):
        new_p, new_m = done(step(0.9, -0.1, 0.5, p, m, g, nesterov=nesterov))
        expected = 0.9 * m - 0.1 * g
        np.testing.assert_allclose(new_m, expected, rtol=1e-12, atol=1e-14)
        moved = p + 0.5 * expected - (0.1 * g if nesterov else 0)
        np.testing.assert_allclose(new_p, moved, rtol=1e-12, atol=1e-14)
    (new_p,) = done(updates.TABLE["gradient_update"].function(-0.1, p, g))
    np.testing.assert_allclose(new_p, p - 0.1 * g, rtol=1e-12, atol=1e-14)


def test_nothing_comes_between_the_writes_of_a_step() -> None:
    x = np.zeros(4)
    seen: list[Any] = []
    tracer = sys.gettrace()
    sys.settrace(lambda frame, *_: seen.append(frame.f_code.co_name))
    try:
        at_once([(np.add, x, 1, x)] * 100)
    finally:
        sys.settrace(tracer)
    assert (x == 100).all()
    assert seen == ["at_once"]
