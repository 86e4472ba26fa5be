"""A few of the fuzzer's programs and bad calls in each run of the tests, and all past failures."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from fuzz.bad_calls import calls, judged
from fuzz.corpus import CORPUS
from fuzz.programs import agrees
from fuzz.search import search

PROGRAMS = 40
SECONDS = 15.0
ROWS_ONE_BY_ONE = ("means_of_many_rows", "sums_between_other_axes")
EVERY = 11
"""One bad call of so many is made."""


@pytest.fixture
def clean_seed() -> Iterator[None]:
    """Bad calls set seeds."""
    yield
    K.set_random_seed(None)


def test_random_programs(engine: Any) -> None:
    with np.errstate(all="ignore"):
        report = search(engine.name, 20, PROGRAMS, time.monotonic() + SECONDS)
    if report.failures:
        raise report.failures[0]
    assert report.programs > 0


@pytest.mark.parametrize("program", CORPUS, ids=lambda f: f.__name__)
def test_past_failures(engine: Any, program: Any) -> None:
    halves = "float16 bfloat16".split()
    if program.__name__.endswith("in_halves"):
        for dtype in (*engine.capabilities.intersection(halves), "float32"):
            assert agrees(partial(program, dtype=dtype), engine.name)
    elif program.__name__ in ROWS_ONE_BY_ONE and engine.name in ("tensorflow", "cntk"):
        # docs/conventions.md says so. When a release of the library adds in another way, this fails.
        with pytest.raises(AssertionError, match="mean"):
            agrees(program, engine.name)
    else:
        assert agrees(program, engine.name)


@pytest.mark.parametrize("symbolic", [True, False], ids=["graph", "now"])
@pytest.mark.usefixtures("capsys", "clean_seed")
def test_bad_calls(engine: Any, symbolic: bool) -> None:
    made = 0
    for i, call in enumerate(calls(symbolic)):
        if i % EVERY == 0:
            finding = judged(*call)
            assert finding is None, str(finding)
            made += 1
    assert made > 2000
