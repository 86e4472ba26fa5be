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
