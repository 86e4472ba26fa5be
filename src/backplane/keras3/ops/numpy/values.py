"""Functions whose results have shapes, or contents, that Python must know values for: they run on
values only.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from backplane import engines
from backplane.backend._trees import map_leaves
from backplane.core import graph
from backplane.keras3.call import NoSymbolicFormError, eager_engine
from backplane.keras3.tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])


def by_values(reason: str, name: str = "") -> Callable[[F], F]:
    """Decorator for functions over NumPy arrays. Their arguments may be tensors of an engine or
    variables of Keras, and arrays in their results become tensors of the engine.

    Args:
        reason: Why a symbolic argument is refused. The words follow "it has no symbolic form: ".
        name: The function of Keras, if it is not the decorated one.
    """

    def decorated(function: F) -> F:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            args, kwargs = map_leaves(
                lambda v: _value(v, name or function.__name__, reason), (args, kwargs)
            )
            engine = eager_engine()

            def native(leaf: Any) -> Any:
                is_array = isinstance(leaf, np.ndarray | np.generic)
                return engine.from_numpy(np.asarray(leaf)) if is_array else leaf

            return map_leaves(native, function(*args, **kwargs))

        return call  # type: ignore[return-value]

    return decorated


def _value(leaf: Any, name: str, reason: str) -> Any:
    """One argument as NumPy has it."""
    if hasattr(type(leaf), "_direct_assign"):  # A variable of Keras.
        leaf = leaf.value
    if isinstance(leaf, graph.Constant):
        leaf = leaf.value
    if isinstance(leaf, Tensor | graph.Tensor):
        raise NoSymbolicFormError.of(name, reason)
    if leaf is None or isinstance(leaf, bool | int | float | str | np.ndarray | np.generic):
        return leaf
    engine = engines.engine_of(leaf)
    return leaf if engine is None else engine.to_numpy(leaf)
