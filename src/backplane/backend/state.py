"""Variables: reading and setting them, and updates inside functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from backplane.backend._adapters import adaptable
from backplane.backend._keras1 import accepting
from backplane.backend.creation import _values
from backplane.backend.graph import evaluate, fitting
from backplane.backend.types import TensorLike
from backplane.core.graph import Tensor
from backplane.core.variable import Variable, arrays, assign
from backplane.ops.effects import Update
from backplane.ops.lift import as_tensor

__all__ = [
    "batch_get_value", "batch_set_value", "get_value", "moving_average_update", "set_value",
    "update", "update_add", "update_sub",
]  # fmt: skip


@adaptable
def get_value(x: TensorLike) -> np.ndarray:
    """The value of a variable as a NumPy array (a copy).

    Args:
        x: Variable. Another tensor is evaluated.

    Example:
        >>> from backplane import backend as K
        >>> K.get_value(K.variable([1.0, 2.0]))
        array([1., 2.], dtype=float32)
    """
    return evaluate(x)


@accepting
@adaptable
def batch_get_value(ops: Iterable[TensorLike]) -> list[np.ndarray]:
    """The values of several variables as a list of NumPy arrays.

    Args:
        ops: Variables. Other tensors are evaluated.

    Example:
        >>> from backplane import backend as K
        >>> K.batch_get_value([K.zeros((1,)), K.ones((1,))])
        [array([0.], dtype=float32), array([1.], dtype=float32)]
    """
    given = list(ops)
    variables = [x for x in given if isinstance(x, Variable)]
    if len(variables) == len(given):
        return arrays(variables)
    return [evaluate(x) for x in given]


@adaptable
def set_value(x: TensorLike, value: TensorLike) -> None:
    """Set a variable to the content of an array.

    Args:
        x: Variable.
        value: Array, number or nested list of the variable's shape. It is copied and cast.

    Raises:
        TypeError: if `x` is not a variable, or `value` holds no numbers.
        ValueError: if the shapes differ. The variable keeps its value then.

    Example:
        >>> from backplane import backend as K
        >>> v = K.zeros((2,))
        >>> K.set_value(v, [1.0, 2.0])
        >>> K.get_value(v)
        array([1., 2.], dtype=float32)
    """
    variable, array = _fitting_array(x, value, "K.set_value")
    assign([variable], [array])


@adaptable
def batch_set_value(tuples: Sequence[tuple[TensorLike, TensorLike]]) -> None:
    """Set several variables. If one value does not fit, none is set.

    Args:
        tuples: Pairs `(variable, value)`.

    Raises:
        TypeError, ValueError: as `K.set_value`.

    Example:
        >>> from backplane import backend as K
        >>> a, b = K.zeros((1,)), K.zeros((1,))
        >>> K.batch_set_value([(a, [1.0]), (b, [2.0])])
        >>> K.batch_get_value([a, b])
        [array([1.], dtype=float32), array([2.], dtype=float32)]
    """
    checked = [_fitting_array(x, value, "K.batch_set_value") for x, value in tuples]
    assign([variable for variable, _ in checked], [array for _, array in checked])


def _fitting_array(x: TensorLike, value: TensorLike, what: str) -> tuple[Variable, np.ndarray]:
    x = _as_variable(x, what)
    array = _values(value, x.spec.dtype, f"{what}: value")
    if array.shape != x.spec.shape:
        raise ValueError(
            f"{what}: the variable {x.name!r} has shape {x.spec.shape}, the value has shape "
            f"{array.shape}"
        )
    return x, array


def _as_variable(x: TensorLike, what: str) -> Variable:
    if not isinstance(x, Variable):
        raise TypeError(f"{what}: x must be a variable, got {x!r}")
    return x


@adaptable
def update(x: TensorLike, new_x: TensorLike) -> Tensor:
    """Make an update of a variable to a new value.

    Args:
        x: Variable.
        new_x: Tensor of its shape.

    Returns:
        A tensor equal to the new value. A function that has it among its updates, or computes it,
        writes the value to `x`; `K.eval` does too.

    Raises:
        TypeError: if `x` is no variable.
        ValueError: if the shapes differ.

    Example:
        >>> from backplane import backend as K
        >>> v = K.variable(1.0)
        >>> K.eval(K.update(v, v + 2.0)).item(), K.get_value(v).item()
        (3.0, 3.0)
    """
    x = _as_variable(x, "K.update")
    return Update(x, fitting(x, new_x, "K.update"))


@adaptable
def update_add(x: TensorLike, increment: TensorLike) -> Tensor:
    """Make an update that adds `increment` to a variable; see `K.update`.

    Example:
        >>> from backplane import backend as K
        >>> v = K.variable(1.0)
        >>> K.eval(K.update_add(v, 2.0)).item()
        3.0
    """
    x = _as_variable(x, "K.update_add")
    return Update(x, fitting(x, x + increment, "K.update_add"))


@adaptable
def update_sub(x: TensorLike, decrement: TensorLike) -> Tensor:
    """Make an update that subtracts `decrement` from a variable; see `K.update`.

    Example:
        >>> from backplane import backend as K
        >>> v = K.variable(1.0)
        >>> K.eval(K.update_sub(v, 2.0)).item()
        -1.0
    """
    x = _as_variable(x, "K.update_sub")
    return Update(x, fitting(x, x - decrement, "K.update_sub"))


@adaptable
def moving_average_update(x: TensorLike, value: TensorLike, momentum: TensorLike) -> Tensor:
    """Make an update of a variable to `x * momentum + value * (1 - momentum)`.

    Args:
        x: Variable.
        value: Tensor of its shape.
        momentum: Number or scalar tensor, usually in [0, 1].

    Returns:
        The update; see `K.update`.

    Example:
        >>> from backplane import backend as K
        >>> v = K.variable(1.0)
        >>> K.eval(K.moving_average_update(v, 3.0, 0.5)).item()
        2.0
    """
    name = "K.moving_average_update"
    x, new, old_share = _as_variable(x, name), _operand(value), _operand(momentum)
    return Update(x, fitting(x, x * old_share + new * (1.0 - old_share), name))


def _operand(value: TensorLike) -> Any:
    """An operand for Python's operators: a list becomes a tensor, and other values stay as they
    are.
    """
    tensor = as_tensor(value)  # says what is wrong
    return tensor if isinstance(value, list | tuple) else value
