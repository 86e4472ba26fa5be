"""Whole models of Keras 3 on Backplane: the programs run in one process per engine."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from backplane import engines
from interop.environments import locked, run, shared_folder

HERE = Path(__file__).parent
NAMES = re.findall(
    r"\w+", re.search(r"^PROGRAMS = \[(.*?)\]", (HERE / "programs.py").read_text(), re.S | re.M)[1]
)
"""Importing the module would import Keras."""

EXPECTED = {
    "partial_batch": 1,
    "step_function": [1, True],
    "mixed_precision": ["float32", True],
    "save_and_load": True,
    "resumed": True,
    "interrupted": True,
    "exported": True,
    "symbolic_comparison": 100.0,
    "operators_of_values_and_tensors": 120,
    "eager_types": [True, True, "backplane"],
}


@pytest.fixture
def results(tmp_path_factory):
    """What the programs return, by engine, and the reference: run once for all test processes."""
    shared = shared_folder(tmp_path_factory)
    folder = shared / "keras3-models"
    folder.mkdir(exist_ok=True)

    def found(engine):
        with locked(folder / "reference.lock"):
            if not (folder / "reference.json").exists():
                run(
                    sys.executable, HERE / "reference.py", folder,
                    backend="jax", folder=folder, PYTHONWARNINGS="ignore",
                )  # fmt: skip
        file = folder / f"{engine}.json"
        with locked(file.with_suffix(".lock")):
            if not file.exists():
                own = folder / engine
                own.mkdir()
                for model in folder.glob("*.keras"):
                    (own / model.name).write_bytes(model.read_bytes())
                run(
                    sys.executable, HERE / "programs.py", file, own,
                    backend=f"backplane.{engine}", folder=own, PYTHONWARNINGS="ignore",
                )  # fmt: skip
        return json.loads(file.read_text()), json.loads((folder / "reference.json").read_text())

    return found


def engine_names(config):
    given = config.getoption("--engines")
    return given.split(",") if given else [n for n in engines.names() if engines.installed(n)]


def pytest_generate_tests(metafunc):  # pytest finds it in the module
    if "on" in metafunc.fixturenames:
        slow = [
            name if name == "numpy" else pytest.param(name, marks=pytest.mark.slow)
            for name in engine_names(metafunc.config)
        ]
        metafunc.parametrize("on", slow)


def value(results, program, engine):
    found = results(engine)[0][program]
    assert "value" in found, found.get("error")
    return found["value"]


APART = ("continued", "double_precision")
"""Programs with a test of their own."""


@pytest.mark.parametrize("program", [n for n in NAMES if n not in APART])
def test_a_program_gives_on_each_engine_what_it_gives_on_numpy(results, program, on):
    found = value(results, program, on)
    if program in EXPECTED:
        assert found == EXPECTED[program]
    elif program == "foreign_step":
        assert "uses backward" in found
        assert "K.gradients(loss, self.trainable_weights)" in found
    else:
        wanted = value(results, program, "numpy")
        assert set(found) == set(wanted)
        for name, numbers in wanted.items():
            np.testing.assert_allclose(found[name], numbers, rtol=2e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("name", ["equal", "seen"])
def test_programs_that_compare_by_themselves_found_equality(results, name):
    programs = results("numpy")[0]
    told = [p["value"][name] for p in programs.values() if isinstance(p.get("value"), dict)
            and name in p["value"]]  # fmt: skip
    assert told
    assert all(told)


def test_models_that_were_trained_on_jax_go_on_with_the_same_losses(results, on):
    found, wanted = value(results, "continued", on), results(on)[1]
    assert found.keys() == wanted.keys()
    for name, numbers in wanted.items():
        np.testing.assert_allclose(found[name], numbers, atol=1e-6, rtol=0, err_msg=name)


def test_models_of_float64_keep_their_digits(results, on):
    found, wanted = [value(results, "double_precision", engine) for engine in (on, "numpy")]
    assert found["dtypes"] == [["float64"], ["float64"], "float64", "float32"]
    for name in ("losses", "predictions"):
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-10, err_msg=name)
    np.testing.assert_allclose(found["by policy"], wanted["by policy"], rtol=1e-8)
