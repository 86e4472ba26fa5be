"""JAX over meshes of virtual devices of one processor."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from interop.environments import locked
from mesh.checks import CHECKS

TESTS = Path(__file__).parents[1]


def on_devices(count, *arguments, **options):
    """Run a module in a process that sees so many devices."""
    env = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "JAX_NUM_CPU_DEVICES": str(count),
        "KERAS_BACKEND": "numpy",
        "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]),
    }
    command = [sys.executable, "-W", "error", *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, **options)


@pytest.fixture
def found(tmp_path_factory):
    """What the checks say: run once for all test processes."""
    shared = tmp_path_factory.getbasetemp()
    if shared.name.startswith("popen-"):  # That of one of the processes of pytest-xdist.
        shared = shared.parent
    folder = shared / "jax-mesh"
    with locked(shared / "jax-mesh.lock"):
        file = folder / "found.json"
        if not file.exists():
            folder.mkdir(exist_ok=True)
            done = on_devices(8, "-m", "mesh.checks", "jax", str(file))
            assert done.returncode == 0, done.stderr
    return json.loads(file.read_text())


@pytest.mark.parametrize("name", CHECKS)
def test_on_eight_devices(name, found):
    assert not found[name], found[name]
