"""Progress on a terminal while something takes long."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

PATIENCE = 1.0
"""Seconds that pass before anything is shown."""


@contextmanager
def shown(what: str) -> Iterator[None]:
    """Context manager: after `PATIENCE`, a line on a terminal's stderr says `what` and how long."""
    if not sys.stderr.isatty():
        yield
        return
    import threading  # Here: most programs run without a terminal, or start without it.

    done = threading.Event()
    thread = threading.Thread(target=_show, args=(what, done, sys.stderr), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@contextmanager
def counted(what: str | None, total: int) -> Iterator[Callable[[], None]]:
    """Context manager: a bar on stderr. What it gives is called once per item. The total is 0 if it
    is unknown. If there is no name, or stderr is no terminal, nothing is written.
    """
    if what is None or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(file=sys.stderr)) as progress:
        task = progress.add_task(what, total=total or None)
        yield lambda: progress.advance(task)


def _show(what: str, done: Any, terminal: Any) -> None:
    start = time.monotonic()
    if done.wait(PATIENCE):
        return
    from rich.console import Console

    with Console(file=terminal).status(what) as status:
        while not done.wait(0.2):
            status.update(f"{what}, {time.monotonic() - start:.0f} s")
