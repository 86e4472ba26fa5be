"""Variables: reading and setting them, and updates inside functions."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from backplane.backend._adapters import adaptable
from backplane.backend._args import also_named, as_items
from backplane.backend._errors import described
from backplane.backend._keras1 import accepting
from backplane.backend._trace import run_now
from backplane.backend.creation import _values
from backplane.backend.graph import eval as value_of
from backplane.backend.types import TensorLike
from backplane.core.graph import Tensor
from backplane.core.hooks import HOOKS
from backplane.core.spec import Spec, is_float
from backplane.core.variable import Variable, arrays, assign
from backplane.engines import engine_of
from backplane.engines.base import Engine
from backplane.ops.creation import full
from backplane.ops.effects import Update
from backplane.ops.lift import as_tensor, checked, fitting

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
    return x.numpy() if isinstance(x, Variable) else value_of(x)


@accepting
@also_named(tensors="ops")
@adaptable
def batch_get_value(ops: Iterable[TensorLike]) -> list[np.ndarray]:
    """The values of several variables as a list of NumPy arrays.

    Args:
        ops: Variables. Other tensors are evaluated. The name `tensors` is accepted too.

    Example:
        >>> from backplane import backend as K
        >>> K.batch_get_value([K.zeros((1,)), K.ones((1,))])
        [array([0.], dtype=float32), array([1.], dtype=float32)]
    """
    given = as_items(ops, "ops", "a list of variables")
    variables = [x for x in given if isinstance(x, Variable)]
    if len(variables) == len(given):
        return arrays(variables)
    return [value_of(x) for x in given]


@adaptable
def set_value(x: TensorLike, value: TensorLike) -> None:
    """Set a variable to the content of an array.

    Args:
        x: Variable.
        value: Array, number or nested list of the variable's shape. It is copied and cast.

    Raises:
        TypeError: if `x` is not a variable, or `value` holds no numbers, or fractions although the
            variable holds integers.
        ValueError: if the shapes differ. The variable keeps its value then.

    Example:
        >>> from backplane import backend as K
        >>> v = K.zeros((2,))
        >>> K.set_value(v, [1.0, 2.0])
        >>> K.get_value(v)
        array([1., 2.], dtype=float32)
    """
    _set([(x, value)], "K.set_value")


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
    _set(tuples, "K.batch_set_value")


def _set(tuples: Sequence[tuple[TensorLike, TensorLike]], what: str) -> None:
    """Set variables, of ours and of engines, if all values fit."""
    kind = "a list of pairs (variable, value)"
    pairs = as_items(tuples, f"{what}: tuples", kind)
    for pair in pairs:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise TypeError(f"{what}: tuples must be {kind}, and holds {described(pair)}")
    checked = [(x, _fitting_array(x, value, what)) for x, value in pairs]
    ours = [(x, array) for x, array in checked if isinstance(x, Variable)]
    assign([variable for variable, _ in ours], [array for _, array in ours])
    for x, array in checked:
        if (owner := _owner(x, what)) is not None:
            owner.assign(x, array)


def _fitting_array(x: Any, value: TensorLike, what: str) -> np.ndarray:
    owner = _owner(x, what)
    spec = x.spec if owner is None else owner.spec_of(x)
    array = _values(value, spec.dtype, f"{what}: value")
    if not spec.accepts(Spec(array.shape, spec.dtype)):
        raise ValueError(
            f"{what}: the variable {x.name!r} has shape {spec.shape}, the value has shape "
            f"{array.shape}"
        )
    return array


class Initializer(Update):
    """Sets a variable to its initial value."""

    __slots__ = ()

    def run(self, session: object = None, feed_dict: object = None) -> None:
        """Set the variable, as an operation of TensorFlow 1 is run.

        Args:
            session: Accepted for compatibility.
            feed_dict: Likewise.
        """
        value_of(self)


class _NotKept:
    """Stands for an initializer whose value is gone."""

    def __init__(self, variable: Variable) -> None:
        self.variable = variable

    def run(self, session: object = None, feed_dict: object = None) -> None:
        """Say why there is nothing to run, by a RuntimeError."""
        raise RuntimeError(
            f"the initial value of {self.variable!r} is not kept: it came from an array of more "
            "than 1 MB, or from a file. Give the variable a value with K.set_value"
        )


def _initializer(variable: Variable) -> Any:
    initial = variable.initial
    if initial is None:
        return _NotKept(variable)
    if isinstance(initial, int | float):
        initial = full(shape=variable.spec.shape, value=initial, dtype=variable.spec.dtype)
    return Initializer(variable, fitting(variable, initial, "Variable.initializer"))


HOOKS["initializer"] = _initializer


def _owner(x: Any, what: str) -> Engine | None:
    """The engine that a variable belongs to; None for ours. The TypeError names `what`."""
    if isinstance(x, Variable):
        return None
    owner = engine_of(x)
    if owner is None or not owner.is_variable(x):
        raise TypeError(
            f"{what}: x must be a variable (a K.variable, a tf.Variable, a shared variable of "
            f"PyTensor), got {x!r}"
        )
    return owner


def _updated(what: str, x: Any, *operands: TensorLike) -> Tensor:
    """The update of a variable, at once if it belongs to an engine."""
    owner = _owner(x, what)
    if owner is None:
        return Update(x, _NEW_VALUE[what](x, *operands))
    return owner.assign(x, run_now(_NEW_VALUE[what], (x, *operands), {}, owner))


@adaptable
def update(x: TensorLike, new_x: TensorLike) -> Tensor:
    """Make an update of a variable to a new value.

    Args:
        x: Variable. A `tf.Variable` is assigned to, in a `tf.function` at each run.
        new_x: Tensor of its shape.

    Returns:
        A tensor equal to the new value. A function that has it among its updates, or computes it,
        writes the value to `x`; `K.eval` does too. For a `tf.Variable` what its `assign` returns,
        for a shared variable of PyTensor the pair that `pytensor.function` takes among its updates.

    Raises:
        TypeError: if `x` is no variable, or holds integers or bools, and `new_x` floats.
        ValueError: if the shapes differ.

    Example:
        >>> from backplane import backend as K
        >>> v = K.variable(1.0)
        >>> K.eval(K.update(v, v + 2.0)).item(), K.get_value(v).item()
        (3.0, 3.0)
    """
    return _updated("K.update", x, new_x)


@adaptable
def update_add(x: TensorLike, increment: TensorLike) -> Tensor:
    """Make an update that adds `increment` to a variable; see `K.update`.

    Example:
        >>> from backplane import backend as K
        >>> v = K.variable(1.0)
        >>> K.eval(K.update_add(v, 2.0)).item()
        3.0
    """
    return _updated("K.update_add", x, increment)


@adaptable
def update_sub(x: TensorLike, decrement: TensorLike) -> Tensor:
    """Make an update that subtracts `decrement` from a variable; see `K.update`.

    Example:
        >>> from backplane import backend as K
        >>> v = K.variable(1.0)
        >>> K.eval(K.update_sub(v, 2.0)).item()
        -1.0
    """
    return _updated("K.update_sub", x, decrement)


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
    return _updated("K.moving_average_update", x, value, momentum)


def _operand(value: TensorLike) -> Any:
    """An operand for Python's operators: a list becomes a tensor, others stay."""
    if isinstance(value, np.ndarray):
        checked(value, value)
    return as_tensor(value) if isinstance(value, list | tuple) else value


def _average(x: Tensor, value: TensorLike, momentum: TensorLike) -> Any:
    new, old_share = _operand(value), _operand(momentum)
    return x * old_share + new * (1.0 - old_share)


def _change(operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The new value of a variable by an operation of Python. A whole number beside a variable of
    integers is one of them, whatever its type.
    """

    def new(x: Tensor, by: Any) -> Any:
        if not is_float(x.spec.dtype) and not isinstance(by, Tensor):
            by = as_tensor(by, None if x.spec.dtype == "bool" else x.spec.dtype)
        return operation(x, by)

    return new


def _fitted(what: str, new: Callable[..., Any]) -> Callable[..., Tensor]:
    """The new value of a variable that `new` makes of the old one and of operands."""

    def value(x: Any, *operands: TensorLike) -> Tensor:
        return fitting(x, new(x, *operands), what)

    return value


_NEW_VALUE = {
    what: _fitted(what, new)
    for what, new in (
        ("K.update", lambda x, new_x: new_x),
        ("K.update_add", _change(operator.add)),
        ("K.update_sub", _change(operator.sub)),
        ("K.moving_average_update", _average),
    )
}
"""Each is one object, so that its traces for the variables of engines can be kept."""
