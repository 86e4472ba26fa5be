"""`K.function` on the tensors of a model of Keras 3."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from backplane.backend.phase import known_phase
from backplane.core.graph import Placeholder, Tensor


class ModelFunction:
    """What `K.function` returns for KerasTensors: call it with a list of values, one per input."""

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
    if isinstance(value, Tensor):
        raise TypeError(
            f"K.function: {what}[{i}], {value!r}, is no tensor of the model: KerasTensors and "
            "K.placeholder do not mix"
        )
    raise TypeError(f"K.function: {what}[{i}] must be a KerasTensor, got {type(value).__name__}")


def function(inputs: Any, outputs: Any, updates: Any = None, name: str | None = None) -> Any:
    """`K.function` from KerasTensors to KerasTensors.

    Args:
        inputs: KerasTensor or list of them; `K.learning_phase()` may be among them.
        outputs: KerasTensor or list of them.
        updates: None: variables of Keras 3 are updated when a layer is called.
        name: Name for error messages.

    Returns:
        A callable that takes a list of values and returns a list of NumPy arrays.

    Raises:
        TypeError: for other inputs and outputs, and for updates.
    """
    if updates:
        raise TypeError(
            "K.function: a model of Keras 3 takes no updates: call K.update in a layer, which "
            "assigns at once"
        )
    return ModelFunction(inputs, outputs)
