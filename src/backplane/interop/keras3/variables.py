"""The functions of K that make variables, for `keras.backend`: a `keras.Variable` each.

Layers and models of Keras 3 track and save such variables and no others. As in Keras 2, a variable
of K is not trained unless somebody says so: set its `trainable`, or use `Layer.add_weight`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import keras

from backplane import backend as K
from backplane import engines
from backplane.core.variable import Variable


def _name(name: Any) -> str | None:
    """A name as Keras 3 accepts it."""
    return None if name is None else str(name).replace("/", "_")


def variable(
    value: Any,
    dtype: str | None = None,
    name: str | None = None,
    constraint: Callable[[Any], Any] | None = None,
) -> keras.Variable:
    """`K.variable`, as a `keras.Variable`.

    Args:
        value: Initial value: array, number, nested list, or a tensor that can be evaluated.
        dtype: Name of the dtype; default `K.floatx()`.
        name: Name of the variable.
        constraint: Function of the new value, which Keras' optimizers apply after an update.

    Example:
        >>> from backplane.interop.keras3.variables import variable
        >>> variable([[1, 2]]).dtype
        'float32'
    """
    dtype = dtype or K.floatx()
    made = keras.Variable(
        K.get_value(value), dtype=dtype, name=_name(name), autocast=False, trainable=False
    )
    made.constraint = constraint
    return made


def _of_keras(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, but it makes a `keras.Variable`. Inside the call of a layer, where no
    variable can be made, it makes a tensor.
    """

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        made = function(*args, **kwargs)
        if not isinstance(made, Variable):
            return made
        if not engines.current().is_tracing():
            with suppress(ValueError):  # Keras' own: "while in a stateless scope"
                return variable(made, K.dtype(made), made.name)
        return K.eager(K.identity)(made)

    return wrapper


MAKERS: dict[str, Callable[..., Any]] = {
    "variable": variable,
    **{
        name: _of_keras(getattr(K, name))
        for name in ("zeros", "ones", "eye", "random_uniform_variable", "random_normal_variable")
    },
}
"""From the name in `keras.backend` to the function."""
