"""Keras' layers on every engine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import waiting
from backplane.engines.base import Engine
from lean import lean

PROGRAM = Path(__file__).with_name("checks_of_layers.py")


def test_layers(engine: Engine, tmp_path: Path) -> None:
    """All checks pass."""
    env = {**os.environ, "KERAS_BACKEND": f"backplane.{engine.name}", "KERAS_HOME": str(tmp_path)}
    ran = waiting.run(
        [sys.executable, str(PROGRAM), str(tmp_path)],
        env=lean(env, "tensorflow"),  # by layers of strings
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
