"""Calls of K functions on KerasTensors: nodes of a functional model."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from backplane import backend as K
from backplane import engines
from backplane.backend import _operators
from backplane.backend._args import as_dtype, entries_of
from backplane.backend._protocols import REFLECTED
from backplane.backend._trees import map_leaves
from backplane.core.graph import Constant, Placeholder, Tensor, toposort
from backplane.core.spec import Spec


@keras.saving.register_keras_serializable(package="backplane")
class KCall(keras.Operation):
    """The call of a K function in a model of Keras 3.

    The arguments are those of the node, as of every operation of Keras: tensors of the model, and
    beside them numbers, strings, arrays and nests of these. Shapes and dtypes of the results are
    inferred by Backplane, on its own graph, so that they are the same on every backend.

    Args:
        function: Name of the K function.
        name: Name of the operation, unique in a model.
    """

    def __init__(self, function: str, name: str | None = None) -> None:
        if function not in K.__all__ or not callable(getattr(K, function)):
            raise ValueError(f"backplane.backend has no function {function!r}")
        super().__init__(name=name)
        self.function = function

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """The function's results for tensors of the backend."""
        with engines.use(keras.backend.backend()):
            return K.eager(getattr(K, self.function))(*args, **kwargs)

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        """KerasTensors with the shapes and dtypes of the function's results."""
        args, kwargs = map_leaves(_lifted, (args, kwargs))
        results = K.symbolic(getattr(K, self.function))(*args, **kwargs)
        return _described(results, self.function)

    def get_config(self) -> dict[str, Any]:
        """The arguments from which an equal operation can be made."""
        return {"name": self.name, "function": self.function}


@keras.saving.register_keras_serializable(package="backplane")
class KInTrainPhase(keras.layers.Layer):
    """`K.in_train_phase` in a model of Keras 3. It is a layer, because a model tells its layers
    whether it is being trained.
    """

    def __init__(self, name: str | None = None, **kwargs: Any) -> None:
        super().__init__(name=name, autocast=False, **kwargs)
        self.supports_masking = True

    def call(self, x: Any, alt: Any = None, training: bool | None = None) -> Any:
        """The first of the two in training, else the second."""
        return K.in_train_phase(x, alt, training=int(bool(training)))

    def compute_output_spec(self, x: Any, alt: Any = None, training: bool | None = None) -> Any:
        """The shape and the dtype of both."""
        x, alt = map_leaves(_lifted, (x, alt))
        results = K.symbolic(K.in_train_phase)(x, alt, None)
        return _described(results, "in_train_phase")


def phase_node(x: Any, alt: Any, training: Any = None) -> Any:
    """Make `K.in_train_phase` a node of a model; branches are called if they are functions."""
    called = [v() if callable(v) else v for v in (x, alt)]
    x, alt = map_leaves(lambda leaf: _argument(leaf, "in_train_phase"), called)
    if training is None and isinstance(K.learning_phase(), int):
        training = K.learning_phase()
    if training is None:
        # What a layer takes before other arguments has to be an array at least.
        x = np.asarray(x, K.dtype(alt)) if isinstance(x, bool | int | float) else x
        return KInTrainPhase(name=_unique("in_train_phase"))(x, alt=alt)
    if isinstance(training, keras.KerasTensor):
        return node("switch", (training, x, alt), {})
    return x if training else alt


def node(function: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Make the call of a K function a node of the model that its KerasTensors belong to.

    Args:
        function: Name of the function.
        args: Its positional arguments.
        kwargs: Its arguments by name.

    Returns:
        KerasTensors, nested as the function nests its results.

    Raises:
        TypeError: for arguments that cannot be part of a model: functions, ragged KerasTensors,
            random tensors of K.
    """
    if function == "switch":
        args, kwargs = map_leaves(lambda v: v() if callable(v) else v, (args, kwargs))
    args, kwargs = map_leaves(lambda leaf: _argument(leaf, function), (args, kwargs))
    return KCall(function, name=_unique(function))(*args, **kwargs)


def operation(operator: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """An operator between a tensor of K and a KerasTensor: the operation of Keras.

    Args:
        operator: Name of the method of the tensor, such as `__add__`.
        args: The tensor and the KerasTensor.
        kwargs: None.

    Raises:
        TypeError: for tensors that cannot be part of a model; see `node`.
    """
    tensor, other = args
    return getattr(other, _mirrored(operator))(_closed(tensor, operator))


def _mirrored(operator: str) -> str:
    """The method of the right operand that computes what `operator` of the left one does."""
    name = operator.strip("_")
    other = REFLECTED.get(name) or (name[1:] if name in _operators.REFLECTED else f"r{name}")
    return f"__{other}__"


def _unique(function: str) -> str:
    """A new name for an operation, as Keras names its own: `mean`, `mean_1`, …"""
    count = keras.backend.get_uid(function) - 1
    return f"{function}_{count}" if count else function


_PLAIN = (bool, int, float, str, type(None), np.ndarray, np.generic)


def _argument(value: Any, function: str) -> Any:
    """A leaf of a nest of arguments in a form that a model can hold and a file can keep."""
    if isinstance(value, Tensor):
        return _closed(value, function)
    if isinstance(value, keras.KerasTensor):
        # `sparse` cannot be trusted: Keras 3.15 sets it on the product of a tensor and a number.
        if value.ragged:
            raise TypeError(f"K.{function}: {value!r} is ragged, which K functions do not take")
        return value
    if isinstance(value, _PLAIN) or K.is_tensor(value):
        return value
    entries = entries_of(value, f"K.{function}")
    if entries is not value:  # Such as a `tf.TensorShape`.
        return entries
    if isinstance(value, type) or not callable(value):
        return as_dtype(value)
    raise TypeError(
        f"K.{function}: a model cannot hold the function {value!r}, an argument beside a "
        f"KerasTensor. Call K.{function} in a layer of your own (keras.layers.Layer) or in "
        f"keras.layers.Lambda"
    )


def _closed(value: Tensor, function: str) -> np.ndarray:
    """The value of a symbolic tensor that is made of constants only."""
    for leaf in toposort([value]):
        if leaf.op is None and not isinstance(leaf, Constant):
            raise TypeError(
                f"K.{function}: {leaf!r} and a KerasTensor cannot be combined. The inputs of a "
                "model are keras.Input; numbers that are random at each step come from K.random_… "
                "of a shape taken from a KerasTensor, such as K.shape(x)"
            )
    return np.asarray(K.eval(value))


def _lifted(value: Any) -> Any:
    """A leaf of a nest of arguments: a placeholder for a KerasTensor."""
    if isinstance(value, keras.KerasTensor):
        return Placeholder(Spec(tuple(value.shape), str(value.dtype)))
    return value.value if isinstance(value, keras.Variable) else value


def _described(value: Any, function: str) -> Any:
    """A nest of results with KerasTensors for its tensors."""

    def described(leaf: Any) -> keras.KerasTensor:
        if not isinstance(leaf, Tensor):
            raise TypeError(f"K.{function}: gives {leaf!r} for a KerasTensor, not a tensor")
        return keras.KerasTensor(tuple(leaf.spec.shape), str(leaf.spec.dtype))

    return map_leaves(described, value)
