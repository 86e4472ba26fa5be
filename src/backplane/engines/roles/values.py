"""The values of an engine: what they are, and how arrays become values and values arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from backplane.core.graph import Tensor
from backplane.core.spec import Spec
from backplane.engines.programs import Function
from backplane.engines.table import NOTHING, Value


class Values:
    """The role of values: to recognise them, and to convert them from and to NumPy."""

    name: ClassVar[str]
    """Canonical name, as in `known_engines`."""
    library: ClassVar[str]
    """The top-level module of the library, used to recognise its values without importing it."""
    native_types: ClassVar[tuple[type, ...]]
    """The classes of the library's tensors."""
    hashable: ClassVar[tuple[str, ...]] = ()
    """The results of `signature` for all types."""
    holds_arrays: ClassVar[bool] = False
    """Whether arrays of native byte order are values as they are, so that `from_numpy` returns its
    argument."""

    def owns(self, value: object) -> bool:
        """Whether `value` is a tensor of this engine."""
        return isinstance(value, self.native_types)

    def spec_of(self, value: Value) -> Spec:
        """The shape and dtype of a native value; sizes that are unknown in a trace are None."""
        raise NotImplementedError

    def signature(self, kind: type) -> tuple[str, ...]:
        """Expressions over `{x}` with hashable values. They are equal for two values of exactly
        this type only if these have the same spec, and tell that quickly. If there are none,
        `spec_of` serves.
        """
        return self.hashable

    def holds(self, dtype: str) -> bool:
        """Whether the library itself keeps values of that dtype as they are, at the moment."""
        return True

    def from_numpy(self, array: np.ndarray, dtype: str | None = None) -> Value:
        """A native value with the array's content, cast to `dtype`. If the engine may later write
        to the value, it does not share the array's memory.
        """
        raise NotImplementedError

    def to_numpy(self, value: Value) -> np.ndarray:
        """The content as a NumPy array that the caller may keep."""
        raise NotImplementedError

    def prepare(self, kind: type) -> Mapping[Any, str]:
        """Set the library up for Keras 3, where that takes something. It computes on an accelerator
        even if it would choose the CPU by itself. Operators of its values leave operands of a class
        to the operators of that class, as Python's data model has it.

        Returns the names of the library's dtypes if they do not tell them, as `str(dtype)` or
        `dtype.name`.
        """
        return NOTHING


class Traced(Values):
    """The role of the library's own graphs, tracers and variables, where it has them."""

    def is_symbolic(self, value: Value) -> bool:
        """Whether `value` stands for a value that is computed later, on an engine without `eager`.
        Calls on it add to the library's own graph.
        """
        return False

    def is_tracing(self) -> bool:
        """Whether the library is now tracing a function, to run it later or often."""
        return False

    def has_value(self, value: Value) -> bool:
        """Whether the numbers of `value` are known now, unlike those of a value that is traced."""
        return not self.is_symbolic(value)

    def present_spec(self, value: Value) -> Spec:
        """The spec with the sizes of the moment, where `spec_of` leaves sizes open that the library
        could keep open while it traces.
        """
        return self.spec_of(value)

    def traced_sizes(self, value: Value) -> np.ndarray | None:
        """The sizes of a value that the library traces, on an engine whose traces accept no
        computed number as a size; None everywhere else.
        """
        return None

    def known_sizes(self, value: Value) -> np.ndarray | None:
        """The numbers of an array or native value that may be a shape, while such an engine
        (`traced_sizes`) traces; None everywhere else.
        """
        return None

    def origin(self, value: Value) -> tuple[Sequence[Tensor], Function] | None:
        """The tensors of ours from which a symbolic value was computed, and the function that
        computes it from their values. Equal values have equal functions. None for all others.
        """
        return None

    def is_variable(self, value: Value) -> bool:
        """Whether `value` is a variable of the library, which `assign` can change."""
        return False

    def assign(self, variable: Value, value: Value) -> Value:
        """Give a variable of the library a new value, as the library does it: at once, or as a part
        of what it traces. Returns what the library returns for the update.
        """
        raise NotImplementedError
