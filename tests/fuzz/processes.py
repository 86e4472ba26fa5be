"""Checks programs in processes of their own: several at once, and one that dies is a finding."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np

from compile_quickly import SETTINGS
from fuzz.search import Result, results

CHUNK = 250
"""Programs of a process: engines keep something of each program that they compile."""
DEFAULTS = 10
"""One of so many chunks is compiled with the libraries' own settings."""
LONGEST = 300.0
"""Seconds after which a program hangs. A busy machine may need many for one."""


class Task:
    """A process that checks the programs of some seeds."""

    def __init__(self, names: Sequence[str], seeds: range, end: float) -> None:
        self.names, self.seeds = names, seeds
        self.results: list[Result] = []
        self.unfinished = range(0)
        """The seeds behind the one at which the process has died."""
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe(duplex=False)
        self.process = context.Process(target=_check, args=(theirs, names, seeds, end))
        self.process.start()
        theirs.close()
        self.heard = time.monotonic()
        self.done = False

    def read(self) -> None:
        """Take the next result, or notice that the process has ended."""
        self.heard = time.monotonic()
        try:
            found: Result | None = self.pipe.recv()
        except EOFError:
            self.stop("the process has ended")
        else:
            self.done = found is None
            self.results += [] if found is None else [found]

    def stop(self, why: str) -> None:
        """End the process; the program that was running is a finding."""
        self.process.kill()
        self.done = True
        place, behind = divmod(len(self.results), len(self.names))
        seed, name, self.unfinished = self.seeds[place], self.names[behind], self.seeds[place + 1 :]
        self.results.append(Result(seed, name, "failed", f"seed {seed}: {why}\n"))


def prepare(seed: int) -> None:
    """Choose how this process compiles the programs from this seed on."""
    if seed // CHUNK % DEFAULTS:
        os.environ.update(SETTINGS | os.environ)


def _check(pipe: Connection, names: Sequence[str], seeds: range, end: float) -> None:
    np.seterr(all="ignore")
    prepare(seeds[0])
    for seed in seeds:
        if time.monotonic() > end:
            break
        for result in results(seed, names):
            pipe.send(result)
    pipe.send(None)


def run(following: dict[str, int], jobs: int, end: float, below: int) -> Iterator[list[Result]]:
    """Check programs until the clock says `end` or all seeds below `below` are done, with so many
    processes at once; the results of one process after the other. `following` has the next seed of
    each engine. Engines with the same one share a process and a reference.
    """
    tasks: list[Task] = []
    left: list[tuple[Sequence[str], range]] = []
    while True:
        while len(tasks) < jobs and time.monotonic() < end:
            if not left:
                first = min(following.values())
                if first >= below:
                    break
                names = [name for name, seed in following.items() if seed == first]
                last = min(
                    first - first % CHUNK + CHUNK,
                    below,
                    *[s for s in following.values() if s > first],
                )
                following.update(dict.fromkeys(names, last))
                left.append((names, range(first, last)))
            tasks.append(Task(*left.pop(), end))
        if not tasks:
            return
        ready: Any = wait([task.pipe for task in tasks], timeout=10)
        for task in tasks:
            if task.pipe in ready:
                task.read()
            elif time.monotonic() - task.heard > LONGEST:
                task.stop(f"it hangs for {LONGEST:.0f} s")
        for task in [task for task in tasks if task.done]:
            tasks.remove(task)
            task.process.join()
            task.pipe.close()
            if task.unfinished:
                left.append((task.names, task.unfinished))
            yield task.results
