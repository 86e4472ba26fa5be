"""Every K function has a docstring with an example that runs and shows exactly what it says."""

from __future__ import annotations

import doctest
import inspect

import pytest

from backplane import backend as K
from backplane import engines


def _own(name: str) -> bool:
    """Whether K defines it (the examples of the settings are run by tests/core/test_config.py)."""
    function = inspect.unwrap(getattr(K, name))
    return inspect.isfunction(function) and function.__module__.startswith("backplane.backend")


FUNCTIONS = sorted(name for name in K.__all__ if _own(name))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_example_runs(name: str) -> None:
    function = inspect.unwrap(getattr(K, name))
    finder = doctest.DocTestFinder(recurse=False)
    [example] = finder.find(function, name, globs=dict(function.__globals__))
    assert example.examples, f"K.{name} has no example"
    with engines.use("numpy"):
        result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example)
    assert result.failed == 0


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_arguments_are_described(name: str) -> None:
    function = inspect.unwrap(getattr(K, name))
    text = inspect.getdoc(function) or ""
    assert text, f"K.{name} has no docstring"
    if "`K." in text:  # described there
        return
    missing = [p for p in inspect.signature(function).parameters if p not in text]
    assert not missing, f"K.{name} does not describe {', '.join(missing)}"
