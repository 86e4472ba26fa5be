"""Real Keras 3 on its three backends: each program runs in a process of its own per backend."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from interop.environments import run

PROGRAMS = Path(__file__).parent / "keras3"
BACKENDS = ("torch", "jax", "tensorflow")


@pytest.fixture
def program(tmp_path):
    """Runs a program on a backend; what it prints, read as JSON."""

    def output(name, backend, *arguments, **environment):
        file = PROGRAMS / f"{name}.py"
        lines = run(
            sys.executable, file, *arguments, backend=backend, folder=tmp_path, **environment
        )
        return json.loads(lines.splitlines()[-1])

    return output


@pytest.mark.parametrize("jit", ["auto", "no", pytest.param("yes", marks=pytest.mark.slow)])
def test_training(program, jit):
    """A custom layer, a Lambda, a loss and a metric; the backends' losses agree."""
    found = {b: program("training", b, jit) for b in BACKENDS if (b, jit) != ("torch", "yes")}
    for values in found.values():
        assert values["loss"][-1] < 0.1 * values["loss"][0]
        np.testing.assert_allclose(values["loss"], found["jax"]["loss"], rtol=1e-4)
        np.testing.assert_allclose(values["error"], found["jax"]["error"], rtol=1e-4)


def test_functions_of_keras_tensors(program, tmp_path):
    """They become nodes of the model, which is saved, loaded, cloned and described with them."""
    found = [program("functional", backend, tmp_path) for backend in BACKENDS]
    for outputs in found[1:]:
        for a, b in zip(outputs, found[0], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5)
