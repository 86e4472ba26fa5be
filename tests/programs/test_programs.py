"""Whole programs give the same numbers on every engine."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from backplane import engines
from programs.programs import PROGRAMS, Numbers


@cache
def expected(program: Callable[[], Numbers]) -> Numbers:
    """The numbers of the NumPy engine in float64."""
    K.set_floatx("float64")
    try:
        with engines.use("numpy"):
            return program()
    finally:
        K.set_floatx("float32")


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_program(program: Callable[[], Numbers], engine: Any) -> None:
    wanted = expected(program)
    found = program()
    assert found.keys() == wanted.keys()
    for name, want in wanted.items():
        # Training amplifies rounding: 1e-4 of the largest number after up to 25 steps in float32.
        scale = np.abs(want).max()
        np.testing.assert_allclose(found[name], want, rtol=1e-4, atol=1e-4 * scale, err_msg=name)


@pytest.mark.parametrize("limit", [None, 6.0])
def test_a_rectifier_lets_no_bad_gradient_through_where_it_is_flat(
    engine: Any, limit: float | None
) -> None:
    x = K.placeholder(shape=(None,))
    w = K.placeholder(shape=(None,))
    (slope,) = K.gradients(K.sum(K.relu(x, max_value=limit) * w), [x])
    flat = [-1.0, 0.0, -2.0] + ([7.0, 8.0] if limit else [])
    bad = [np.inf, np.nan, -np.inf, np.nan, np.inf][: len(flat)]
    found = K.function([x, w], [slope])([np.array([*flat, 2.0, 3.0]), np.array([*bad, 5.0, -4.0])])
    np.testing.assert_array_equal(found[0], [*[0.0] * len(flat), 5.0, -4.0])
