"""Long runs, shortened: `make soak` has the long ones. What is counted does not depend on time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trust.long_life import calls, counted, deep, models

FAST = "blocks"
"""The capability of engines that build and call much within seconds."""

OBJECTS, BLOCKS = 200, 2_000
"""What may come and go: caches that fill up to their limits, and Python's own free lists."""


@pytest.mark.slow
def test_models_go_without_clear_session(engine: Any) -> None:
    grown = models(210 if FAST in engine.capabilities else 84)
    assert grown.objects < OBJECTS
    assert grown.blocks < BLOCKS


@pytest.mark.slow
def test_calls_leave_nothing(engine: Any) -> None:
    grown = calls(100_000 if FAST in engine.capabilities else 10_000)
    assert grown.objects < OBJECTS
    assert grown.blocks < BLOCKS


@pytest.mark.slow
def test_deep_graphs_take_linear_time(engine: Any) -> None:
    """Twice the nodes take twice the calls of functions. With its gradient, the longest chain has
    some 10,000 nodes. The libraries' compilers have limits of their own.
    """
    quick = FAST in engine.capabilities
    if quick:
        deep(100)
        small, middle, large = [counted(lambda n=n: deep(n)) for n in (600, 1_200, 2_400)]
        assert middle < 2.1 * small
        assert large < 2.1 * middle
    value, gradient = deep(1_000 if quick else 100)
    assert np.isfinite(value)
    assert gradient.shape == (4,)
