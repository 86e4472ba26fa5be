"""What users of Keras 3 write besides the plain loop: the programs run in a process per engine."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from interop.environments import locked, run

HERE = Path(__file__).parent

ERRORS = {
    "strings_are_no_tensors": ["TypeError", "is no tensor of the backend", "StringLookup"],
    "functions_of_numpy": ["wrong", "numpy.tanh takes values", "use keras.ops.tanh"],
    "shapes_that_depend_on_values": ["'wrong'", "keras.ops.nonzero has no symbolic form"],
}

ERRORS_OF_ENGINES = {
    "targets_of_another_shape": ["the loss of the model 'three' on the engine '{}'", "(20, 7)"],
}

VALUES = {
    "operators_between_arrays_and_tensors": True,
    "tensors_and_variables": [True] * 3,
}

SAME = ["two_networks_without_call", "triplets", "unbuilt_with_a_step", "scalars_of_distributions"]


ON_JAX = {
    "loops_and_branches": [5.881163120269775, 4.43521785736084],
    "gradient_of_the_user": [3.109935760498047, 1.8015758991241455],
    "without_state": [246.05712, 74.15633, 6.28092956, 6.35006570, 72.3497924],
    "a_loss_of_a_layer": [1.7460391521453857, 1.6175920963287354],
}
"""What Keras on JAX gives for the same programs."""


@pytest.fixture
def results(tmp_path_factory):
    """What the programs return, by engine: run once for all test processes."""
    shared = tmp_path_factory.getbasetemp()
    if shared.name.startswith("popen-"):  # That of one of the processes of pytest-xdist.
        shared = shared.parent
    folder = shared / "keras3-user-programs"

    def found(engine):
        file = folder / f"{engine}.json"
        with locked(file.with_suffix(".lock")):
            if not file.exists():
                own = folder / engine
                own.mkdir()
                run(
                    sys.executable, HERE / "user_programs.py", file,
                    backend=f"backplane.{engine}", folder=own, PYTHONWARNINGS="ignore",
                )  # fmt: skip
        return json.loads(file.read_text())

    return found


@pytest.mark.slow
def test_programs_of_users_give_the_same_numbers_on_each_engine(results, engine):
    found, wanted = results(engine.name), results("numpy")
    for program in SAME:
        assert "value" in found[program], found[program]["trace"]
        np.testing.assert_allclose(
            found[program]["value"], wanted[program]["value"], rtol=2e-4, err_msg=program
        )


@pytest.mark.slow
def test_programs_of_users_give_the_numbers_of_keras_on_jax(results, engine):
    found = results(engine.name)
    for program, wanted in ON_JAX.items():
        assert "value" in found[program], found[program]["trace"]
        np.testing.assert_allclose(found[program]["value"], wanted, rtol=1e-5, err_msg=program)


@pytest.mark.slow
def test_losses_of_a_step_of_the_user_fall(results):
    first, second, *_ = results("numpy")["triplets"]["value"]
    assert second < first


@pytest.mark.slow
def test_programs_of_users_compute_what_they_say(results, engine):
    found = results(engine.name)
    for program, value in VALUES.items():
        assert found[program].get("value") == value, found[program]


@pytest.mark.slow
def test_errors_in_programs_of_users_say_what_to_write(results, engine):
    found = results(engine.name)
    for program, parts in ERRORS.items():
        for part in parts:
            assert part in found[program]["error"], (program, part)
    for program, parts in ERRORS_OF_ENGINES.items():
        for part in parts:
            assert part.format(engine.name) in found[program]["error"], (program, part)


@pytest.mark.slow
def test_errors_of_running_steps_name_the_layer(results):
    """Not every engine's library refuses such an index; the words are the same."""
    found = results("numpy")["an_index_beyond"]["error"]
    assert found.startswith("IndexError")
    assert "/tokens' on the engine 'numpy'" in found
