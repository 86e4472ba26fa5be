"""What a start brings: all of K, and of engines and passes only what a program needs."""

from __future__ import annotations

import inspect
import os
import pickle
import pkgutil
import sys
from pathlib import Path

import backplane.backend as K
import waiting

HERE = Path(K.__file__).parent


def modules_after(lines: str) -> set[str]:
    """The modules that a new process with K and NumPy has, after some lines."""
    start = "import sys, numpy\nbefore = set(sys.modules)\nfrom backplane import backend as K\n"
    end = "\nprint(*set(sys.modules) - before)"
    done = waiting.run(
        [sys.executable, "-c", start + lines + end],
        env={**os.environ, "KERAS_BACKEND": "numpy"},
    )
    assert (done.returncode, done.stderr) == (0, "Using NumPy backend.\n")
    return {name.removeprefix("backplane.") for name in done.stdout.split()}


SMALL = """
import numpy as np
x = K.placeholder(shape=(2, 3))
f = K.function([x], [K.tanh(K.dot(x, K.variable(np.ones((3, 2)))) + K.variable(np.ones(2)))])
assert f([np.ones((2, 3))])[0].shape == (2, 2)
"""


def test_the_import_alone_loads_no_compiler():
    found = modules_after("")
    assert {"backend.graph", "ops.control"} <= found
    assert not {"compile.program", "compile.function", "compile.passes"} & found


def test_a_small_program_loads_no_library_of_an_engine_and_no_export():
    found = modules_after(SMALL)
    assert {"backend.ctc", "backend.recurrence", "compile.passes.hoist"} <= found
    assert "compile.export" not in found
    assert not {"jax", "mlx", "onnxruntime", "pytensor", "tensorflow", "torch"} & found


FIRST_GRADIENT = """
from backplane.core.graph import toposort
from backplane.ops.groups import normalize_grad
x = K.placeholder(shape=(None, 3))
y, _, _ = K.normalize_batch_in_training(x, K.ones((3,)), K.zeros((3,)), [0])
assert normalize_grad in {t.op for t in toposort(K.gradients(K.sum(K.square(y)), [x]))}
"""


def test_the_first_program_of_a_process_has_the_gradients_of_groups():
    """They are taken before the first function is made."""
    found = modules_after(FIRST_GRADIENT)
    assert "compile.passes" in found
    assert "compile.function" not in found


def test_every_function_stands_in_the_namespace():
    """Classic Keras copies what it finds in the dictionary of the module."""
    modules_after("assert set(K.__all__) <= set(vars(K)) and set(K.__all__) <= set(dir(K))")


def test_a_star_import_brings_every_function():
    modules_after("from backplane.backend import *\nassert rnn is K.rnn and backend() == 'numpy'")


def test_functions_are_pickled_by_name():
    assert pickle.loads(pickle.dumps(K.foldl)) is K.foldl


def test_no_function_is_named_as_a_module():
    """Importing the module would put it in the place of the function."""
    assert not {module.name for module in pkgutil.iter_modules([str(HERE)])} & set(K.__all__)


def test_every_function_with_an_example_is_named_by_its_chapter():
    """A K function that `__all__` of its chapter forgets would not be in K."""
    forgotten = {
        f"{chapter.__name__}.{name}"
        for chapter in K._CHAPTERS
        for name, value in vars(chapter).items()
        if inspect.isfunction(value) and value.__module__ == chapter.__name__
        if not name.startswith("_") and ">>> " in (value.__doc__ or "")
        if name not in chapter.__all__
    }
    assert not forgotten


def test_no_two_chapters_have_the_same_function():
    assert sum(len(chapter.__all__) for chapter in K._CHAPTERS) == len(K.__all__)
