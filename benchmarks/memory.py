"""Peak memory of a training step: the CNN at batch 256. Linux only, which tells a process its peak.

    python -m benchmarks.memory CORE STACK CONTENDER

prints bytes: the most that the process held during three steps, less what it held when the library
had been imported and had run a tiny build of the same program. Pages of files do not count: they
are the code of libraries, which is read in where it is first run and shared between processes.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.problem import ENGINES, Training

WORKLOAD = "cnn"
REPEATS = 8
PROCESSES = 3
"""For each contender: allocators do not do the same every time."""
SKIPPED = ("tf.function", "torch.compile")
"""Slower to build, and they hold what their faster siblings hold."""


def contenders(stack: str) -> list[str]:
    """Names of the contenders whose memory is measured."""
    from benchmarks import workloads

    if stack not in ENGINES:
        return []
    every = workloads.module(WORKLOAD).contenders(WORKLOAD, stack)
    return [name for name in every if name not in SKIPPED]


def run(stacks: list[str], core: int, say: Any) -> dict[str, Any]:
    """Processes for each contender in turn; what comes out is plain data for JSON."""
    from benchmarks import interleaved, processes

    sizes: dict[tuple[str, str], list[float]] = {}
    for stack in stacks:
        for _ in range(PROCESSES):
            for name in contenders(stack):
                say(f"memory: {stack} {name}")
                _, size = processes.child("benchmarks.memory", stack, core, stack, name)
                sizes.setdefault((stack, name), []).append(float(size))
    return interleaved.summary("MB", sizes, {})


def held(key: str) -> int:
    """Bytes that the system says this process has, by the key of what is counted."""
    text = Path("/proc/self/status").read_text(encoding="ascii")
    line = next(line for line in text.splitlines() if line.startswith(key + ":"))
    return int(line.split()[1]) * 1024


def _larger(problem: Training) -> Training:
    x, y = (np.concatenate([a] * REPEATS) for a in (problem.x, problem.y))
    return dataclasses.replace(problem, x=x, y=y)


def main() -> None:
    """The child."""
    from benchmarks import processes, workloads

    stack, name = processes.begin()
    found = workloads.module(WORKLOAD)
    build = found.contenders(WORKLOAD, stack)[name]
    tiny = build(found.problem(WORKLOAD, tiny=True))
    tiny.call(*tiny.arguments)
    problem = _larger(found.problem(WORKLOAD))
    before = held("VmRSS") - held("RssFile")
    run = build(problem)
    run.call(*run.arguments)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    for _ in range(3):
        run.call(*run.arguments)
    processes.say(held("VmHWM") - held("RssFile") - before)


if __name__ == "__main__":
    main()
