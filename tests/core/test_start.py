"""What a start brings: modules are imported when something of them is first needed."""

from __future__ import annotations

import ast
import os
import pickle
import pkgutil
import subprocess
import sys
from pathlib import Path

import backplane.backend as K

HERE = Path(K.__file__).parent


def modules_after(lines: str) -> set[str]:
    """The modules that a new process with K and NumPy has, after some lines."""
    start = "import sys, numpy\nbefore = set(sys.modules)\nfrom backplane import backend as K\n"
    end = "\nprint(*set(sys.modules) - before)"
    done = subprocess.run(
        [sys.executable, "-c", start + lines + end],
        env={**os.environ, "KERAS_BACKEND": "numpy"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "Using NumPy backend.\n")
    return {name.removeprefix("backplane.") for name in done.stdout.split()}


SMALL = """
import numpy as np
x = K.placeholder(shape=(2, 3))
f = K.function([x], [K.tanh(K.dot(x, K.variable(np.ones((3, 2)))) + K.variable(np.ones(2)))])
assert f([np.ones((2, 3))])[0].shape == (2, 2)
"""


def test_a_small_program_imports_no_chapter_that_it_does_not_use():
    found = modules_after(SMALL)
    assert {"backend.creation", "backend.linear", "ops.elementwise"} <= found
    assert "compile.codegen.programs" in found
    chapters = {name for name in found if name.startswith("backend.")}
    assert {name for name in chapters if not name.startswith("backend._")} == {
        "backend.activation", "backend.creation", "backend.graph", "backend.linear",
    }  # fmt: skip
    passes = {"blocks", "exporting", "hoist", "joining", "loops", "masks", "stacking", "updates"}
    assert not {f"compile.{name}" for name in passes} & found


def test_a_function_stands_in_the_namespace_after_its_first_use():
    lines = "assert 'relu' not in vars(K)\nK.relu\nassert vars(K)['relu'] is K.relu"
    assert "backend.activation" in modules_after(lines)


def test_everything_is_there_without_having_been_used():
    lines = (
        "assert set(K.__all__) <= set(dir(K))\nfrom backplane.backend import *\n"
        "assert rnn is K.rnn and backend() == 'numpy'"
    )
    assert "backend.ctc" in modules_after(lines)


def test_functions_are_pickled_by_name():
    assert pickle.loads(pickle.dumps(K.foldl)) is K.foldl


def test_no_function_is_named_as_a_module():
    """Importing the module would put it in the place of the function."""
    assert not {module.name for module in pkgutil.iter_modules([str(HERE)])} & set(K.__all__)


def test_type_checkers_see_the_same_names_of_the_same_modules():
    tree = ast.parse((HERE / "__init__.pyi").read_text(encoding="utf-8"))
    stated = {
        alias.asname: node.module
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert stated == K._HOME


def test_classic_keras_finds_every_name_in_the_dictionary_of_the_module():
    done = subprocess.run(
        [sys.executable, "-c", "from backplane import backend as K; print(*vars(K))"],
        env={**os.environ, "KERAS_BACKEND": "backplane.backend"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(K.__all__) <= set(done.stdout.split())
