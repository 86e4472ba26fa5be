"""Options of `fit` and its relatives: the numbers are those of Keras on JAX."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from interop.environments import run
from keras3.outcomes import KERAS_ON_JAX, names

HERE = Path(__file__).parent


def assert_close(found, wanted, where):
    """Nests of lists and dicts are equal, apart from the last digits of their numbers."""
    if isinstance(wanted, dict):
        assert found.keys() == wanted.keys(), where
        found, wanted = list(found.values()), [wanted[key] for key in found]
    if isinstance(wanted, list):
        assert len(found) == len(wanted), where
        for i, (one, other) in enumerate(zip(found, wanted, strict=True)):
            assert_close(one, other, f"{where}[{i}]")
    else:
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5, err_msg=where)


@pytest.mark.slow
@pytest.mark.parametrize("name", names("training_programs", "NUMBERS"))
def test_training_gives_the_numbers_of_keras_on_jax(outcomes, engine, name):
    wanted = outcomes.value("training_programs", name, KERAS_ON_JAX)
    assert_close(outcomes.value("training_programs", name, engine.name), wanted, name)


@pytest.mark.slow
def test_logs_count_masks_and_weights(outcomes, engine):
    """Those of `fit`, too. Keras on JAX loses masks there, where it takes gradients."""
    for fit, held, wanted in outcomes.value("training_programs", "logs_under_masks", KERAS_ON_JAX):
        assert_close(held, wanted, "jax")
        assert not np.isclose(fit["a_mse"], wanted["a_mse"], rtol=0.01)
    for fit, held, wanted in outcomes.value("training_programs", "logs_under_masks", engine.name):
        assert_close(fit, wanted, "fit")
        assert_close(held, wanted, "evaluate")


@pytest.mark.slow
def test_ends_of_data_warn_where_the_user_asked_for_more(outcomes, engine):
    """As in Keras on JAX; the warning belongs to the line of the user."""
    on_jax = outcomes.value("training_programs", "ends_of_data", KERAS_ON_JAX)
    found = outcomes.value("training_programs", "ends_of_data", engine.name)
    assert [x[:3] for x in found] == [x[:3] for x in on_jax] == [[3, 0, 1]] * 4
    assert all(places == ["training_programs.py"] for *_, places in found)


@pytest.mark.slow
def test_several_steps_at_once_change_no_weight(outcomes, engine):
    found = outcomes("training_programs", engine.name)
    for name in ("several_steps", "steps_of_generators"):
        first, *others = [weights for _, _, weights in found[name]["value"]]
        for weights in others:
            assert weights == first, name


@pytest.mark.slow
def test_a_run_that_is_killed_goes_on_with_the_same_losses(tmp_path, engine):
    """Within an epoch, and twice."""
    whole = tmp_path / "whole.json"

    def losses(epoch):
        given = [sys.executable, HERE / "killed_program.py", tmp_path / "killed", epoch, whole]
        return json.loads(run(*given, backend=f"backplane.{engine.name}", folder=tmp_path))

    for epoch in 1, 3:
        with pytest.raises(AssertionError):
            losses(epoch)
    wanted = json.loads(whole.read_text())
    assert len(wanted) == 5
    assert losses(9) == wanted[3:]
