"""Variables: symbolic leaves with a storage cell that outlives every call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from backplane.core.context import user_line
from backplane.core.graph import Tensor
from backplane.core.spec import Spec


class Converter(Protocol):
    """The part of an engine that storage needs."""

    def from_numpy(self, array: np.ndarray, dtype: str | None = None) -> Any:
        """A native value with the array's content."""

    def to_numpy(self, value: Any) -> np.ndarray:
        """The content of a native value."""


class Variable(Tensor):
    """A leaf whose value programs read and replace.

    The value stays as the engine left it that wrote it last. Another engine gets a copy, which is
    made through NumPy once per write.
    """

    __slots__ = ("constraint", "trainable", "values")

    def __init__(
        self,
        value: np.ndarray,
        name: str,
        constraint: Callable[[Any], Any] | None = None,
        sparse: bool = False,
    ) -> None:
        spec = Spec(value.shape, value.dtype.name, sparse)
        super().__init__(None, (), {}, spec, user_line(), name)
        self.constraint = constraint
        self.trainable = True
        self.values: dict[Converter | None, Any] = {None: value}
        """The current value by engine that holds it; None stands for a NumPy array of our own."""

    def __repr__(self) -> str:
        return f"<Variable {self.name!r} shape={self.spec.shape} dtype={self.spec.dtype}>"

    def __str__(self) -> str:
        return self.name

    def __bool__(self) -> bool:
        """True, because Keras before 2.1 asks `if self.bias:` to see whether there is one."""
        return True

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the value, as an array, and the attributes that were hung on the variable."""
        settings = (self.numpy(), self.name, self.constraint, self.spec.sparse)
        return _restored, (settings, self.trainable, self.__dict__)

    def read(self, engine: Converter) -> Any:
        """The value as a native value of `engine`."""
        value = self.values.get(engine)
        if value is None:
            array = self.numpy()
            value = self.values[engine] = engine.from_numpy(array, self.spec.dtype)
            if value is not array:
                self.values.pop(None, None)  # one copy is enough, and can be made again
        return value

    def write(self, engine: Converter, value: Any) -> None:
        """Replace the value by a native value of `engine`, of this variable's shape and dtype."""
        self.values = {engine: value}

    def assign(self, value: np.ndarray) -> None:
        """Replace the value by a NumPy array. The caller must not use the array any more."""
        self.values = {None: value}

    def numpy(self) -> np.ndarray:
        """The value as a NumPy array, which nobody may write to."""
        value = self.values.get(None)
        if value is None:
            engine, native = next(iter(self.values.items()))
            assert engine is not None
            value = self.values[None] = engine.to_numpy(native)
        return value


def _restored(settings: tuple[Any, ...], trainable: bool, attributes: dict[str, Any]) -> Variable:
    """A pickled variable."""
    variable = Variable(*settings)
    variable.trainable = trainable
    variable.__dict__.update(attributes)
    return variable
