"""Exported models of Keras 3 in plain ONNX Runtime."""

import re
from pathlib import Path

import pytest

from backplane import engines
from interop.environments import returned, shared_folder

FILE = Path(__file__).parent / "export_programs.py"
NAMES = re.findall(r"\w+", re.search(r"^MODELS = \[(.*?)\]", FILE.read_text(), re.S | re.M)[1])
"""Importing the module would import Keras."""
ROUNDED = {"half": 2e-2, "functions": 1e-4}
"""Models whose results have fewer digits, or are large."""
NAMED = {
    "several": (["first", "second"], ["product", "sum"]),
    "named": (["a", "b"], ["output_0"]),
    "subclassed": (["input_0"], ["output_0"]),
    "keyed": (["rows", "words"], ["kind", "score"]),
    "keyed_subclass": (["left", "right"], ["output_0"]),
}
"""Names of inputs and outputs. They are the keys of dicts, unless one would occur twice."""


@pytest.fixture
def exported(tmp_path_factory):
    """Differences from `predict` and names, by model; found once for all test processes."""

    def found(engine):
        folder = shared_folder(tmp_path_factory) / "keras3-exports" / engine
        return returned(folder, FILE, folder, backend=f"backplane.{engine}")

    return found


def pytest_generate_tests(metafunc):  # pytest finds it in the module
    if "on" in metafunc.fixturenames:
        given = metafunc.config.getoption("--engines")
        names = given.split(",") if given else [n for n in engines.names() if engines.installed(n)]
        metafunc.parametrize("on", [
            name if name == "numpy" else pytest.param(name, marks=pytest.mark.slow)
            for name in names
        ])  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_an_exported_model_predicts_what_keras_predicts(exported, name, on):
    found = exported(on)[name]
    assert not isinstance(found, str), found
    worst, inputs, outputs = found
    assert worst < ROUNDED.get(name, 2e-5)
    if name in NAMED:
        assert NAMED[name] == (inputs, outputs)
