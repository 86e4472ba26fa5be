"""How calls without symbolic tensors behave."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from backplane.core import context

OUTSIDE = ["auto"]
"""The mode outside of `mode_of`."""


def mode() -> str:
    """How calls without symbolic tensors behave: "auto" (native tensors and arrays are computed at
    once), "symbolic" (everything builds a graph) or "eager" (variables and constants are computed
    at once too).
    """
    return context.current().mode or OUTSIDE[0]


def default_mode(name: str) -> Callable[[], None]:
    """Let calls outside of `mode_of` behave as `name` says, until the returned function is
    called.
    """
    before, OUTSIDE[0] = OUTSIDE[0], name

    def undo() -> None:
        OUTSIDE[0] = before

    return undo


@contextmanager
def mode_of(name: str) -> Iterator[None]:
    """Context manager: calls inside behave as `name` says (see `mode`)."""
    with context.changed(mode=name):
        yield
