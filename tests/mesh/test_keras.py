"""`keras.distribution` on Backplane, on the meshes of JAX and of PyTorch."""

import json

import numpy as np
import pytest

from mesh.processes import free_port, run_all
from waiting import LIMIT

PROGRAM = ["-W", "ignore", "-m", "mesh.keras_process"]


def results(engine, devices, commands, tmp_path):
    """What the processes found, each for itself."""
    settings = {
        "KERAS_BACKEND": f"backplane.{engine}", "MESH_DEVICES": str(devices),
        "KERAS_HOME": str(tmp_path), "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    for ended in run_all(commands, settings, limit=LIMIT):
        assert ended.code == 0, ended.output
    return [json.loads(file.read_text()) for file in sorted(tmp_path.glob("found-*"))]


def check(found, devices):
    names, *counts = found["devices"]  # JAX numbers those of other processes from 2048 on.
    assert names[0] == "cpu:0"
    assert len(set(names)) == devices
    assert counts == [devices, 0]
    losses, mesh = found["data_parallel"]
    assert mesh == {"batch": devices}
    np.testing.assert_allclose(losses, found["alone"], rtol=1e-5)
    losses, layout, shape, slots = found["model_parallel"]
    np.testing.assert_allclose(losses, found["alone"], rtol=1e-5)
    assert layout == [[], ["model"]]
    assert shape == [6, 8]
    assert slots == 6  # Adam's moments lie as their weights.
    assert str(names) in found["other_devices"]


@pytest.mark.slow
def test_one_process_with_several_devices(tmp_path):
    pytest.importorskip("jax")
    [found] = results("jax", 4, [[*PROGRAM, str(tmp_path / "found")]], tmp_path)
    check(found, 4)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["jax", "torch"])
def test_processes_that_keras_connects(name, tmp_path):
    pytest.importorskip(name)
    address = f"127.0.0.1:{free_port()}"
    commands = [[*PROGRAM, str(tmp_path / "found"), address, "2", str(index)] for index in range(2)]
    first, second = results(name, 1, commands, tmp_path)
    check(first, 2)
    assert second == first


@pytest.mark.slow
def test_processes_that_torchrun_starts(tmp_path):
    pytest.importorskip("torch")
    launch = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port"]
    command = [*launch, str(free_port()), "-m", "mesh.keras_process", str(tmp_path / "found")]
    first, second = results("torch", 1, [command], tmp_path)
    check(first, 2)
    assert second == first


ONE_DEVICE = """
import backplane.keras3, keras
import numpy as np
from keras import distribution as D
print(D.list_devices())
with D.DataParallel().scope():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(np.ones((1, 2)), np.ones((1, 1)), verbose=0)
mesh = D.DeviceMesh((2,), ["batch"], ["cpu:0", "cpu:1"])
for refused in (lambda: mesh.backend_mesh, D.initialize):
    try:
        refused()
    except ValueError as error:
        print(error)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["numpy", "cntk"])
def test_engines_with_one_device(name, tmp_path):
    settings = {"KERAS_BACKEND": f"backplane.{name}", "KERAS_HOME": str(tmp_path)}
    [ended] = run_all([["-W", "ignore", "-c", ONE_DEVICE]], settings, limit=LIMIT)
    assert ended.code == 0, ended.output
    devices, mesh, connection = ended.printed.splitlines()
    assert devices == "['cpu:0']"
    assert "list_devices(), which begins with ['cpu:0']" in mesh
    assert f"the engine {name!r} computes in one process" in connection
