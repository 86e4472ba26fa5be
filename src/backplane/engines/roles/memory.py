"""The memory of values: who may write over it, and who gets a copy (copy on write)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from backplane.core.atomic import Calls, at_once
from backplane.core.mesh import Layout
from backplane.engines.roles.values import Values
from backplane.engines.table import Value


class Memory(Values):
    """The role of memory: whether programs write over the values of variables, and what users
    may keep of them. By default nobody writes to a value.
    """

    writes_over: ClassVar[bool] = False
    """Whether programs may write new values of variables over the old ones, or take their memory.
    Then nobody may read the variables meanwhile."""

    def updates_in_place(self, options: Mapping[str, Any]) -> bool:
        """Whether steps of optimizers in a program with these options are replaced by primitives
        that may write over the variables. The values that such programs return must then be known
        to `lend`, and a later call must not write over them if they are views of other memory.
        """
        return False

    def placed(self, value: Any, dtype: str, layout: Layout | None) -> Value:
        """A value with the content of `value`, an array or a value of this library, cast to
        `dtype`. On a mesh it lies in that layout; None stands for the whole on every device.
        Sizes divide.
        """
        return self.from_numpy(value, dtype)

    def adopted(self, array: np.ndarray, dtype: str, layout: Layout | None) -> Value:
        """As `placed`, for a variable's own array. The value may keep the array's memory, and steps
        of optimizers may write over it without a copy, because nobody else knows it until it is
        lent.
        """
        return self.placed(array, dtype, layout)

    def kept(self, value: Value) -> Value:
        """A variable's value in the place where programs write. Others may know the given one."""
        return value

    def lend(self, value: Value) -> Value:
        """A variable's value as users may keep it: a copy, if programs reuse its memory."""
        return value

    def latest(self, value: Value) -> Value:
        """The latest value of a variable: normally the value itself. If a program took its memory
        for the new value, and an interrupt kept that from being stored, it is the new value.
        """
        return value

    def apart(self, value: Value, borrowed: Sequence[Value]) -> Value:
        """A result as users may write to it: a copy, if it has the memory of the values of
        variables. Here: for libraries whose values nobody writes to.
        """
        return value

    def copied(self, value: Value) -> Value:
        """A value in memory of its own, if users can write to values of the library. Here: for
        libraries whose values nobody writes to.
        """
        return value

    def commit(self, calls: Calls) -> None:
        """Run the calls that a program has returned, which write over variables."""
        at_once(calls)
