"""Variables of Keras 3 as variables of a graph of K: one value, which Keras holds."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from backplane.core.variable import Variable
from backplane.interop.keras3 import calls

_TWIN = "_backplane_variable"
"""The attribute of a variable of Keras that holds its twin."""


class Twin(Variable):
    """A variable of K whose value is that of a variable of Keras, for reading and for writing."""

    __slots__ = ("engine", "source")

    def __init__(self, source: keras.Variable) -> None:
        zero = np.asarray(keras.ops.convert_to_numpy(keras.ops.zeros((), source.dtype)))
        super().__init__(np.broadcast_to(zero, tuple(source.shape)), source.path)
        self.engine = calls.engine()
        self.source = source
        self.trainable = source.trainable

    @property
    def values(self) -> dict[Any, Any]:
        """The current value, held by the engine of Keras' backend."""
        value = self.source.value
        if hasattr(value, "read_value"):  # a variable of TensorFlow
            value = value.read_value()
        return {self.engine: self.engine.detached(value)}

    @values.setter
    def values(self, values: dict[Any, Any]) -> None:
        [value] = values.values()
        if hasattr(self, "source"):  # The constructor of `Variable` sets it before.
            self.source.assign(value)


def twin(source: keras.Variable) -> Twin:
    """The variable of K for a variable of Keras: always the same.

    Example:
        >>> import keras
        >>> from backplane import backend as K
        >>> from backplane.interop.keras3.weights import twin
        >>> w = keras.Variable([1.0, 2.0])
        >>> _ = K.eval(K.update_add(twin(w), [1.0, 1.0]))
        >>> twin(w) is twin(w)
        True
    """
    found: Twin | None = getattr(source, _TWIN, None)
    if found is None:
        found = Twin(source)
        setattr(source, _TWIN, found)
    return found
