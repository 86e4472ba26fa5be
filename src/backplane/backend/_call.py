"""The call rule of K: one definition of each function serves tensors and native values.

A K function is written symbolically. Called with any symbolic tensor it just runs, and builds
graph. Called with native tensors or arrays only, it is traced once for their shapes and dtypes, and
the emitted program runs at once on their engine (`_trace.py`); what a call does is settled once for
the types of its arguments (`_plans.py`). Beside a native tensor, variables and symbolic tensors
that can be computed (constants, random numbers, what is made of them) count as their values.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from backplane import engines
from backplane.backend import _dynamo, _foreign
from backplane.backend._modes import OUTSIDE, default_mode, mode, mode_of
from backplane.backend._plans import PLAN_LIMIT, plan
from backplane.backend._trace import PLAIN, run_now
from backplane.core import context
from backplane.core.graph import Placeholder, Tensor, toposort
from backplane.core.registry import PRIMITIVES
from backplane.core.variable import Variable
from backplane.engines.base import Engine

__all__ = ["api", "creates", "default_mode", "is_closed", "mode", "mode_of", "run_now"]

F = TypeVar("F", bound=Callable[..., Any])


class _Found:
    """What the arguments of a call hold."""

    __slots__ = ("arrays", "natives", "server", "symbolic", "variables")

    def __init__(self) -> None:
        self.server: Any = None
        self.symbolic: list[Tensor] = []
        self.variables = False
        self.arrays = False
        self.natives: list[Any] = []

    def look(self, value: Any) -> None:
        if isinstance(value, Tensor):
            if isinstance(value, Variable):
                self.variables = True
            else:
                self.symbolic.append(value)
        elif isinstance(value, np.ndarray | np.floating):
            # NumPy makes scalars of arrays without axes. Whole ones may also be axes and counts.
            self.arrays = True
        elif isinstance(value, list | tuple):
            for item in value:
                self.look(item)
        elif isinstance(value, dict):
            for item in value.values():
                self.look(item)
        elif value is None or type(value) in PLAIN:
            return
        elif engines.engine_of(value) is not None:
            self.natives.append(value)
        else:
            self.server = _foreign.server_of(value) or self.server


def api(function: F) -> F:
    """Decorator of K functions on tensors: applies the call rule, and names the function in errors
    of the primitives and argument helpers below it.
    """
    plans: dict[Any, Callable[..., Any]] = {}
    find, current = plans.get, context.current
    engines.DEFAULT_CHANGED.append(plans.clear)

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            now = current()
            if kwargs:
                kinds = (
                    now.mode or OUTSIDE[0], now.engine,
                    *map(type, args), *kwargs, *map(type, kwargs.values()),
                )  # fmt: skip
            else:
                kinds = (now.mode or OUTSIDE[0], now.engine, *map(type, args))
            call = find(kinds)
            if call is None:
                if len(plans) >= PLAN_LIMIT:
                    plans.clear()
                call = plans[kinds] = plan(function, general, mode(), args, kwargs)
            return call(*args, **kwargs)
        except (TypeError, ValueError) as error:
            # Not imported at the top: most calls succeed.
            from backplane.backend import _keras1

            modern = _keras1.modern(function.__name__, args, kwargs)
            if modern is None:
                _name_function(error, function.__name__)
                raise
        return wrapper(**modern)

    general = _general(function, wrapper)
    _dynamo.visible(function, wrapper)
    return wrapper  # type: ignore[return-value]


def _general(function: Callable[..., Any], wrapper: Callable[..., Any]) -> Callable[..., Any]:
    """The call rule for any arguments: looks at all that they hold, at each call."""

    def call(*args: Any, **kwargs: Any) -> Any:
        how = mode()
        found = _Found()
        look = found.look
        for value in args:
            look(value)
        for value in kwargs.values():
            look(value)
        if found.server is not None:
            return found.server.call(wrapper, args, kwargs)
        if _runs(found, how):
            return run_now(function, args, kwargs, _engine_for(found.natives, function.__name__))
        return function(*args, **kwargs)

    return call


def _runs(found: _Found, how: str) -> bool:
    """Whether a call with such arguments computes at once."""
    if found.natives:
        return not found.symbolic or is_closed(found.symbolic)
    if found.symbolic or (found.variables and how != "eager"):
        return False
    return found.arrays or how == "eager"


def is_closed(tensors: list[Tensor]) -> bool:
    """Whether tensors can be computed as they are: none needs a placeholder to be fed."""
    return not any(isinstance(t, Placeholder) and t.default is None for t in toposort(tensors))


def _name_function(error: Exception, name: str) -> None:
    """Let the message of an error start with `K.name: ` instead of the name of a primitive, unless
    it names a K function already, or was raised by somebody else's code that K called.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    ours = trace is not None and trace.tb_frame.f_code.co_filename.startswith(_PACKAGE)
    if ours and len(error.args) == 1 and not str(error).startswith("K."):
        inner, colon, text = str(error).partition(": ")
        error.args = (f"K.{name}: {text if colon and inner in PRIMITIVES else error}",)


_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def creates(function: F) -> F:
    """Decorator of K functions that make tensors from shapes and numbers: they build graph, arrays
    among their arguments are parameters; in eager mode, and if a native tensor is among their
    arguments, they run at once.
    """

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            how = mode()
            if how == "symbolic":
                return function(*args, **kwargs)
            found = _Found()
            for value in (*args, *kwargs.values()):
                found.look(value)
            if found.server is not None:
                return found.server.call(wrapper, args, kwargs)
            if found.symbolic or not (found.natives or how == "eager"):
                return function(*args, **kwargs)
            engine = _engine_for(found.natives, function.__name__)
            return run_now(function, args, kwargs, engine, arrays=False)
        except (TypeError, ValueError):
            from backplane.backend import _keras1

            call = _keras1.modern(function.__name__, args, kwargs)
            if call is None:
                raise
        return wrapper(**call)

    return wrapper  # type: ignore[return-value]


def _engine_for(natives: list[Any], name: str) -> Engine:
    """The one engine that all native tensors belong to; the current one if there are none."""
    found = {engines.engine_of(value) for value in natives}
    if not found:
        return engines.current()
    if len(found) > 1:
        listed = " and ".join(sorted(e.name for e in found if e is not None))
        raise TypeError(
            f"K.{name}: got tensors of different engines ({listed}): convert one of them"
        )
    engine = found.pop()
    assert engine is not None
    return engine
