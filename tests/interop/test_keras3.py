"""Real Keras 3 on its three backends: the programs run in one process per backend."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from backplane.engines import installed
from interop.environments import locked, run, shared_folder

SCRIPTS = Path(__file__).parent / "keras3"
BACKENDS = ("torch", "jax", "tensorflow")


def programs():
    """The names in the lists PROGRAMS; importing the modules would import Keras."""
    lists = [
        re.search(r"^PROGRAMS = \[(.*?)\]", (SCRIPTS / f"{name}.py").read_text(), re.S | re.M)[1]
        for name in ("models", "graphs", "behaviour")
    ]
    return re.findall(r"\w+", " ".join(lists))


@pytest.fixture
def results(tmp_path_factory):
    """What the programs return, by backend: run once for all test processes."""
    shared = shared_folder(tmp_path_factory)

    def found(backend):
        file = shared / f"keras3-{backend}.json"
        with locked(file.with_suffix(".lock")):
            if not file.exists():
                folder = tmp_path_factory.mktemp("keras3")
                run(
                    sys.executable, SCRIPTS / "run.py", file, folder,
                    backend=backend, folder=folder, PYTHONWARNINGS="ignore",
                )  # fmt: skip
        return json.loads(file.read_text())

    return found


ON_EACH_BACKEND = pytest.mark.parametrize(
    "backend", [BACKENDS[0], *[pytest.param(b, marks=pytest.mark.slow) for b in BACKENDS[1:]]]
)


def value(results, program, backend):
    """What a program returns."""
    found = results(backend)[program]
    assert "value" in found, found.get("error")
    return found["value"]


@ON_EACH_BACKEND
@pytest.mark.parametrize("program", programs())
def test_program(results, program, backend):
    value(results, program, backend)


@pytest.mark.slow
@pytest.mark.parametrize("program", programs())
def test_backends_agree(results, program):
    values = [results(backend)[program].get("value") for backend in BACKENDS]
    first, *others = [_numbers(value) for value in values]
    for other in others:
        np.testing.assert_allclose(other, first, rtol=2e-4, atol=1e-5)


def _numbers(value):
    if isinstance(value, list):
        return [number for item in value for number in _numbers(item)]
    return [] if value is None else [value]


@ON_EACH_BACKEND
def test_every_function(results, backend):
    """In a model and in a layer, with the numbers, shapes and dtypes of the NumPy engine."""
    found = value(results, "every_function", backend)
    assert len(found["compared"]) > 80
    assert not found["failures"], "\n".join(found["failures"].values())


@pytest.mark.skipif(not installed("cntk"), reason="without ONNX Runtime")
@ON_EACH_BACKEND
def test_layers_as_onnx_models(results, backend):
    found = value(results, "layers_as_onnx_models", backend)
    assert found["compared"] > 80
    assert not found["failures"], "\n".join(found["failures"].values())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["torch", "jax"])
def test_one_keras_json_serves_both(tmp_path, name):
    """Keras 3's own file, with a key that is only its own."""
    settings = {"backend": name, "floatx": "float64", "nnx_enabled": False}
    (tmp_path / "keras.json").write_text(json.dumps(settings))
    script = tmp_path / "script.py"
    script.write_text(
        "import keras\nfrom backplane import backend as K\n"
        "print(keras.backend.backend(), K.backend(), keras.backend.floatx(), K.floatx())"
    )
    printed = run(sys.executable, script, backend="", folder=tmp_path)
    assert printed == f"{name} {name} float64 float64\n"
