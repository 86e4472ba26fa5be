"""Which node a line of an emitted program computes: what errors tell the user."""

from __future__ import annotations

import linecache
import weakref
from typing import Any

from backplane.core.context import Where

_wheres: dict[str, dict[int, tuple[str, Where | None]]] = {}


def remember(
    function: Any, filename: str, source: str, built_at: dict[int, tuple[str, Where | None]]
) -> None:
    """Keep the text of a program, and the primitive and the user's line behind each of its lines,
    as long as there is the function.
    """
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    _wheres[filename] = built_at
    weakref.finalize(function, _forget, filename)


def _forget(filename: str) -> None:
    """Drop what is kept about a program that nobody can run any more."""
    _wheres.pop(filename, None)
    linecache.cache.pop(filename, None)


def emitted_at(filename: str, line: int) -> tuple[str, Where | None] | None:
    """Which primitive a line of an emitted program computes, and the user's line that built it."""
    return _wheres.get(filename, {}).get(line)


def built_at(error: BaseException) -> tuple[str, Where | None] | None:
    """Which primitive failed, and the user's line that built it, from the traceback of an error
    that passed through an emitted program; None if it did not.
    """
    found = None
    trace = error.__traceback__
    while trace is not None:
        nodes = _wheres.get(trace.tb_frame.f_code.co_filename)
        if nodes is not None and trace.tb_lineno in nodes:
            found = nodes[trace.tb_lineno]
        trace = trace.tb_next
    return found
