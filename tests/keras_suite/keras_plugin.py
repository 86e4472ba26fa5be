"""The pytest plug-in that runs Keras' own tests on Backplane.

It puts the import hook in place before Keras is imported, stands in for the `conftest` that Keras'
wheel lacks, and leaves out the tests that are listed in `excluded/all.txt` and in
`excluded/ENGINE.txt`. A line there is `pattern: reason`. The pattern matches node ids as a shell
does, relative to `keras/src`, such as `ops/math_test.py::*fft*`.
"""

from __future__ import annotations

import ast
import fnmatch
import importlib
import importlib.util
import json
import os
import sys
import types
from collections.abc import Generator
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import NoReturn

import pytest

from backplane.keras3 import hook  # before Keras

HERE = Path(__file__).parent
ENGINE = os.environ["KERAS_SUITE_ENGINE"]
OPTIONAL = ("grain", "pandas")
"""Packages that modules of tests import at their top, for some of their tests."""


def skip_if_backend(given_backend: str, reason: str) -> pytest.MarkDecorator:
    """A mark of tests that a backend cannot pass."""
    from keras.src.backend import backend

    return pytest.mark.skipif(backend() == given_backend, reason=reason)


def _extend_trainer_test(tree: ast.Module) -> bool:
    """Let a test know this backend that picks its backend as Keras does, and has a table of the
    names of processors.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "CPU_DEVICES":
            assert isinstance(node.value, ast.Dict)
            node.value.keys.append(ast.Constant("backplane"))
            node.value.values.append(ast.Constant("cpu:0"))
    return hook.CHANGED["keras.src.models.model"](tree)


hook.CHANGED["keras.src.trainers.trainer_test"] = _extend_trainer_test
importlib.import_module("keras")  # Otherwise pytest imports its packages by parts.

conftest = types.ModuleType("conftest")
conftest.skip_if_backend = skip_if_backend  # type: ignore[attr-defined]
sys.modules["conftest"] = conftest


def exclusions(engine: str) -> list[tuple[str, str]]:
    """The pairs (pattern, reason) for an engine.

    Raises:
        ValueError: names a line without a reason.
    """
    found = []
    for file in (HERE / "excluded" / "all.txt", HERE / "excluded" / f"{engine}.txt"):
        for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
            if not line.strip() or line.startswith("#"):
                continue
            pattern, sep, reason = line.partition(": ")
            if not sep or not reason.strip():
                raise ValueError(f"{file.name}: no reason in the line {line!r}")
            found.append((pattern.strip(), reason.strip()))
    return found


def node_id(item: pytest.Item) -> str:
    """The id of a test, relative to `keras/src`."""
    return item.nodeid.rpartition("keras/src/")[2]


class _Absent(types.ModuleType):
    """Stands for a package that is not installed. Tests that use it are skipped; the others of a
    module that imports it run.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__spec__ = ModuleSpec(name, None)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        pytest.skip(f"the package {self.__name__} is not installed", allow_module_level=True)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """While a module of tests is imported, and no longer, packages that it needs for single tests
    seem to exist. Keras itself looks for them later, and does not find them.
    """
    import keras  # noqa: F401 - so that no module of Keras is imported below

    absent = []
    if isinstance(collector, pytest.Module):
        absent = [name for name in OPTIONAL if importlib.util.find_spec(name) is None]
    sys.modules.update({name: _Absent(name) for name in absent})
    try:
        return (yield)
    finally:
        for name in absent:
            del sys.modules[name]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is excluded, and what is not in the sample."""
    items[:] = items[:: int(os.environ.get("KERAS_SUITE_EVERY", "1"))]
    if os.environ.get("KERAS_SUITE_ALL"):
        return
    patterns = exclusions(ENGINE)
    for item in items:
        for pattern, reason in patterns:
            if fnmatch.fnmatch(node_id(item), pattern):
                item.add_marker(pytest.mark.skip(reason=f"excluded: {reason}"))
                break


_outcomes: dict[str, dict[str, object]] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep the outcome of each test."""
    name = report.nodeid.rpartition("keras/src/")[2]
    known = _outcomes.get(name)
    if known is not None and report.passed:
        return
    reason = ""
    if report.skipped and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2]
    elif report.failed:
        reason = str(report.longrepr).strip().splitlines()[-1][:300]
    trainable = "requires_trainable_backend" in report.keywords
    _outcomes[name] = {"outcome": report.outcome, "reason": reason, "trainable": trainable}


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the outcomes, if asked to. Processes of pytest-xdist leave that to the main one."""
    file = os.environ.get("KERAS_SUITE_WRITE")
    if file and not hasattr(session.config, "workerinput"):
        Path(file).write_text(json.dumps(_outcomes, indent=1, sort_keys=True), encoding="utf-8")
