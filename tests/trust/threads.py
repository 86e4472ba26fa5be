"""Runs work in many threads that begin at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from backplane import engines
from waiting import LIMIT


def in_threads(count: int, work: Callable[[], Any], names: Sequence[str] = ()) -> list[Any]:
    """What `work` returns in each of `count` threads, on the present engine, or `names` in turn."""
    ready = threading.Barrier(count)
    names = names or [engines.current().name]

    def run(name: str) -> Any:
        with engines.use(name):
            ready.wait(LIMIT)
            return work()

    with ThreadPoolExecutor(count) as pool:
        futures = [pool.submit(run, names[i % len(names)]) for i in range(count)]
        return [future.result() for future in futures]
