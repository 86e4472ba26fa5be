"""The functions of a library as parts of a graph (`core.native`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from backplane.core.native import SIZES
from backplane.core.sparse import SparseTensor
from backplane.core.spec import Spec
from backplane.engines.programs import Function
from backplane.engines.roles.programs import Programs
from backplane.engines.table import Ints, Lowering, Value


class Natives(Programs):
    """The role of the library's functions: their results are known before they run."""

    stand_in_sizes: ClassVar[Ints] = SIZES
    """Stand-ins for unknown sizes. Empty if sizes may stay unknown."""
    calls_numpy: ClassVar[bool] = False
    """Whether the functions are those of NumPy arrays, for which there is no `pullback`."""

    def stand_in(self, spec: Spec) -> Value:
        """A value of that spec, without a content of its own, while `abstract` runs."""
        raise NotImplementedError(f"the engine {self.name!r} takes no functions of its library")

    def abstract(self, function: Lowering, specs: Sequence[Spec]) -> tuple[list[Spec], bool]:
        """The specs of the results of a function, and whether it is seen to draw random numbers or
        to have an effect. By default the function runs on stand-ins.
        """
        return [self.spec_of(y) for y in function(*map(self.stand_in, specs))], False

    def as_value(self, result: Any) -> Value:
        """The result of a user's function, as a value."""
        if result is None:
            raise TypeError("it returns None")
        return result if self.owns(result) else self.constant(np.asarray(result))

    def sparse(self, parts: SparseTensor) -> Any:
        """A sparse tensor in the library's form: by default its parts, which are values."""
        return parts

    def sparse_parts(self, result: Any) -> Any:
        """The parts of a sparse tensor of the library; anything else as it is."""
        return result

    def native(
        self, function: Lowering, specs: Sequence[Spec], results: Sequence[Spec] | None
    ) -> Lowering:
        """The lowering of a library's function, by the specs of operands and known results."""
        return function

    def pullback(
        self, function: Function, operands: Sequence[Value], cotangents: Sequence[Value]
    ) -> Sequence[Value]:
        """The cotangents of the operands of a function, by the library's own differentiation."""
        raise NotImplementedError
