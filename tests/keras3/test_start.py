"""How Keras finds Backplane: the file of the wheel that Python reads at its start, and the notice
about what a newer Keras asks for."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import waiting
from backplane.core.context import is_ours
from backplane.engines import installed
from backplane.keras3 import inventory
from backplane.known_engines import ENGINES
from interop.environments import run
from lean import lean

SOURCES = Path(__file__).parents[2] / "src"


@pytest.mark.slow
def test_the_wheel_needs_no_import_before_keras(tmp_path):
    """What `site` does with the folder into which a wheel is installed."""
    (tmp_path / "keras_backplane.pth").write_text((SOURCES / "keras_backplane.pth").read_text())
    program = (
        f"import site, sys; site.addsitedir({str(tmp_path)!r});"
        "assert 'backplane' not in sys.modules; import keras;"
        "print(keras.backend.backend(), float(keras.ops.sum([1.0, 2.0])))"
    )
    done = waiting.run(
        [sys.executable, "-c", program],
        env=lean(
            {**os.environ, "KERAS_BACKEND": "backplane.numpy", "KERAS_HOME": str(tmp_path)}
        ),
    )  # fmt: skip
    assert done.stdout.split() == ["backplane", "3.0"], done.stderr


def test_the_file_of_the_wheel_does_nothing_without_the_variable(monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    before = list(sys.meta_path)
    exec((SOURCES / "keras_backplane.pth").read_text())
    assert sys.meta_path == before
    assert "keras_backplane.start" not in sys.modules


def test_nothing_is_lacking():
    assert inventory.lacking() == {}
    assert inventory.notice("9.9") == ""


def test_a_newer_keras_is_told_of(monkeypatch):
    monkeypatch.setattr(inventory, "lacking", lambda: {"numpy": ["foo"], "nn": ["bar"]})
    assert inventory.notice(inventory.TESTED) == ""
    told = inventory.notice("9.9")
    assert "Keras 9.9" in told
    assert "numpy.foo, nn.bar" in told


TRACEBACKS = """
import traceback
import backplane.keras3, keras, numpy as np

class Wrong(keras.layers.Layer):
    def call(self, x):
        return keras.ops.matmul(x, x)

x = np.ones((4, 8), "float32")
for call in (
    lambda: keras.ops.matmul(x, x),
    lambda: keras.ops.take(x, [9], axis=0),
    lambda: keras.Sequential([Wrong()]).predict(x, verbose=0),
):
    try:
        call()
    except Exception as error:
        print(*[frame.filename for frame in traceback.extract_tb(error.__traceback__)], sep=";")
"""


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["", "full"])
def test_tracebacks_have_frames_of_ours_only_when_asked_for(tmp_path, setting):
    done = waiting.run(
        [sys.executable, "-c", TRACEBACKS],
        env=lean({
            **os.environ, "KERAS_BACKEND": "backplane.numpy", "KERAS_HOME": str(tmp_path),
            "BACKPLANE_TRACEBACK": setting,
        }),
    )  # fmt: skip
    traces = done.stdout.splitlines()
    assert len(traces) == 3, done.stderr
    for trace in traces:
        ours = [is_ours(file) for file in trace.split(";")]
        assert any(ours) == (setting == "full"), trace


SIGNATURES = """
import inspect
import backplane.keras3, keras
from keras.src import backend, ops
from keras.src.ops import core, image, linalg, math, nn, numpy

def plain(function):
    found = inspect.signature(function)
    empty = inspect.Parameter.empty
    kept = [p.replace(annotation=empty) for p in found.parameters.values()]
    return str(found.replace(parameters=kept, return_annotation=inspect.Signature.empty))

OTHERS = {"multi_hot", "custom_gradient", "get_item", "view_as_complex", "view_as_real"}
compared = 0
for module in (core, image, linalg, math, nn, numpy):
    ours = getattr(backend, module.__name__.rpartition(".")[2])
    for name, function in vars(module).items():
        mine = getattr(ours, name, None)
        public = inspect.isfunction(function) and not name.startswith("_")
        if mine is None or not public or name in OTHERS or hasattr(module, f"_{name}"):
            continue
        compared += 1
        if plain(mine) != plain(function):
            print(name, plain(mine), plain(function))
print(compared > 300)
"""
"""Prints functions of the backend that differ from Keras' own in names, order or defaults of
parameters. Keras handles the others itself before it calls the backend."""


@pytest.mark.slow
def test_functions_have_the_parameters_that_keras_documents(tmp_path):
    done = waiting.run(
        [sys.executable, "-c", SIGNATURES],
        env=lean(
            {**os.environ, "KERAS_BACKEND": "backplane.numpy", "KERAS_HOME": str(tmp_path)}
        ),
    )  # fmt: skip
    assert done.stdout.split() == ["True"], done.stdout + done.stderr


@pytest.mark.slow
def test_an_engine_may_be_chosen_after_the_start(tmp_path):
    """Its values stand to the left of operators, and Keras knows its dtypes."""
    file, names = Path(__file__).parent / "later_engine.py", list(filter(installed, ENGINES))
    compared = run(
        sys.executable, file, *names,
        backend="backplane.numpy", folder=tmp_path, needed=tuple(names),
    )  # fmt: skip
    assert compared.splitlines() == [f"{name} 26" for name in names]
