"""`keras.Variable` on Backplane: its value lives in a variable of K, which programs read and write.

Outside of steps the value is a tensor of the engine's library, or of NumPy where the engine only
compiles. It is the reader's own: steps that write over the variable's memory leave it as it was.
While a step is traced, its scope gives a symbolic value (`step.Scope`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from keras.src.backend.common import KerasVariable

from backplane.core import variable as core
from backplane.engines.placement import OnDevice
from backplane.keras3 import call, distribution
from backplane.keras3.ops.conversion import convert_to_tensor, to_array


class Variable(KerasVariable):
    """A variable of Keras. `cell` is the variable of K with its value."""

    cell: core.Variable | None = None

    @property
    def _value(self) -> Any:
        """The value now, on the variable's device; None until the variable is initialized."""
        if self.cell is None:
            return None
        home = self.cell.home
        return self.cell.lent(home if isinstance(home, OnDevice) else call.eager_engine())

    @_value.setter
    def _value(self, value: Any) -> None:
        if value is None:
            self.cell = None
            return
        array = np.array(to_array(value), self._dtype)
        if self.cell is None:
            self.cell = core.Variable(array, self._path)
            self.cell.trainable = bool(self._trainable)
            self._shape = array.shape  # Layouts ask for it.
            distribution.place(self)
        else:
            core.assign([self.cell], [array])

    def _initialize(self, value: Any) -> None:
        self._value = value

    def _direct_assign(self, value: Any) -> None:
        self._value = value

    def _convert_to_tensor(self, value: Any, dtype: Any = None) -> Any:
        return convert_to_tensor(value, dtype=dtype)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        array = to_array(self.value)
        return array if dtype is None else array.astype(dtype)

    def __mlx_array__(self) -> Any:
        """The value, where a tensor of MLX stands to the left of an operator: MLX refuses operands
        that it does not know, and does not ask them first.
        """
        return self.value
