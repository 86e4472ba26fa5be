"""Workloads whose contenders take turns, block by block."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks import timing, workloads
from benchmarks.problem import BACKPLANE, ENGINES, KERAS3, REFERENCE, STACKS
from benchmarks.workers import Worker

Say = Callable[[str], None]
Seconds = dict[tuple[str, str], list[float]]
"""(stack, contender) → seconds per call, one for each round."""


class Pool:
    """Workers, each started when it is first needed and kept over workloads."""

    def __init__(self, core: int) -> None:
        self.core = core
        self.workers: dict[str, Worker] = {}

    def __getitem__(self, stack: str) -> Worker:
        if stack not in self.workers:
            self.workers[stack] = Worker(stack, self.core)
        return self.workers[stack]

    def close(self) -> None:
        """End all processes."""
        for worker in self.workers.values():
            worker.close()
        self.workers = {}


def last_core() -> int:
    """The core to measure on: the last one that this process may use."""
    return max(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0


def chosen(engines: Sequence[str]) -> list[str]:
    """The stacks to run: all, or what belongs to some engines and what they are compared with."""
    if not engines:
        return list(STACKS)
    wanted = [*engines, *(f"keras3-{engine}" for engine in engines), REFERENCE]
    return [stack for stack in STACKS if stack in wanted]


def run(
    name: str, stacks: Sequence[str], rounds: int, pool: Pool, say: Say, tiny: bool = False
) -> dict[str, Any]:
    """Build, check, take turns; what comes out is plain data for JSON."""
    offered = [stack for stack in stacks if workloads.module(name).contenders(name, stack)]
    ready: dict[str, list[str]] = {}
    failures: dict[str, str] = {}
    for stack in offered:
        say(f"{name}: building on {stack}")
        report = pool[stack].ask(do="prepare", workload=name, tiny=tiny)
        ready[stack] = [contender for contender, error in report.items() if not error]
        failures |= {f"{stack}: {c}": error for c, error in report.items() if error}
    seconds: Seconds = {(s, c): [] for s, contenders in ready.items() for c in contenders}
    shuffled = random.Random(0)
    for turn in range(rounds):
        say(f"{name}: round {turn + 1} of {rounds}")
        for stack in shuffled.sample(offered, len(offered)):
            for contender in shuffled.sample(ready[stack], len(ready[stack])):
                took = pool[stack].ask(do="block", name=contender)
                seconds[stack, contender].append(took)
    for stack in offered:
        pool[stack].ask(do="drop")
    return summary(workloads.module(name).PLAN.unit, seconds, failures)


def summary(unit: str, seconds: Seconds, failures: dict[str, str]) -> dict[str, Any]:
    """Medians, quartiles and ratios."""
    rows = [
        {"stack": stack, "name": contender, "seconds": values, **timing.spread(values)}
        for (stack, contender), values in seconds.items()
    ]
    found = {engine: compared(engine, seconds) for engine in ENGINES}
    return {
        "unit": unit,
        "contenders": rows,
        "ratios": {engine: ratios for engine, ratios in found.items() if ratios},
        "failures": failures,
    }


def best(seconds: Seconds, stack: str) -> tuple[str, str] | None:
    """The fastest of a stack's contenders that is not Backplane."""
    rivals = [key for key in seconds if key[0] == stack and key[1] != BACKPLANE]
    return min(rivals, key=lambda key: timing.spread(seconds[key])["median"], default=None)


def compared(engine: str, seconds: Seconds) -> dict[str, Any]:
    """Backplane on an engine over each rival; below 1 Backplane is faster."""
    ours = seconds.get((engine, BACKPLANE))
    if not ours:
        return {}
    rivals = {
        "hand": best(seconds, engine),
        "keras3": best(seconds, f"keras3-{engine}") if f"keras3-{engine}" in KERAS3 else None,
        "reference": best(seconds, REFERENCE),
    }
    return {
        kind: {"name": rival[1], **timing.ratio(ours, seconds[rival])}
        for kind, rival in rivals.items()
        if rival is not None
    }
