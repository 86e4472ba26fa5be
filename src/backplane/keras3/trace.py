"""The variables that a step of training reads and writes while it is traced.

The scope of the step (`step.Scope`) tells it. Other modules ask which step is being traced.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from backplane.core.context import assigned


class Trace:
    """The variables of Keras that a traced step touched."""

    def __init__(self, eager: bool = False) -> None:
        self.eager = eager
        """Whether the step runs only once, on data that are constants, so that values can be looked
        at while it is traced."""
        self.variables: dict[int, Any] = {}
        self.uninitialized = False
        """Whether a variable was read that has no value yet. It gets one when Keras' scope ends;
        then the step is traced again."""

    def touched(self, variable: Any) -> None:
        """Remember a variable."""
        self.variables[id(variable)] = variable
        if variable.cell is None:
            self.uninitialized = True


_current: ContextVar[Trace | None] = ContextVar("the step that is being traced", default=None)

current = _current.get
"""The trace of the step that is being traced; None outside of any."""


@contextmanager
def recording(eager: bool = False) -> Iterator[Trace]:
    """Context manager: a new trace, which is the current one inside."""
    made = Trace(eager)
    with assigned(_current, made):
        yield made
