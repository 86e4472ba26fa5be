"""Parametrisation over the declared cases, each of which runs once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cases import CASES
from compile_quickly import graphs_as_they_are


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        marks = {True: [pytest.mark.slow], False: []}
        wanted = getattr(metafunc.function, "wanted", lambda case: True)
        metafunc.parametrize(
            "case", [pytest.param(c, id=c.id, marks=marks[c.slow]) for c in CASES if wanted(c)]
        )


@pytest.fixture(autouse=True)
def compiled_quickly(recorded: None) -> Iterator[None]:
    """Programs run as often as they are compiled."""
    with graphs_as_they_are():
        yield
