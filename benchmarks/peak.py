"""Peak memory of a training step of a deep model: as it is, with `K.remat`, and with the batch in
parts. Linux only, which tells a process its peak.

    python -m benchmarks.peak [ENGINE …]

Each engine and variant gets a process of its own. What counts is the most that the process held
during two steps, less what it held after a step on a few rows. Pages of files do not count.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import processes
from benchmarks.memory import held
from benchmarks.problem import ENGINES

BLOCKS = DEPTH = 8
ROWS, WIDTH = 20_000, 64
VARIANTS = {"as it is": {}, "K.remat": {}, "accumulate=4": {"accumulate": 4},
            "accumulate=16": {"accumulate": 16}}  # fmt: skip


def training(variant: str) -> Any:
    """A function that trains eight blocks of eight products and sines by one step."""
    from backplane import backend as K

    rng = np.random.default_rng(0)
    x = K.placeholder((None, WIDTH))
    weights = [K.variable(rng.normal(size=(WIDTH, WIDTH)) * 0.2) for _ in range(BLOCKS)]
    h = x
    for w in weights:

        def block(h: Any, w: Any = w) -> Any:
            for _ in range(DEPTH):
                h = K.sin(K.dot(h, w))
            return h

        h = (K.remat(block) if variant == "K.remat" else block)(h)
    loss = K.mean(K.square(h))
    slopes = K.gradients(loss, weights)
    updates = [(w, w - 0.1 * g) for w, g in zip(weights, slopes, strict=True)]
    return K.function([x], [loss], updates, **VARIANTS[variant])


def measured() -> None:
    """The child: bytes."""
    (variant,) = processes.begin()
    train = training(variant)
    feed = np.random.default_rng(1).normal(size=(ROWS, WIDTH)).astype("float32")
    train([feed[:32]])
    before = held("VmRSS") - held("RssFile")
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    for _ in range(2):
        train([feed])
    processes.say(held("VmHWM") - held("RssFile") - before)


def main() -> None:
    """Print a table of megabytes."""
    print("| engine |", *[f"{variant} |" for variant in VARIANTS])
    for engine in sys.argv[1:] or ENGINES:
        sizes = [processes.child("benchmarks.peak", engine, 0, name)[1] for name in VARIANTS]
        print(f"| `{engine}` |", *[f"{size / 1e6:.0f} MB |" for size in sizes], flush=True)


if __name__ == "__main__":
    measured() if sys.argv[1:2] == ["0"] else main()
