"""A training run that saves its state, for tests of faults: every process of a mesh runs this.

`train` goes on from the state in the folder, if there is one, and
writes each loss to a file of this process.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np

from backplane import backend as K

SAVED = 5
"""After so many steps the state is saved."""


def train(
    devices: int,
    folder: Path,
    process: int,
    steps: int,
    dies_at: int | None = None,
    raises: bool = False,
) -> None:
    """Train for so many steps. With `dies_at` the process is killed before that step, or raises an
    error.
    """
    K.set_random_seed(3, portable=True)
    with K.set_mesh({"batch": devices} if devices > 1 else None):
        x, w = K.placeholder((None, 8)), K.variable(np.eye(8))
        speed, count = K.zeros((8, 8)), K.variable(0, dtype="int32")
        if devices > 1:
            K.shard(speed, ("batch", None))
        h = K.dropout(K.dot(x, w), 0.25) + K.random_normal((8,), stddev=0.1)
        loss = K.mean(K.square(h - 1.0))
        step = 0.9 * speed - 0.05 * K.gradients(loss, [w])[0]
        updates = [(w, w + step), (speed, step), K.update_add(count, 1)]
        run = K.function([x], [loss], updates=updates)
        state = {"w": w, "speed": speed, "count": count}
        file = folder / "state"
        if file.exists():
            K.load_state(file, state)
        for i in range(int(K.get_value(count)), steps):
            if i == dies_at:
                (folder / "dies").touch()
            if i == dies_at and raises:
                raise RuntimeError("an error of the user's")
            if i == dies_at:
                os.kill(os.getpid(), signal.SIGKILL)
            (value,) = run([np.random.default_rng(i).normal(size=(16, 8))])
            with open(folder / f"losses-{process}", "a", encoding="utf-8") as log:
                log.write(f"{i} {value.item()!r}\n")
            if (i + 1) % SAVED == 0:
                K.save_state(file, state)


def losses(folder: Path, process: int) -> dict[int, float]:
    """The losses that a process has written, by step."""
    lines = (folder / f"losses-{process}").read_text().splitlines()
    return {int(line.split()[0]): float(line.split()[1]) for line in lines}
