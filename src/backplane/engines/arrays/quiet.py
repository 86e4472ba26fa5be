"""Running without NumPy's floating-point warnings: 1/0 is inf on every engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any

import numpy as np

from backplane.engines.base import Value

Function = Callable[..., tuple[Value, ...]]
Around = tuple[Callable[[], Any], Callable[[Any], Any]]


def _error_state() -> list[tuple[ContextVar[Any], Any]]:
    """The context variables that `np.errstate(all="ignore")` sets, with their new values."""
    outside = copy_context()
    with np.errstate(all="ignore"):
        inside = copy_context()
    return [(var, value) for var, value in inside.items() if outside.get(var) is not value]


def silence(state: Sequence[tuple[ContextVar[Any], Any]]) -> Around:
    """What `np.errstate(all="ignore")` does on entering, and on leaving with what that gave,
    where it sets the context variables of `state`.

    That context manager costs 0.9 µs a call, as a decorator 0.55 µs, more than half of a small
    matrix product. Setting the one context variable behind it takes 0.13 µs. NumPy 1 has none.
    """
    if len(state) != 1:
        return partial(np.seterr, all="ignore"), lambda before: np.seterr(**before)
    ((variable, ignore),) = state
    return partial(variable.set, ignore), variable.reset


SILENCE = silence(_error_state())


def quiet(function: Function) -> Function:
    """`function` run without floating-point warnings."""
    enter, leave = SILENCE

    def run(*inputs: Value) -> tuple[Value, ...]:
        before = enter()
        try:
            return function(*inputs)
        finally:
            leave(before)

    return run
