"""One process of a mesh, which measures something: `python -m benchmarks.scaling.worker` with a
JSON object of the arguments of a `Task`. The last line that it prints is the result, as JSON.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.scaling.cost import FLOAT, Network


class Task(NamedTuple):
    """What a process is to do."""

    engine: str
    port: int
    processes: int
    index: int
    mesh: dict[str, int] | None
    do: str
    arguments: dict[str, Any]


def start(task: Task) -> None:
    """Keep to one core, and connect with the other processes, as users of the library do."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[task.index % len(cores)]})
    if task.processes == 1 or task.mesh is None:
        return
    if task.engine == "jax":
        import jax

        jax.distributed.initialize(f"127.0.0.1:{task.port}", task.processes, task.index)
    else:
        os.environ.update(
            MASTER_ADDR="127.0.0.1", MASTER_PORT=str(task.port),
            WORLD_SIZE=str(task.processes), RANK=str(task.index),
        )  # fmt: skip


class Times(NamedTuple):
    """Seconds of a call."""

    fastest: float
    """Others may use the machine too."""
    median: float
    processor: float
    """The fewest of the processor."""


def timed(run: Any, times: int = 15) -> Times:
    """How long calls take, after one that does not count."""
    found = []
    for _ in range(times + 1):
        begin = time.perf_counter(), time.process_time()
        run()
        found.append((time.perf_counter() - begin[0], time.process_time() - begin[1]))
    walls, processor = zip(*found[1:], strict=True)
    return Times(min(walls), statistics.median(walls), min(processor))


def meet(folder: str, processes: int) -> None:
    """Wait until so many processes are here."""
    Path(folder, str(os.getpid())).touch()
    while len(os.listdir(folder)) < processes:
        time.sleep(0.01)


def dense(network: Network, layouts: bool) -> tuple[Any, Any]:
    """The function that trains a network by Adam, and its placeholder. With `layouts`, weights and
    moments are split by the axis `model`, by columns and by rows in turn.
    """
    from backplane import backend as K

    def made(value: np.ndarray, i: int) -> Any:
        layout = ("model", None) if i % 2 else (None, "model")
        return K.shard(K.variable(value), layout) if layouts else K.variable(value)

    size, rng = (network.width, network.width), np.random.default_rng(0)
    x = h = K.placeholder((None, network.width))
    weights = [made(rng.normal(size=size) / network.width, i) for i in range(network.layers)]
    for w in weights:
        h = K.relu(K.dot(h, w))
    loss, updates = K.mean(K.square(h)), []
    for i, (w, g) in enumerate(zip(weights, K.gradients(loss, weights), strict=True)):
        m, v = made(np.zeros(size), i), made(np.zeros(size), i)
        new_m, new_v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * K.square(g)
        step = 0.001 * new_m / (K.sqrt(new_v) + 1e-7)
        updates += [(m, new_m), (v, new_v), (w, w - step)]
    return K.function([x], [loss], updates=updates), x


def train(
    width: int, layers: int, rows: int, layouts: bool = False, beside: tuple[str, int] | None = None
) -> dict[str, float]:
    """Seconds of a step on `rows` in all, and the bytes by which the process has grown. `beside` is
    a folder in which so many processes meet, each of which trains for itself.
    """
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run, _ = dense(Network(width, layers), layouts)
    batch = np.random.default_rng(1).normal(size=(rows, width)).astype("float32")
    run([batch])
    if beside is not None:
        meet(*beside)
    times = timed(lambda: run([batch]))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {**times._asdict(), "bytes": grown * 1024.0}


def reduce(sizes: list[int]) -> list[float]:
    """Seconds for adding up so many bytes over all devices."""
    from backplane import backend as K

    found = []
    (devices,) = (K.get_mesh() or {}).values()
    for size in sizes:
        # A row for each device; their sum is on all of them. It is not fetched.
        x = K.shard(K.variable(np.ones((devices, size // FLOAT))), ("batch", None))
        total = K.zeros((size // FLOAT,))
        run = K.function([], [], updates=[(total, K.sum(x, axis=0))])
        found.append(timed(partial(run, [])).median)
    return found


def losses(name: str) -> list[float]:
    """The losses of 100 steps of a network of the tests."""
    from backplane import backend as K
    from mesh import programs

    return [float(loss) for loss in programs.losses(name, K.get_mesh())]


def main(text: str) -> None:
    """Do a task and print its result."""
    task = Task(**json.loads(text))
    start(task)
    from backplane import backend as K

    with K.engine(task.engine), K.set_mesh(task.mesh):
        result = {"train": train, "reduce": reduce, "losses": losses}[task.do](**task.arguments)
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
