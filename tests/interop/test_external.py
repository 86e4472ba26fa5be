"""Backends of somebody else's, loaded into K."""

import os
import sys

import pytest

import waiting

COMPLETE = """
import numpy as np
calls = []
def placeholder(shape=None, ndim=None, dtype=None, sparse=False, name=None): return "placeholder"
def variable(value, dtype=None, name=None, constraint=None): return np.array(value)
def function(inputs, outputs, updates=None, **kwargs): return lambda values: values
def square(x): return x * x
def epsilon(): return "theirs"
def something_new(): return 42
"""


@pytest.fixture
def python(tmp_path):
    """Runs lines with K from a module `theirs`; returns the process."""

    def run(module, lines, **environment):
        (tmp_path / "theirs.py").write_text(module, encoding="utf-8")
        env = {
            **os.environ, "KERAS_BACKEND": "theirs", "KERAS_HOME": str(tmp_path),
            "PYTHONPATH": str(tmp_path), **environment,
        }  # fmt: skip
        command = [sys.executable, "-c", "from backplane import backend as K\n" + lines]
        return waiting.run(command, env=env)

    return run


USE = """
assert K.backend() == "theirs"
assert K.placeholder((2,)) == "placeholder"
assert K.square(K.variable([3.0])).tolist() == [9.0]
assert K.something_new() == 42
assert K.epsilon() == 1e-7, "the common names stay ours"
try:
    K.conv2d(1, 2)
except NotImplementedError as error:
    print(error)
"""


def test_a_module_from_the_environment(python):
    done = python(COMPLETE, USE)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "K.conv2d: the backend 'theirs' does not define it\n"
    assert done.stderr == "Using theirs backend.\n"


def test_a_module_from_keras_json(python, tmp_path):
    (tmp_path / "keras.json").write_text('{"backend": "theirs"}')
    done = python(COMPLETE, USE, KERAS_BACKEND="")
    assert done.returncode == 0, done.stderr


def test_all_missing_entries_in_one_error(python):
    done = python("def variable(value): pass", "")
    assert "lacks the required entries placeholder, function" in done.stderr.splitlines()[-1]
    assert "ValueError" in done.stderr


def test_a_module_that_is_not_there(python):
    done = python(COMPLETE, "", KERAS_BACKEND="nowhere.at_all")
    asked = "ModuleNotFoundError: KERAS_BACKEND asks for the backend 'nowhere.at_all', which is"
    assert done.stderr.splitlines()[-1].startswith(asked)


def test_a_module_that_fails(python):
    done = python("import not_installed_at_all", "")
    last = done.stderr.splitlines()[-1]
    assert last == "ModuleNotFoundError: No module named 'not_installed_at_all'"


def test_a_module_that_builds_on_ours(python):
    module = """
from backplane.backend import *
from backplane import engines
engines.set_default(engines.get("numpy"))
def tanh(x): return x * 0.0 + 7.0
"""
    done = python(module, "print(K.eval(K.sum(K.tanh(K.ones((2,))))))")
    assert done.stdout == "14.0\n", done.stderr


@pytest.mark.parametrize("name", ["backplane.numpy", "backplane.backend", "backplane"])
def test_our_own_names(python, tmp_path, name):
    (tmp_path / "keras.json").write_text('{"backend": "numpy"}')
    done = python(COMPLETE, "print(K.eval(K.ones((1,))))", KERAS_BACKEND=name)
    assert (done.stdout, done.stderr) == ("[1.]\n", "Using NumPy backend.\n")
