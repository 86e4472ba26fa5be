"""What users of Keras 3 write besides the plain loop."""

import numpy as np
import pytest

MODULE = "user_programs"

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


@pytest.mark.slow
def test_programs_of_users_give_the_same_numbers_on_each_engine(outcomes, engine):
    for program in SAME:
        found, wanted = [outcomes.value(MODULE, program, on) for on in (engine.name, "numpy")]
        np.testing.assert_allclose(found, wanted, rtol=2e-4, err_msg=program)


@pytest.mark.slow
def test_programs_of_users_give_the_numbers_of_keras_on_jax(outcomes, engine):
    for program, wanted in ON_JAX.items():
        found = outcomes.value(MODULE, program, engine.name)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, err_msg=program)


@pytest.mark.slow
def test_losses_of_a_step_of_the_user_fall(outcomes):
    first, second, *_ = outcomes.value(MODULE, "triplets", "numpy")
    assert second < first


@pytest.mark.slow
def test_programs_of_users_compute_what_they_say(outcomes, engine):
    for program, wanted in VALUES.items():
        assert outcomes.value(MODULE, program, engine.name) == wanted


@pytest.mark.slow
def test_errors_in_programs_of_users_say_what_to_write(outcomes, engine):
    found = outcomes(MODULE, engine.name)
    for program, parts in ERRORS.items():
        for part in parts:
            assert part in found[program]["error"], (program, part)
    for program, parts in ERRORS_OF_ENGINES.items():
        for part in parts:
            assert part.format(engine.name) in found[program]["error"], (program, part)


@pytest.mark.slow
def test_errors_of_running_steps_name_the_layer(outcomes):
    """Not every engine's library refuses such an index; the words are the same."""
    found = outcomes(MODULE, "numpy")["an_index_beyond"]["error"]
    assert found.startswith("IndexError")
    assert "/tokens' on the engine 'numpy'" in found
