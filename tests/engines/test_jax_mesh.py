"""JAX over meshes: of virtual devices of one processor, and of several processes."""

import json
import re

import numpy as np
import pytest

from backplane import backend as K
from interop.environments import locked
from mesh.checks import BY_GRID, CHECKS, OTHERS
from mesh.forks import Forks
from mesh.jax_process import PATIENCE
from mesh.processes import free_port, run_all
from mesh.train import losses, train

TOLD = "another task died|collective mismatch|onnection (closed|reset)"
"""What JAX writes, or its library for communication, if that notices it first."""

THREADS = "one_function_in_two_threads"
"""Processes must make the same calls in the same order, so they cannot call in two threads."""


def on_devices(count, *commands, limit=300.0, **settings):
    """Run Python with these arguments, in processes that have so many devices each."""
    own = {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": str(count)}
    return run_all(commands, {**own, **settings}, limit)


@pytest.fixture(scope="module")
def forks():
    """Where processes come from."""
    modules = ["mesh.jax_process", "backplane.engines.jax", "pytest"]
    with Forks(*modules, settings={"JAX_PLATFORMS": "cpu"}) as found:
        yield found


def in_processes(forks, count, *arguments, devices=1, limit=300.0, **settings):
    """Run `mesh.jax_process` in so many processes of one mesh."""
    address = f"127.0.0.1:{free_port()}"
    commands = [[address, str(count), str(i), *map(str, arguments)] for i in range(count)]
    return forks.run_all(commands, {"JAX_NUM_CPU_DEVICES": str(devices), **settings}, limit)


@pytest.fixture
def shared(tmp_path_factory):
    """A folder of all test processes."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if base.name.startswith("popen-") else base  # pytest-xdist makes the latter


@pytest.fixture
def found(shared):
    """What the checks say: run once for all test processes."""
    folder = shared / "jax-mesh"
    with locked(shared / "jax-mesh.lock"):
        file = folder / "found.json"
        if not file.exists():
            folder.mkdir(exist_ok=True)
            (ended,) = on_devices(8, ["-W", "error", "-m", "mesh.checks", "jax", str(file)])
            assert ended.code == 0, ended.output
    return json.loads(file.read_text())


@pytest.mark.parametrize("name", CHECKS)
def test_on_eight_devices(name, found):
    assert not found[name], found[name]


def checked(forks, count, folder, names):
    """What the checks say in so many processes, which have eight devices together. They train for
    fewer steps than one process with eight devices, which runs the same programs in the same parts.
    """
    ended = in_processes(
        forks, count, "checks", folder / "found", *names, devices=8 // count, MESH_STEPS="25"
    )
    for process in ended:
        assert process.code == 0, process.output
    for i in range(count):
        for name, failure in json.loads((folder / f"found-{i}").read_text()).items():
            assert not failure, f"{name} in process {i}: {failure}"


FEW = ["values_of_split_variables", "a_state_moves_to_other_meshes"]


def test_in_four_processes(tmp_path, forks):
    checked(forks, 4, tmp_path, FEW)


@pytest.mark.slow
def test_more_in_two_processes(tmp_path, forks):
    """Each compiles the programs of the whole mesh, so two of them take half the time of four."""
    others = [name for name in OTHERS if name not in (*FEW, THREADS)]
    checked(forks, 2, tmp_path, [*BY_GRID, *others])


DONATED = """
import numpy as np
from backplane import backend as K, engines
with K.engine("jax"), K.set_mesh({"batch": 4, "model": 2}):
    x = K.placeholder((None, 4))
    w, b = K.shard(K.ones((4, 6)), (None, "model")), K.zeros((6,))
    loss = K.sum(K.dot(x, w) + b)
    f = K.function([x], [loss], updates=[(v, v - g) for v, g in
                                         zip([w, b], K.gradients(loss, [w, b]))])
    f([np.ones((8, 4))])
    engine = engines.for_programs()
    old = [v.values[engine] for v in (w, b)]
    places = [[part.data.unsafe_buffer_pointer() for part in v.addressable_shards] for v in old]
    f([np.ones((8, 4))])
    new = [v.values[engine] for v in (w, b)]
    print(*[v.is_deleted() for v in old])
    print(*[v.sharding.spec for v in new])
    for v, before in zip(new, places):
        after = [part.data.unsafe_buffer_pointer() for part in v.addressable_shards]
        print(len(after), after == before)
    print(new[0].addressable_shards[0].data.shape)
    print(engine.gathers._operations)
"""


def test_memory_is_donated_and_layouts_stay():
    """The new value of a split variable lies in the memory of the old one, on each device. What was
    noted while the program was traced is gone.
    """
    (ended,) = on_devices(8, ["-c", DONATED])
    assert ended.printed.splitlines() == [
        "True True", "P(None, 'model') P()", "8 True", "8 True", "(4, 3)", "{}",
    ]  # fmt: skip


SMALLER = """
import numpy as np
from backplane import backend as K
with K.engine("jax"):
    for i, size in enumerate((4, 2, 1)):
        with K.set_mesh({"batch": size}):
            w = K.shard(K.variable(np.arange(8.0), name="w"), ("batch",))
            if i:
                K.load_state("state", {"w": w})
            K.function([], [], updates=[K.update_add(w, K.ones((8,)))])([])
            K.save_state("state", {"w": w})
    print(*K.get_value(w))
"""


def test_a_state_moves_to_smaller_meshes(tmp_path):
    (ended,) = on_devices(4, ["-c", f"import os; os.chdir({str(tmp_path)!r})" + SMALLER])
    assert ended.printed.splitlines()[-1] == " ".join(str(n + 3.0) for n in range(8))


UNUSED = """
import sys
from backplane import backend as K
with K.engine("jax"):
    x = K.placeholder((None, 2))
    K.function([x], [K.sum(x)], updates=[K.update_add(K.zeros(()), 1.0)])([[[1.0, 2.0]]])
print([name for name in sys.modules if name.startswith("backplane.engines") and
       name.rpartition(".")[2] in ("sharding", "gathers", "layouts")])
"""


def test_without_a_mesh_nothing_of_it_is_imported():
    (ended,) = on_devices(1, ["-c", UNUSED])
    assert ended.printed.splitlines()[-1] == "[]"


def check_ends(forks, folder, count, dying, *how):
    """One of the processes dies before the step 12, and the others say so."""
    ended = in_processes(forks, count, "train", folder, 20, dying, 12, *how)
    assert [process.code != 0 for process in ended] == [True] * count
    died = (folder / "dies").stat().st_mtime
    for i, process in enumerate(ended):
        if i != dying:
            assert re.search(TOLD, process.output), process.output
            # Measured: 0.2 s after the first process has died, PATIENCE + 0.7 after another.
            assert process.at - died < PATIENCE + 20
    assert max(losses(folder, 1)) == 11


@pytest.mark.slow
@pytest.mark.parametrize(("count", "dying", "going_on"), [(2, 0, 2), (4, 2, 2)])
def test_a_process_that_dies_ends_the_others_and_the_run_goes_on(
    tmp_path, forks, count, dying, going_on
):
    alone, together = tmp_path / "alone", tmp_path / "together"
    for folder in (alone, together):
        folder.mkdir()
    with K.engine("jax"):
        train(1, alone, 0, 20)
    check_ends(forks, together, count, dying)
    # From the state after ten steps.
    for process in in_processes(forks, going_on, "train", together, 20):
        assert process.code == 0, process.output
    expected = losses(alone, 0)
    for i in range(going_on):
        found = losses(together, i)
        np.testing.assert_allclose(
            [found[step] for step in range(20)], [expected[s] for s in range(20)], rtol=1e-5
        )


@pytest.mark.slow
def test_an_error_of_one_process_ends_the_others(tmp_path, forks):
    check_ends(forks, tmp_path, 2, 1, "raises")


def test_processes_with_different_programs_or_meshes_are_told(tmp_path):
    script = """
import sys, jax, numpy as np
address, index = sys.argv[1], int(sys.argv[2])
jax.distributed.initialize(address, 2, index)
from backplane import backend as K
def failure(call):
    try:
        call()
    except ValueError as error:
        return str(error)
x = K.placeholder((None, 2))
with K.engine("jax"):
    print(failure(lambda: K.set_mesh({"batch": 1 + index, "model": 2 - index})))
    K.set_mesh({"batch": 2})
    f = K.function([x], [K.sum(x) if index else K.mean(x)])
    print(failure(lambda: f([np.ones((2, 2))])))
"""
    file = tmp_path / "script.py"
    file.write_text(script)
    address = f"127.0.0.1:{free_port()}"
    for process in on_devices(1, *[[str(file), address, str(i)] for i in range(2)]):
        assert process.code == 0, process.output
        assert "K.set_mesh: the mesh differs between process" in process.output
        assert "the program of a function differs between process" in process.output
