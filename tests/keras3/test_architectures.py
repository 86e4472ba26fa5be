"""Published architectures give on Backplane what they give on Keras' own TensorFlow backend: a
sample of what `python -m benchmarks.keras_applications` measures.
"""

import functools
import os

import pytest

from backplane import engines
from benchmarks.keras_applications import verdict
from benchmarks.keras_architectures import APPLICATIONS, REFERENCE
from benchmarks.workers import Worker
from lean import lean

SAMPLE = "MobileNetV3Small"
ENGINES = ("numpy", "cntk")


def pytest_generate_tests(metafunc):  # pytest finds it in the module
    if "on" in metafunc.fixturenames:
        given = metafunc.config.getoption("--engines")
        chosen = given.split(",") if given else engines.names()
        metafunc.parametrize("on", [n for n in ENGINES if n in chosen and engines.installed(n)])


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """What the sample gives on a backend, in a process of its own."""
    file = tmp_path_factory.mktemp("architectures") / "reference.npz"

    @functools.cache
    def found(stack):
        backend = stack.removeprefix("keras3-")
        extra = {"PYTHONPATH": lean({**os.environ, "KERAS_BACKEND": backend})["PYTHONPATH"]}
        worker = Worker(stack, 0, extra, "benchmarks.keras_architectures")
        try:
            return worker.ask(do="run", group=APPLICATIONS, name=SAMPLE, file=str(file))
        finally:
            worker.close()

    return found


@pytest.mark.slow  # Two builds of 230 layers, and their graphs.
def test_a_published_architecture_predicts_and_trains_as_on_tensorflow(run, on):
    reference = run(REFERENCE)
    assert reference["first"] > reference["second"]
    assert verdict(run(f"backplane.{on}"), reference) == []


def test_differences_are_judged_by_the_bounds():
    reference = {"weights": "a", "spread": 0.1, "first_rounding": 0.0, "second_rounding": 1e-3}
    row = {"weights": "a", "predictions": 1e-5, "first": 1e-5, "second": 9e-3}
    assert verdict(row, reference) == []
    assert verdict({**row, "predictions": 2e-4}, reference) == ["its predictions differ by 2.0e-04"]
    assert verdict({**row, "predictions": float("nan")}, reference)
    assert verdict({**row, "first": 2e-4}, reference) == ["the first loss differs by 2.0e-04"]
    assert verdict({**row, "second": 2e-2}, reference) == ["the second loss differs by 2.0e-02"]
    assert verdict({**row, "weights": "b"}, reference)
    assert verdict(row, {**reference, "spread": 1e-6})
    assert verdict({"error": "no"}, reference) == ["no"]
