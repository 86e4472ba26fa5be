"""Exported models of Keras 3 in plain ONNX Runtime."""

import pytest

from backplane import engines
from keras3.outcomes import names

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


def pytest_generate_tests(metafunc):  # pytest finds it in the module
    if "on" in metafunc.fixturenames:
        given = metafunc.config.getoption("--engines")
        chosen = given.split(",") if given else [n for n in engines.names() if engines.installed(n)]
        metafunc.parametrize("on", [
            name if name == "numpy" else pytest.param(name, marks=pytest.mark.slow)
            for name in chosen
        ])  # fmt: skip


@pytest.mark.parametrize("name", names("export_programs", "MODELS"))
def test_an_exported_model_predicts_what_keras_predicts(outcomes, name, on):
    """Its inputs and outputs have names of their own."""
    worst, inputs, outputs = outcomes.value("export_programs", name, on)
    assert worst < ROUNDED.get(name, 2e-5)
    if name in NAMED:
        assert NAMED[name] == (inputs, outputs)
