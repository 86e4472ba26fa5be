"""Parametrisation over the declared cases."""

from __future__ import annotations

import pytest

from cases import CASES


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        marks = {True: [pytest.mark.slow], False: []}
        wanted = getattr(metafunc.function, "wanted", lambda case: True)
        metafunc.parametrize(
            "case", [pytest.param(c, id=c.id, marks=marks[c.slow]) for c in CASES if wanted(c)]
        )
