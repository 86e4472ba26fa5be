"""Parametrisation over the declared cases: one by one, or those of a function together."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cases import CASES
from cases.record import Case

TOGETHER = 8
"""At most so many cases are in one program. To compile a program takes as long as a few cases."""


def groups(wanted: Callable[[Case], bool]) -> dict[str, list[Case]]:
    """Cases of one function that ask the same of an engine, by the name of the first."""
    alike: dict[object, list[Case]] = {}
    for case in filter(wanted, CASES):
        alike.setdefault((case.name, case.dtypes, case.slow, case.needs), []).append(case)
    parts = [
        cases[i : i + TOGETHER] for cases in alike.values() for i in range(0, len(cases), TOGETHER)
    ]
    return {part[0].id: part for part in parts}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marks = {True: [pytest.mark.slow], False: []}
    wanted = getattr(metafunc.function, "wanted", lambda case: True)
    if "case" in metafunc.fixturenames:
        metafunc.parametrize(
            "case", [pytest.param(c, id=c.id, marks=marks[c.slow]) for c in CASES if wanted(c)]
        )
    if "cases" in metafunc.fixturenames:
        params = [
            pytest.param(cases, id=name, marks=marks[cases[0].slow])
            for name, cases in groups(wanted).items()
        ]
        metafunc.parametrize("cases", params)
