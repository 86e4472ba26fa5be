"""`K.function` on the tensors of a model of Keras 3."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import keras
import numpy as np

from backplane import backend as K
from backplane import engines
from backplane.backend._trees import flatten, map_leaves
from backplane.backend.phase import known_phase
from backplane.core.graph import Placeholder, Tensor
from backplane.interop.keras3.lifting import arguments_of, lifted


class ModelFunction:
    """The function that `K.function` returns for KerasTensors: call it with a list of values, one
    per input.
    """

    def __init__(self, inputs: Any, outputs: Any) -> None:
        self._one_in = not isinstance(inputs, list | tuple)
        self._one_out = not isinstance(outputs, list | tuple)
        given = [inputs] if self._one_in else _flat(inputs)
        self._phases = [i for i, t in enumerate(given) if _is_phase(t)]
        tensors = [_symbolic(t, i, "inputs") for i, t in enumerate(given) if not _is_phase(t)]
        self._count = len(given)
        wanted = [outputs] if self._one_out else list(outputs)
        results = [_symbolic(t, i, "outputs") for i, t in enumerate(wanted)]
        self._model = keras.Model(tensors, results)

    def __call__(self, inputs: Any = ()) -> Any:
        """Run the model from inputs to outputs.

        Args:
            inputs: List of arrays, numbers or tensors; 0 or 1 for the learning phase. Where that is
                no input, the one holds that `K.set_learning_phase` has set.

        Returns:
            List of NumPy arrays (or one array).

        Raises:
            ValueError: if the number of values is another than that of inputs.
        """
        values = [inputs] if self._one_in else _flat(inputs)
        if len(values) != self._count:
            raise ValueError(f"K.function: expected {self._count} values, got {len(values)}")
        phases = [values[i] for i in self._phases] or [known_phase()]
        training = any(map(bool, phases))
        fed = [
            keras.ops.convert_to_tensor(v) for i, v in enumerate(values) if i not in self._phases
        ]
        results = self._model(fed, training=training)
        listed = results if isinstance(results, list | tuple) else [results]
        arrays = [np.array(keras.ops.convert_to_numpy(y)) for y in listed]
        return arrays[0] if self._one_out else arrays

    def to_onnx(self, path: Any, *args: Any, **kwargs: Any) -> None:
        """Write the function as an ONNX model; see `KFunction.to_onnx` for the arguments.

        Layers and operations of Keras are written as K functions. Variables have the paths of
        Keras as names, such as `dense/kernel`.

        Raises:
            NotImplementedError: if a layer does something that has no translation into K.
        """
        inputs, outputs = map_leaves(lifted, (self._model.inputs, self._model.outputs))
        K.function(inputs, outputs).to_onnx(path, *args, **kwargs)


def _flat(values: Any) -> list[Any]:
    """The items of a list, and of the lists in it: `model.input` may be one."""
    found: list[Any] = []
    for value in values:
        several = isinstance(value, list | tuple) and isinstance(value[0], keras.KerasTensor)
        found += value if several else [value]
    return found


def _is_phase(value: Any) -> bool:
    """Whether an input is the learning phase: K's tensor, or a number if the phase is fixed."""
    return (isinstance(value, Placeholder) and value.default is not None) or value in (0, 1)


def _symbolic(value: Any, i: int, what: str) -> Any:
    if isinstance(value, keras.KerasTensor):
        return value
    raise TypeError(f"K.function: {what}[{i}] must be a KerasTensor, got {type(value).__name__}")


def function(
    inputs: Any,
    outputs: Any,
    updates: Iterable[Any] | None = None,
    name: str | None = None,
    **kwargs: Any,
) -> Any:
    """`K.function` with KerasTensors. If there are only these, it runs a part of the model. With
    tensors of K among its inputs or outputs, with updates or options, it compiles a graph of K.

    Args:
        inputs: Tensor or list of tensors; `K.learning_phase()` may be among them.
        outputs: Tensor or list of tensors.
        updates: As of `K.function`; a `keras.Variable` may be updated.
        name: Name for error messages.
        **kwargs: Options of `K.function`.

    Returns:
        A callable that takes a list of values and returns a list of NumPy arrays.

    Raises:
        TypeError: for inputs, outputs and updates that are no tensors.
    """
    if not (updates or kwargs) and _is_of_keras(flatten((inputs, outputs))):
        return ModelFunction(inputs, outputs)
    if isinstance(inputs, list | tuple):
        inputs = _flat(inputs)
    with engines.use(keras.backend.backend()):
        graph: Any = map_leaves(lifted, (inputs, outputs, list(updates or [])))
        return K.function(graph[0], graph[1], graph[2], name=name, **kwargs)


def _is_of_keras(tensors: list[Any]) -> bool:
    """Whether all of them are KerasTensors, but for the phase, and computed from such alone."""
    waiting = [t for t in tensors if not _is_phase(t)]
    seen: set[int] = set()
    while waiting:
        tensor = waiting.pop()
        if isinstance(tensor, Tensor):
            return False
        if isinstance(tensor, keras.KerasTensor) and id(tensor) not in seen:
            seen.add(id(tensor))
            waiting += arguments_of(tensor)
    return True
