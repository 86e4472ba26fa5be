"""Whole models of Keras 3 on Backplane."""

import numpy as np
import pytest

from backplane import engines
from keras3.outcomes import KERAS_ON_JAX, names

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


APART = ("continued", "double_precision")
"""Programs with a test of their own."""


@pytest.mark.parametrize("program", [n for n in names("programs") if n not in APART])
def test_a_program_gives_on_each_engine_what_it_gives_on_numpy(outcomes, program, on):
    found = outcomes.value("programs", program, on)
    if program in EXPECTED:
        assert found == EXPECTED[program]
    elif program == "foreign_step":
        assert "uses backward" in found
        assert "K.gradients(loss, self.trainable_weights)" in found
    else:
        wanted = outcomes.value("programs", program, "numpy")
        assert set(found) == set(wanted)
        for name, numbers in wanted.items():
            np.testing.assert_allclose(found[name], numbers, rtol=2e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("name", ["equal", "seen"])
def test_programs_that_compare_by_themselves_found_equality(outcomes, name):
    programs = outcomes("programs", "numpy")
    told = [p["value"][name] for p in programs.values() if isinstance(p.get("value"), dict)
            and name in p["value"]]  # fmt: skip
    assert told
    assert all(told)


def test_models_that_were_trained_on_jax_go_on_with_the_same_losses(outcomes, on):
    found = outcomes.value("programs", "continued", on)
    wanted = outcomes.value("reference", "trained", KERAS_ON_JAX)
    assert found.keys() == wanted.keys()
    for name, numbers in wanted.items():
        np.testing.assert_allclose(found[name], numbers, atol=1e-6, rtol=0, err_msg=name)


def test_models_of_float64_keep_their_digits(outcomes, on):
    found, wanted = [outcomes.value("programs", "double_precision", e) for e in (on, "numpy")]
    assert found["dtypes"] == [["float64"], ["float64"], "float64", "float32"]
    for name in ("losses", "predictions"):
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-10, err_msg=name)
    np.testing.assert_allclose(found["by policy"], wanted["by policy"], rtol=1e-8)
