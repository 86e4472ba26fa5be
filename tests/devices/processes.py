"""Processes that see several virtual devices of one processor."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

import waiting
from interop.environments import locked
from lean import lean

TESTS = Path(__file__).parents[1]


def found_on(
    engine: str, start: str, factory: pytest.TempPathFactory, **env: str
) -> dict[str, str]:
    """What the checks say in a process that begins with the lines `start`: run once for all
    test processes.
    """
    shared = factory.getbasetemp()
    if shared.name.startswith("popen-"):  # That of one of the processes of pytest-xdist.
        shared = shared.parent
    file = shared / f"devices-{engine}.json"
    with locked(shared / f"devices-{engine}.lock"):
        if not file.exists():
            path = os.pathsep.join([str(TESTS), *sys.path])
            env = lean({**os.environ, "KERAS_BACKEND": "numpy", "PYTHONPATH": path, **env})
            lines = f"{start}\nfrom devices import checks\nchecks.main({engine!r}, {str(file)!r})"
            done = waiting.run([sys.executable, "-c", lines], env=env)
            assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
    return found
