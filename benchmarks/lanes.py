"""Several measurements at once, each on a core of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import Queue
from typing import TypeVar

import click

Job = TypeVar("Job")
Found = TypeVar("Found")


def option(help: str) -> Callable[[Found], Found]:
    """The option `--lanes` of a command, which gets it as `count`."""
    return click.option(
        "--lanes", "count", default=1, show_default=True, type=click.IntRange(1), help=help
    )


def cores(core: int, lanes: int) -> list[int]:
    """The cores to measure on: `core`, or for several lanes the last ones of this process.

    Raises:
        click.BadParameter: if there are fewer.
    """
    if lanes == 1:
        return [core]
    known = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
    if lanes > len(known):
        raise click.BadParameter(f"this process may use {len(known)} cores", param_hint="--lanes")
    return known[-lanes:]


def each(
    jobs: Sequence[Job], cores: Sequence[int], work: Callable[[Job, int], Found]
) -> Iterator[Found]:
    """`work(job, core)` for each job, in threads, in the order of the jobs. No job begins when
    nobody asks for more, as after an interrupt.
    """
    free: Queue[int] = Queue()
    for core in cores:
        free.put(core)

    def one(job: Job) -> Found:
        core = free.get()
        try:
            return work(job, core)
        finally:
            free.put(core)

    threads = ThreadPoolExecutor(len(cores))
    try:
        yield from threads.map(one, jobs)
    finally:
        threads.shutdown(cancel_futures=True)
