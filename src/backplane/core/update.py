"""Updates: tensors that, when a program computes them, also become a variable's next value."""

from __future__ import annotations

from collections.abc import Iterable

from backplane.core.graph import Tensor, toposort
from backplane.core.primitive import AFTER
from backplane.core.registry import primitive
from backplane.core.variable import Variable
from backplane.core.where import user_line


class Update(Tensor):
    """The new value of `variable`. A program that has it among its outputs or updates writes it
    back.
    """

    __slots__ = ("variable",)

    def __init__(self, variable: Variable, value: Tensor) -> None:
        inputs = (AFTER.get(value, value),)
        super().__init__(primitive("identity"), inputs, {}, value.spec, user_line(), variable.name)
        self.variable = variable


def updates_in(outputs: Iterable[Tensor]) -> list[Update]:
    """All updates that computing `outputs` passes through, in order."""
    return [node for node in toposort(outputs) if isinstance(node, Update)]
