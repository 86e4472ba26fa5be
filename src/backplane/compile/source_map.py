"""Leads from a line of an emitted program to its node, so that errors can name the user's line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from backplane.core.context import Where
from backplane.core.primitive import Primitive
from backplane.core.source import marked
from backplane.engines.base import Engine
from backplane.ops.indexing import gather


class Place(NamedTuple):
    """The mark of an emitted line: the primitive that it runs, and the user's line that built the
    node.
    """

    op: Primitive[Any]
    where: Where | None


def built_at(error: BaseException) -> Place | None:
    """The place that failed, read from the traceback of an error; None if the error did not pass
    through an emitted program.
    """
    found: Place | None = None
    trace = error.__traceback__
    while trace is not None:
        found = marked(trace.tb_frame.f_code.co_filename, trace.tb_lineno) or found
        trace = trace.tb_next
    return found


def explain(error: BaseException, engine: Engine, run: Callable[..., Any] | None = None) -> None:
    """Add to an error from a running program which primitive failed and where it was built.

    If the program `run` is a graph of the engine's own, the engine knows the line (`located`).

    Raises:
        IndexError: if an index of `gather` is out of range, in place of what the engine raises.
    """
    place = built_at(error)
    if place is None and (line := getattr(run, "failing_line", lambda _: None)(error)):
        place = marked(*line)
    if place is None:
        return
    if place.op is gather and isinstance(error, engine.index_errors):
        beyond = IndexError(f"gather: an index is out of range: {error}")
        tell(beyond, engine, place)
        raise beyond from error
    tell(error, engine, place)


def tell(error: BaseException, engine: Engine, place: Place) -> None:
    """Add to an error the primitive that failed and where it was built."""
    at = f", built at {place.where}" if place.where else ""
    error.add_note(f"backplane: while running {place.op.name!r} on the engine {engine.name!r}{at}")
