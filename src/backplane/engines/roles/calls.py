"""The calls of compiled programs: what they are fed, and what they return."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np

from backplane.core.spec import Spec
from backplane.engines.roles.values import Values
from backplane.engines.table import Value


class Called(Values):
    """The role of feeds and results. The text of a call (`compile.calls`) asks it."""

    first_size = staticmethod(len)
    """Gives the size of the first axis of a value that a program is fed."""
    takes_arrays: ClassVar[bool] = False
    """Whether compiled programs take NumPy arrays as they are, so that `feed` returns its argument.
    """

    def feed(self, array: np.ndarray) -> Value:
        """The value that a compiled program takes for an input, given an array of exactly the right
        dtype. By default `from_numpy` makes it. The program reads it only during the call, so the
        memory may be shared. Engines whose programs take NumPy arrays return the array as it is.
        """
        return self.from_numpy(array)

    def fetching(self, spec: Spec) -> Callable[[Value], np.ndarray] | None:
        """The function that makes an array of each result of this spec. The array may share memory
        with the result, which nobody else uses. None if results are arrays. By default it is
        `to_numpy`.
        """
        return self.to_numpy

    def detached(self, value: Value) -> Value:
        """A user's value as a compiled program takes it: the library's tape does not follow it."""
        return value

    def wait(self, values: Sequence[Value]) -> None:
        """Return when `values` are computed. Engines that compute while Python goes on, and read
        fed arrays meanwhile, need this.
        """
