"""The common part of engines whose programs compute NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar

import numpy as np

from backplane.core.atomic import Calls, at_once
from backplane.core.mesh import Layout
from backplane.core.spec import Spec
from backplane.engines.arrays.fast import updates
from backplane.engines.base import Engine
from backplane.engines.table import Value

T = TypeVar("T")
Around = tuple[Callable[[], Any], Callable[[Any], Any], Any]


class ArrayEngine(Engine):
    """Values are arrays and NumPy scalars. Programs write to none of their operands; only steps of
    optimizers write, to arrays that an earlier step has made.
    """

    takes_arrays = True
    holds_arrays = True
    writes_over = True

    def from_numpy(self, array: np.ndarray, dtype: str | None = None) -> Value:
        """The array itself where it has the dtype: programs write to no operand."""
        if dtype is None and not array.dtype.isnative:
            dtype = array.dtype.name
        return np.asarray(array, dtype)

    def to_numpy(self, value: Value) -> np.ndarray:
        """A copy, so that who writes to it does not write to a variable."""
        return np.array(value)

    def feed(self, array: np.ndarray) -> Value:
        """The array itself."""
        return array

    def fetching(self, spec: Spec) -> Callable[[Value], np.ndarray] | None:
        """Results are arrays, but for NumPy's scalars."""
        return None if spec.shape else np.asarray

    def commit(self, calls: Calls) -> None:
        """Run the calls without floating-point warnings, of which one might be an error."""
        _commit(calls)

    lend = staticmethod(updates.lent)

    def apart(self, value: Value, borrowed: Sequence[Value]) -> Value:
        """A copy of an array in the memory of a variable."""
        if isinstance(value, np.ndarray) and any(np.may_share_memory(value, b) for b in borrowed):
            return np.array(value)
        return value

    def copied(self, value: Value) -> Value:
        """A new array."""
        return np.array(value)

    def adopted(self, array: np.ndarray, dtype: str, layout: Layout | None) -> Value:
        """The array, to which steps of optimizers may write."""
        return updates.adopted(self.placed(array, dtype, layout))


# --- floating-point errors ------------------------------------------------------------------------

# Programs run without NumPy's warnings: 1/0 is inf on every engine.


def _error_state() -> list[tuple[ContextVar[Any], Any]]:
    """The context variables that `np.errstate(all="ignore")` sets, with their new values."""
    outside = copy_context()
    with np.errstate(all="ignore"):
        inside = copy_context()
    return [(var, value) for var, value in inside.items() if outside.get(var) is not value]


def silence(state: Sequence[tuple[ContextVar[Any], Any]]) -> Around:
    """The functions that read and set the state which `np.errstate(all="ignore")` changes, and the
    state to set, where it sets the context variables of `state`. Programs read first: an interrupt
    while they set it must not hide what there was.

    That context manager costs 0.9 µs a call, as a decorator 0.55 µs, more than half of a small
    matrix product. Setting the one context variable behind it takes 0.13 µs. NumPy 1 has none.
    """
    if len(state) != 1:
        return np.geterr, lambda errors: np.seterr(**errors), {"all": "ignore"}
    ((variable, ignore),) = state
    return variable.get, variable.set, ignore


SILENCE = silence(_error_state())


def without_warnings(function: Callable[..., T]) -> Callable[..., T]:
    """`function` run without floating-point warnings."""
    read, change, silent = SILENCE

    def run(*inputs: Value) -> T:
        before = read()
        try:
            change(silent)
            return function(*inputs)
        finally:
            change(before)

    return run


_commit = without_warnings(at_once)
