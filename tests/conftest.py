"""Engines as a fixture, isolation from the user's configuration, and the record of what passed."""

from __future__ import annotations

import gc
import json
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Generator
from contextlib import nullcontext
from functools import cache
from pathlib import Path

# Before anything imports the package: tests neither read nor write the user's configuration.
os.environ["KERAS_HOME"] = tempfile.mkdtemp(prefix="backplane-tests-")
os.environ["KERAS_BACKEND"] = "numpy"
# A test that fails shows all frames.
os.environ["BACKPLANE_TRACEBACK"] = "full"
sys.path.insert(0, str(Path(__file__).parent))

from at_start import sitecustomize
from compile_quickly import SETTINGS

# `test_jax_programs.py` runs whole programs without these settings.
os.environ.update(SETTINGS | os.environ)
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [str(Path(sitecustomize.__file__).parent), os.environ.get("PYTHONPATH")])
)

import pytest

from backplane import backend as K
from backplane import config, engines
from backplane.core.context import changed
from backplane.engines.arrays.fast import updates
from devices.placing import on_device
from interrupting import Alarm, an_alarm
from watchdog import Watchdog

# Programs of a few weights take the steps that NumPy and PyTensor have for large ones.
updates.LEAST.update(dict.fromkeys(updates.LEAST, 0))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--engines", default="", help="comma-separated engines; default: all installed"
    )
    parser.addoption(
        "--device",
        default="",
        help="where functions run, such as gpu:0; cpu:0 takes the code of an accelerator too",
    )
    parser.addoption("--record", default="", help="file to write what passed to, as JSON")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("numprocesses", None):
        # What hangs in a test has been ended by then.
        config.pluginmanager.register(Watchdog(1.1 * float(config.getini("faulthandler_timeout"))))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Tests are a million objects, which come while they are collected, and stay to the end: the
    garbage collector need not look at them. Neither need it look every 700 new objects at those
    of graphs and programs, most of which go without it.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000, 20, 10)
        gc.enable()


@cache
def chosen_engines(given: str) -> list[str]:
    """Names from --engines, else all whose library is installed."""
    if given:
        return [name.strip() for name in given.split(",")]
    return [name for name in engines.names() if engines.installed(name)]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow tests go first, so that quick ones are left to fill up the end. Each test process of
    pytest-xdist begins with an equal part of the list, and gets an equal part of either kind.

    Slow tests keep their order: those that share results stay in one process, and none waits for
    what another one computes. They are not taken over, as long as there are quick ones.
    """
    slow = [item for item in items if item.get_closest_marker("slow")]
    quick = [item for item in items if not item.get_closest_marker("slow")]
    count = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    parts = [
        found[len(found) * i // count : len(found) * (i + 1) // count]
        for i in range(count)
        for found in (slow, quick)
    ]
    items[:] = [item for part in parts for item in part]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "engine" in metafunc.fixturenames:
        metafunc.parametrize(
            "engine", chosen_engines(metafunc.config.getoption("--engines")), indirect=True
        )


@cache
def load(name: str) -> None:
    """Import an engine with its library. Of these objects, too, the garbage collector need not
    look at any: they stay.
    """
    gc.collect()
    engines.get(name)
    gc.freeze()


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> object:
    """The engine under test, in force during the test."""
    load(request.param)
    with engines.use(request.param) as found:
        name = request.config.getoption("--device")
        with changed(device=on_device(found, name)) if name else nullcontext():
            yield found


@pytest.fixture(scope="module", autouse=True)
def lasting() -> None:
    """What other files have left is there to stay, millions of objects late in a run. A test that
    collects garbage goes through its own file's objects only.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture
def alarm() -> Generator[Alarm, None, None]:
    """An alarm that is off after the test."""
    with an_alarm() as found:
        yield found


@pytest.fixture(autouse=True)
def recorded(request: pytest.FixtureRequest) -> None:
    """What `covers` says of the test goes into the record."""
    used = "engine" in request.fixturenames
    engine = request.getfixturevalue("engine").name if used else "any"
    for name, aspect in getattr(request.function, "covered", ()):
        request.node.user_properties.append(("conformance", (name, engine, aspect)))


@pytest.fixture(autouse=True)
def clean_state() -> object:
    """Defaults before each test; names and the learning phase reset after it."""
    config.set_floatx("float32")
    config.set_epsilon(1e-7)
    config.set_image_data_format("channels_last")
    yield
    K.clear_session()
    K.set_random_seed(None)


_passed: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
_failed: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Collect (function, engine, aspect) of conformance tests; with xdist this runs in the
    controller.
    """
    if report.when == "call":
        for key, value in report.user_properties:
            if key == "conformance":
                name, engine, aspect = value
                (_passed if report.passed else _failed)[name][engine].add(aspect)


def pytest_sessionfinish(session: pytest.Session) -> None:
    path = session.config.getoption("--record")
    if path and not hasattr(session.config, "workerinput"):
        record = {
            name: {
                e: sorted(aspects - _failed[name][e]) for e, aspects in sorted(by_engine.items())
            }
            for name, by_engine in sorted(_passed.items())
        }
        Path(path).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
