"""What networks need: two threads against one, and memory, beside programs by hand.

    python -m benchmarks.networks.resources threads [ENGINE …]
    python -m benchmarks.networks.resources memory [ENGINE …]

Each figure comes from a process of its own. `threads` prints the least milliseconds of a training
step with one thread and with two, `memory` the most that a process held during three steps, less
what it held before the network was built.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from time import perf_counter
from typing import Any

from benchmarks import processes
from benchmarks.memory import held
from benchmarks.networks import NETWORKS as WHOLE
from benchmarks.networks.workers import Server, parts, programs
from benchmarks.problem import ENGINES
from benchmarks.workers import ONE_THREAD

NETWORKS = {"threads": ("unet", "gpt"), "memory": ("resnet50", "gpt")}
"""A convolutional network, and one of products of matrices."""
SECONDS, LEAST = 3.0, 7
"""How long steps are timed, and how many at least."""
STEPS = 3


def _threads(count: int) -> dict[str, str]:
    """The environment of a process whose library has so many threads."""
    if count == 1:
        return ONE_THREAD
    counts = {name: str(count) for name, value in ONE_THREAD.items() if value == "1"}
    return {**counts, "TF_NUM_INTEROP_THREADS": "1", "XLA_FLAGS": ""}


def measured() -> None:
    """The child: seconds or bytes."""
    what, cores, stack, network, program = processes.begin()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, map(int, cores.split(",")))
    server = Server(stack, network, program, "full")
    if what == "memory":
        processes.say(_memory(server))
        return
    server.first()
    run = server.runs["step"]
    taken: list[float] = []
    while sum(taken) < SECONDS or len(taken) < LEAST:
        start = perf_counter()
        run.call(*run.arguments)
        taken.append(perf_counter() - start)
    processes.say(min(taken))


def _memory(server: Server) -> int:
    before = held("VmRSS") - held("RssFile")
    server.first()
    run = server.runs["step"]
    for _ in range(STEPS - 1):
        run.call(*run.arguments)
    return held("VmHWM") - held("RssFile") - before


def _rows(what: str, engines: list[str]) -> Iterator[tuple[str, str, str, list[float]]]:
    for network in NETWORKS[what]:
        for engine in engines:
            for program in programs(network, engine):
                if program == "by hand, compiled" or "step" not in parts(WHOLE[network], program):
                    continue  # It compiles for minutes, or does not train.
                found = [
                    float(_child(what, n, engine, network, program))
                    for n in ((1,) if what == "memory" else (1, 2))
                ]
                yield network, engine, program, found


def _child(what: str, threads: int, engine: str, network: str, program: str) -> Any:
    module, core = "benchmarks.networks.resources", 0
    every = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0, 1]
    arguments = what, ",".join(map(str, every[-threads:])), engine, network, program
    return processes.child(module, engine, core, *arguments, **_threads(threads))[1]


def main() -> None:
    """Print a table."""
    what, *engines = sys.argv[1:]
    load = ", ".join(f"{n:.1f}" for n in os.getloadavg())
    print(f"load {load} at the start, {os.cpu_count()} cores\n")
    columns = ["one thread, ms", "two, ms", "gain"] if what == "threads" else ["MB"]
    heads = ["network", "on", "program", *columns]
    print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|")
    for network, engine, program, found in _rows(what, engines or list(ENGINES)):
        if what == "threads":
            one, two = (seconds * 1e3 for seconds in found)
            figures = f"{one:.3g} | {two:.3g} | {one / two:.2f}"
        else:
            figures = f"{found[0] / 1e6:.0f}"
        print(f"| `{network}` | `{engine}` | {program} | {figures} |", flush=True)


if __name__ == "__main__":
    measured() if sys.argv[1:2] == ["0"] else main()
