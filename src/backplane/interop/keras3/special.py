"""K functions that mean something of their own for KerasTensors and variables of Keras 3."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import keras
import numpy as np

from backplane import backend as K
from backplane.backend._trees import flatten, map_leaves
from backplane.core.graph import Tensor
from backplane.interop.keras3.functions import function
from backplane.interop.keras3.lifting import lifted
from backplane.interop.keras3.nodes import phase_node


def _is_placeholder(x: Any) -> bool:
    history = getattr(x, "_keras_history", None)
    return history is not None and isinstance(history.operation, keras.layers.InputLayer)


# --- values ---------------------------------------------------------------------------------------


def _eval(x: Any) -> np.ndarray:
    if isinstance(x, keras.KerasTensor):
        raise TypeError(
            f"K.eval: {x!r} is symbolic: it has no value before its model is called. Make a model "
            "of it (keras.Model(inputs, x)) or K.function([inputs], [x]) and call that"
        )
    return np.array(keras.ops.convert_to_numpy(x.value))


def _get(x: Any) -> Any:
    return _eval(x) if isinstance(x, keras.KerasTensor | keras.Variable) else K.get_value(x)


def _set(x: Any, value: Any) -> None:
    _assign("K.set_value", x, value)


def _batch_set(tuples: Iterable[tuple[Any, Any]]) -> None:
    pairs = list(tuples)
    for x, value in pairs:
        _check("K.batch_set_value", x, np.shape(value))
    for x, value in pairs:
        x.assign(value)


def _variable(value: Any, *args: Any, **kwargs: Any) -> Any:
    return K.variable(_eval(value), *args, **kwargs)


# --- updates --------------------------------------------------------------------------------------


def _check(what: str, x: Any, shape: tuple[int | None, ...]) -> None:
    if not isinstance(x, keras.Variable):
        raise TypeError(f"{what}: x must be a variable, got {x!r}")
    if tuple(shape) != tuple(x.shape):
        raise ValueError(
            f"{what}: the variable {x.path!r} has shape {tuple(x.shape)}, the value has shape "
            f"{tuple(shape)}"
        )


def _assign(what: str, x: Any, value: Any) -> Any:
    """Assign now. In a `StatelessScope`, Keras keeps the new value for the scope's owner."""
    _check(what, x, K.int_shape(value))
    value = K.eval(value) if isinstance(value, Tensor) else value
    return x.assign(value.value if isinstance(value, keras.Variable) else value)


def _moving_average(x: Any, value: Any, momentum: Any) -> Any:
    momentum = _operand(momentum, x)
    new = x.value * momentum + _operand(value, x) * (1.0 - momentum)
    return _assign("K.moving_average_update", x, new)


def _operand(value: Any, x: Any) -> Any:
    """An operand that can be combined with a tensor of the backend: arrays and lists take the dtype
    of `x`.
    """
    if isinstance(value, keras.Variable):
        return value.value
    if isinstance(value, list | tuple | np.ndarray):
        return keras.ops.convert_to_tensor(value, dtype=x.dtype)
    return value


# --- graphs ---------------------------------------------------------------------------------------


def _gradients(loss: Any, variables: Any) -> list[Tensor | None]:
    return K.gradients(*[map_leaves(lifted, flatten(t)) for t in (loss, variables)])


def _in_train_phase(x: Any, alt: Any, training: Any = None) -> Any:
    if any(isinstance(v, keras.KerasTensor) for v in (x, alt, training)):
        return phase_node(x, alt, training)
    values = [v.value if isinstance(v, keras.Variable) else v for v in (x, alt, training)]
    return K.in_train_phase(*values)


SPECIAL: dict[str, Callable[..., Any]] = {
    "int_shape": lambda x: tuple(x.shape),
    "ndim": lambda x: len(x.shape),
    "dtype": lambda x: keras.backend.standardize_dtype(x.dtype),
    "is_tensor": lambda x: True,
    "is_variable": lambda x: isinstance(x, keras.Variable),
    "is_placeholder": _is_placeholder,
    "is_keras_tensor": lambda x: isinstance(x, keras.KerasTensor),
    "is_sparse": lambda tensor: bool(getattr(tensor, "sparse", False)),
    "to_dense": lambda tensor: tensor,
    "eval": _eval,
    "get_value": _get,
    "batch_get_value": lambda ops: [_get(x) for x in ops],
    "set_value": _set,
    "batch_set_value": _batch_set,
    "variable": _variable,
    "update": lambda x, new_x: _assign("K.update", x, new_x),
    "update_add": lambda x, increment: _assign("K.update_add", x, x.value + _operand(increment, x)),
    "update_sub": lambda x, decrement: _assign("K.update_sub", x, x.value - _operand(decrement, x)),
    "moving_average_update": _moving_average,
    "function": function,
    "gradients": _gradients,
    "in_train_phase": _in_train_phase,
    "in_test_phase": lambda x, alt, training=None: _in_train_phase(alt, x, training),
}
"""From the name of a K function to what it does if one of its arguments is an object of Keras 3."""

OF_GRAPHS = {"function", "gradients"}
"""The functions that take tensors of K beside objects of Keras 3."""
