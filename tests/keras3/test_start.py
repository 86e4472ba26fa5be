"""How Keras finds Backplane: the file of the wheel that Python reads at its start, and the notice
about what a newer Keras asks for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from backplane.keras3 import inventory

SOURCES = Path(__file__).parents[2] / "src"


@pytest.mark.slow
def test_the_wheel_needs_no_import_before_keras(tmp_path):
    """What `site` does with the folder into which a wheel is installed."""
    (tmp_path / "keras_backplane.pth").write_text((SOURCES / "keras_backplane.pth").read_text())
    program = (
        f"import site, sys; site.addsitedir({str(tmp_path)!r});"
        "assert 'backplane' not in sys.modules; import keras;"
        "print(keras.backend.backend(), float(keras.ops.sum([1.0, 2.0])))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True,
        env={**os.environ, "KERAS_BACKEND": "backplane.numpy", "KERAS_HOME": str(tmp_path)},
    )  # fmt: skip
    assert done.stdout.split() == ["backplane", "3.0"], done.stderr


def test_the_file_of_the_wheel_does_nothing_without_the_variable(monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    before = list(sys.meta_path)
    exec((SOURCES / "keras_backplane.pth").read_text())
    assert sys.meta_path == before
    assert "keras_backplane.start" not in sys.modules


def test_nothing_is_lacking():
    assert inventory.lacking() == {}
    assert inventory.notice("9.9") == ""


def test_a_newer_keras_is_told_of(monkeypatch):
    monkeypatch.setattr(inventory, "lacking", lambda: {"numpy": ["foo"], "nn": ["bar"]})
    assert inventory.notice(inventory.TESTED) == ""
    told = inventory.notice("9.9")
    assert "Keras 9.9" in told
    assert "numpy.foo, nn.bar" in told
