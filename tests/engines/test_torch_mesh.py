"""PyTorch over meshes: of several processes on this machine."""

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

import waiting

pytest.importorskip("torch")

from backplane import backend as K
from interop.environments import python_with
from interop.test_classic import LATEST
from mesh.checks import BY_GRID, BY_ROWS, OTHERS
from mesh.forks import Forks
from mesh.processes import free_port, run_all
from mesh.train import losses, train

SETTINGS = {"OMP_NUM_THREADS": "1"}

THREADS = "one_function_in_two_threads"
"""Processes must make the same calls in the same order, so they cannot call in two threads."""


@pytest.fixture(scope="module")
def forks():
    """Where processes come from."""
    # DTensor imports `torch._dynamo` when it first makes a tensor.
    with Forks("mesh.torch_process", "torch._dynamo", "pytest", settings=SETTINGS) as found:
        yield found


def in_processes(forks, count, *arguments, limit=300.0, **settings):
    """Run `mesh.torch_process` in so many processes of one mesh."""
    address = f"127.0.0.1:{free_port()}"
    commands = [[address, str(count), str(i), *map(str, arguments)] for i in range(count)]
    return forks.run_all(commands, settings, limit)


def check(forks, count, task, folder, *names, **settings):
    """What fails of a task in any of the processes."""
    ended = in_processes(forks, count, task, folder / "found", *names, **settings)
    for process in ended:
        assert process.code == 0, process.output
    for i in range(count):
        for name, failure in json.loads((folder / f"found-{i}").read_text()).items():
            assert not failure, f"{name} in process {i}: {failure}"


@pytest.mark.slow
def test_every_case_with_operands_in_parts(tmp_path, forks):
    check(forks, 2, "cases", tmp_path)


def test_in_two_processes(tmp_path, forks):
    check(forks, 2, "processes", tmp_path)


@pytest.mark.slow
def test_in_four_processes(tmp_path, forks):
    names = [name for name in (*BY_ROWS, *BY_GRID, *OTHERS) if name != THREADS]
    check(forks, 4, "checks", tmp_path, *names, MESH_DEVICES="4", MESH_STEPS="10")


def check_losses(folder, count):
    """Those of 20 steps are the ones of a single process."""
    alone = folder / "alone"
    alone.mkdir()
    with K.engine("torch"):
        train(1, alone, 0, 20)
    expected = losses(alone, 0)
    for i in range(count):
        found = losses(folder, i)
        np.testing.assert_allclose(
            [found[step] for step in range(20)], [expected[s] for s in range(20)], rtol=1e-5
        )


@pytest.mark.slow
def test_a_process_that_dies_ends_the_others_and_fewer_go_on(tmp_path, forks):
    ended = in_processes(forks, 4, "train", tmp_path, 20, 2, 12)
    assert [process.code != 0 for process in ended] == [True] * 4
    for i in (0, 1, 3):
        assert "another process of the mesh has ended" in ended[i].output
        # Measured on two busy cores: 8 s, most of them for the end of Python.
        assert ended[i].at - ended[2].at < 60
    assert max(losses(tmp_path, 1)) == 11
    for process in in_processes(forks, 2, "train", tmp_path, 20):  # from the state after ten steps
        assert process.code == 0, process.output
    check_losses(tmp_path, 2)


@pytest.mark.slow
def test_torchrun_starts_again_what_has_died(tmp_path):
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--max-restarts", "1"]
    work = ["-m", "mesh.torch_process", "train", str(tmp_path), "20", "1", "12"]
    (ended,) = run_all([[*launcher, "--master-port", str(free_port()), *work]], SETTINGS, 300)
    assert ended.code == 0, ended.output
    check_losses(tmp_path, 2)


CLASSIC = """
import json, os, sys
sys.modules["tensorflow"] = None
import backplane.interop.classic
import numpy as np
from keras import backend as K
from keras.layers import BatchNormalization, Dense, Dropout
from keras.models import Sequential

def train(mesh):
    K.set_random_seed(1, portable=True)
    K.set_mesh(mesh)
    rng = np.random.RandomState(0)
    x, y = rng.normal(size=(43, 6)), rng.normal(size=(43, 2))
    model = Sequential([Dense(16, input_shape=(6,)), BatchNormalization(), Dropout(0.2), Dense(2)])
    model.set_weights([rng.normal(size=w.shape) ** 2 * 0.1 for w in model.get_weights()])
    model.compile("adam", "mse")
    losses = model.fit(x, y, batch_size=16, epochs=5, shuffle=False, verbose=0).history["loss"]
    return [float(n) for n in [*losses, model.evaluate(x, y, verbose=0), model.predict(x).sum()]]

found = train(None), train({"batch": 2})
if os.environ["RANK"] == "0":
    print(json.dumps(found))
"""


@pytest.mark.slow
def test_a_model_of_classic_keras(tmp_path):
    """By one line before `compile`. The last batch of 11 cannot be split, and goes to all."""
    (tmp_path / "train.py").write_text(CLASSIC)
    (tmp_path / "home").mkdir()  # Two processes of classic Keras must not both make it.
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port"]
    done = waiting.run(
        [python_with(LATEST), "-W", "ignore", *launcher, str(free_port()), tmp_path / "train.py"],
        env={**os.environ, **SETTINGS, "KERAS_BACKEND": "backplane.torch", "KERAS_HOME": "home"},
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    alone, spread = json.loads(done.stdout.splitlines()[-1])
    np.testing.assert_allclose(spread, alone, rtol=1e-4)


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
        300,
    )
    assert ended.code == 0, ended.output
    assert shown in ended.printed, ended.errors


def test_without_a_launcher():
    code = """
import sys
from backplane import backend as K
with K.set_mesh({"batch": 1}):
    K.eval(K.ones((2,)) * K.variable(2.0))
assert "torch.distributed.tensor" not in sys.modules  # A single process needs none of it.
K.set_mesh({"batch": 2})
"""
    (ended,) = run_all([["-c", code]], {"KERAS_BACKEND": "torch"}, 120)
    assert ended.code == 1
    assert "this is a single one. Start them with `torchrun --nproc-per-node 2" in ended.output
