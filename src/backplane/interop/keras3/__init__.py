"""Keras 3: its tensors, symbolic and not, and its variables as arguments of K functions.

Nothing here has to be imported to use K functions in layers, losses and models of Keras 3:
`backplane.backend` does it when it meets an object of Keras 3 (`backend._foreign`). A model that
holds calls of K functions is loaded after `import backplane.interop.keras3`.

- What a layer, loss or metric of Keras 3 gets are tensors of its backend, which K computes with as
  with any tensors of an engine. A `keras.Variable` stands for its value.
- A `KerasTensor` makes the call a node of the model (`nodes.KCall`).
- Functions that ask what a tensor is, read, set or update a variable, or compile, have a reading of
  their own for these objects (`special`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from backplane.interop.keras3.nodes import KCall, node, operation
from backplane.interop.keras3.special import SPECIAL

__all__ = ["KCall", "call", "serves"]


def serves(kind: type) -> bool:
    """Whether objects of that class stand for tensors: symbolic ones, or the values of variables.

    Example:
        >>> import keras
        >>> from backplane.interop import keras3
        >>> keras3.serves(keras.KerasTensor), keras3.serves(keras.layers.Dense)
        (True, False)
    """
    return issubclass(kind, keras.KerasTensor | keras.Variable)


def call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call of a K function with objects of Keras 3 among its arguments.

    Args:
        function: The function of the K namespace.
        args: Its positional arguments.
        kwargs: Its arguments by name.

    Returns:
        What the function returns; KerasTensors instead of tensors if there are any among the
        arguments.

    Raises:
        TypeError: if the function makes no sense for such objects; the message has advice.
    """
    special = SPECIAL.get(function.__name__)
    if special is not None:
        return special(*args, **kwargs)
    if _any((args, kwargs), keras.KerasTensor):
        make = operation if function.__name__.startswith("__") else node
        return make(function.__name__, args, kwargs)
    args, kwargs = _values((args, kwargs))
    return function(*args, **kwargs)


def _any(value: Any, kind: type) -> bool:
    """Whether there is an object of that class in a nest of lists, tuples and dicts."""
    if isinstance(value, list | tuple):
        return any(_any(v, kind) for v in value)
    if isinstance(value, dict):
        return any(_any(v, kind) for v in value.values())
    return isinstance(value, kind)


def _values(value: Any) -> Any:
    """A nest with the present values of the variables in it, as Keras 3 would read them now: of a
    `StatelessScope`, in the dtype that a layer computes in.
    """
    if type(value) in (list, tuple):
        return type(value)([_values(v) for v in value])
    if isinstance(value, dict):
        return {k: _values(v) for k, v in value.items()}
    return value.value if isinstance(value, keras.Variable) else value
