"""Calls outside of steps, settled by the types of their arguments.

The call rule looks at everything among the arguments, which takes longer than a small operation. So
the first call with certain types settles what all later ones do, as for functions of K
(`backend/_call.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from backplane import engines
from backplane.backend._settled import Writer, by_items
from backplane.backend._trace import PLAIN, runs_at_once
from backplane.core import context, graph
from backplane.engines.base import Engine
from backplane.keras3.tensor import Tensor

Call = Callable[..., Any]


class Rule:
    """The call rule of one function of the backend.

    Attributes:
        body: Gives tensors of the graph for tensors of the graph.
        general: The call, with a look at each argument.
        again: The call, with what is settled.
        static: Positions and names of parameters that are known while a graph is built.
    """

    def __init__(self, body: Call, general: Call, again: Call, static: dict[Any, str]) -> None:
        self.body = body
        self.general = general
        self.again = again
        self.static = static

    def settled(self, engine: Engine, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """The rule for calls with arguments of these types."""
        values = (*args, *kwargs.values())
        if context.WATCHING or any(isinstance(v, Tensor | graph.Tensor) for v in values):
            return self.general
        if any(map(is_variable, values)):
            return self._of_values
        if any(type(v) in (list, tuple) for v in values):
            return by_items(lambda args, kwargs: self._by_types(engine, args, kwargs))
        return self._by_types(engine, args, kwargs)

    def _of_values(self, *args: Any, **kwargs: Any) -> Any:
        """The call, with the values of variables of Keras. In a scope they may be symbolic."""
        args = tuple([v.value if is_variable(v) else v for v in args])
        return self.again(*args, **{k: v.value if is_variable(v) else v for k, v in kwargs.items()})

    def _by_types(self, engine: Engine, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        fits = all(
            (_is_plain if key in self.static else _is_value)(value, engine)
            for key, value in (*enumerate(args), *kwargs.items())
        )
        if not fits or not runs_at_once(engine):
            return self.general
        return Writer(self.body, self.general, engine).written(args, kwargs) or self.general


def is_variable(value: Any) -> bool:
    """Whether it is a variable of Keras."""
    return hasattr(type(value), "_direct_assign")


def _is_plain(value: Any, engine: Engine) -> bool:
    """Whether a value, or all items of it, are no arrays and no tensors."""
    items = value if type(value) in (list, tuple) else (value,)
    return all(type(v) in PLAIN or v is None for v in items)


def _is_value(value: Any, engine: Engine) -> bool:
    """Whether a value, or all items of it, are plain or of the engine, or arrays."""
    items = value if type(value) in (list, tuple) else (value,)
    return all(
        type(v) in PLAIN or v is None or isinstance(v, np.ndarray) or engines.engine_of(v) is engine
        for v in items
    )
