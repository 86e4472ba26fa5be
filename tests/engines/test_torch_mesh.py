"""PyTorch over meshes: of several processes on this machine."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from mesh.checks import BY_GRID, BY_ROWS, OTHERS
from mesh.processes import free_port, run_all

SETTINGS = {"OMP_NUM_THREADS": "1"}

THREADS = "one_function_in_two_threads"
"""Processes must make the same calls in the same order, so they cannot call in two threads."""


def in_processes(count, *arguments, limit=300.0, **settings):
    """Run `mesh.torch_process` in so many processes of one mesh."""
    address = f"127.0.0.1:{free_port()}"
    commands = [
        ["-m", "mesh.torch_process", address, str(count), str(i), *map(str, arguments)]
        for i in range(count)
    ]
    return run_all(commands, {**SETTINGS, **settings}, limit)


def check(count, task, folder, *names, **settings):
    """What fails of a task in any of the processes."""
    ended = in_processes(count, task, folder / "found", *names, **settings)
    for process in ended:
        assert process.code == 0, process.output
    for i in range(count):
        for name, failure in json.loads((folder / f"found-{i}").read_text()).items():
            assert not failure, f"{name} in process {i}: {failure}"


@pytest.mark.slow
def test_every_case_with_operands_in_parts(tmp_path):
    check(2, "cases", tmp_path)


def test_in_two_processes(tmp_path):
    check(2, "processes", tmp_path)


@pytest.mark.slow
def test_in_four_processes(tmp_path):
    names = [name for name in (*BY_ROWS, *BY_GRID, *OTHERS) if name != THREADS]
    check(4, "checks", tmp_path, *names, MESH_DEVICES="4")


def losses(folder, process):
    """The losses that a process has written, by step."""
    lines = (folder / f"losses-{process}").read_text().splitlines()
    return {int(line.split()[0]): float(line.split()[1]) for line in lines}


def check_losses(folder, count):
    """Those of 20 steps are the ones of a single process."""
    alone = folder / "alone"
    alone.mkdir()
    in_processes(1, "train", alone, 20)
    expected = losses(alone, 0)
    for i in range(count):
        found = losses(folder, i)
        np.testing.assert_allclose(
            [found[step] for step in range(20)], [expected[s] for s in range(20)], rtol=1e-5
        )


@pytest.mark.slow
def test_a_process_that_dies_ends_the_others_and_the_run_goes_on(tmp_path):
    ended = in_processes(4, "train", tmp_path, 20, 2, 12)
    assert [process.code != 0 for process in ended] == [True] * 4
    for i in (0, 1, 3):
        assert "another process of the mesh has ended" in ended[i].output
        # Measured on two busy cores: 8 s, most of them for the end of Python.
        assert ended[i].at - ended[2].at < 60
    assert max(losses(tmp_path, 1)) == 11
    for process in in_processes(4, "train", tmp_path, 20):  # from the state after ten steps
        assert process.code == 0, process.output
    check_losses(tmp_path, 4)


@pytest.mark.slow
def test_torchrun_starts_again_what_has_died(tmp_path):
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--max-restarts", "1"]
    work = ["-m", "mesh.torch_process", "train", str(tmp_path), "20", "1", "12"]
    (ended,) = run_all([[*launcher, "--master-port", str(free_port()), *work]], SETTINGS, 300)
    assert ended.code == 0, ended.output
    check_losses(tmp_path, 2)


@pytest.mark.slow
def test_the_script_of_the_docs(tmp_path):
    text = (Path(__file__).parents[2] / "docs" / "torch.md").read_text()
    blocks = r"```python\n(import os\n.*?)```.*?\$ torchrun .*?\n(.*?)```"
    script, shown = re.search(blocks, text, re.DOTALL).groups()
    (tmp_path / "train.py").write_text(script)
    command = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port"]
    (ended,) = run_all(
        [[*command, str(free_port()), str(tmp_path / "train.py")]],
        {**SETTINGS, "KERAS_BACKEND": "torch"},
        120,
    )
    assert ended.output.endswith(shown)
    assert ended.code == 0


def test_without_a_launcher():
    code = "from backplane import backend as K\nK.set_mesh({'batch': 2})"
    (ended,) = run_all([["-c", code]], {"KERAS_BACKEND": "torch"}, 120)
    assert ended.code == 1
    assert "this is a single one. Start them with `torchrun --nproc-per-node 2" in ended.output
