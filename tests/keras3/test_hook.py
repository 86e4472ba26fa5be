"""The places in Keras' modules where this backend is added, in the forms that releases have."""

from __future__ import annotations

import ast

import pytest

from backplane.keras3 import hook

EQUAL = """
def export_onnx(model, filepath, input_signature=None, opset_version=None):
    if backend.backend() == "tensorflow":
        tensorflow()
    elif backend.backend() == "torch":
        torch()
    else:
        raise NotImplementedError("no")
"""
AMONG = EQUAL.replace('== "tensorflow"', 'in ("tensorflow", "jax")')
NAMED = EQUAL.replace("opset_version=None", "opset_version=None, input_names=('x',)")


@pytest.mark.parametrize("text", [EQUAL, AMONG, NAMED])
def test_the_export_of_each_release_gets_a_branch(text, monkeypatch):
    tree = ast.parse(text)
    assert hook._extend_onnx(tree)
    asked = []
    backend = type("backend", (), {"backend": staticmethod(lambda: "backplane")})
    export = type(hook)(f"{hook.PREFIX}.export")
    export.export_onnx = lambda *given: asked.append(given)
    for name in ("keras", "keras.src", "keras.src.backend", hook.PREFIX):
        monkeypatch.setitem(hook.sys.modules, name, type(hook)(name))
    monkeypatch.setitem(hook.sys.modules, export.__name__, export)
    names = {"backend": backend}
    exec(compile(ast.fix_missing_locations(tree), "onnx.py", "exec"), names)
    names["export_onnx"]("model", "file", ["spec"])
    assert asked == [("model", "file", ["spec"], ("x",) if text is NAMED else None, None)]


def test_a_chain_without_an_error_at_its_end_is_not_known():
    assert not hook._extend_onnx(ast.parse(EQUAL.replace("raise NotImplementedError", "print")))
