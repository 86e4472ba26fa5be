"""PyTorch over meshes of processes on one machine."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

TESTS = Path(__file__).parents[1]


def environment(**more):
    """That of a process which is to import the tests."""
    path = os.pathsep.join([str(TESTS), *sys.path])
    threads = {"OMP_NUM_THREADS": "1", "KERAS_BACKEND": "numpy"}
    return {**os.environ, **threads, "PYTHONPATH": path, **more}


def torchrun(count, *arguments, **more):
    """Run a module in so many processes."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(count)]
    command = [*launcher, "--master-port", "0", "-m", *arguments]
    return subprocess.run(
        command, env=environment(**more), capture_output=True, text=True, check=False
    )


def failures(file, count, *names, **more):
    """What the tasks of `mesh.torch_processes` say."""
    done = torchrun(count, "mesh.torch_processes", str(file), *names, **more)
    assert done.returncode == 0, done.stderr
    return {name: told for name, told in json.loads(file.read_text()).items() if told}


def test_all_cases_with_operands_in_parts(tmp_path):
    failed = failures(tmp_path / "found.json", 2, "cases", "processes")
    assert not failed, "\n".join([name + "\n" + told[0] for name, told in failed.items()])
