"""Copy on write: over which values of variables the steps of optimizers write.

A value of a variable is in one of three states:

- *Shared*: others may know it. A step copies it, and owns the copy. Whatever comes into a variable
  from outside is shared.
- *Initial*: only the variable knows it, and no step has written to it. A step takes it as its own.
- *Own*: a step has made it or taken it. Steps write over it, and who asks for it gets a copy.

Engines whose values can be written to, NumPy's and PyTorch's, share these rules; how they mark a
value is theirs. Other engines need none of them: JAX takes a value's memory whoever knows it, and
leaves a successor (`engines/jax/memory.py`), and TensorFlow itself copies what somebody still reads
(`engines/tensorflow/fast/updates.py`).
"""

from __future__ import annotations

from typing import Protocol

from backplane.engines.table import Value


class Mark(Protocol):
    """A set of values. It keeps none of them alive."""

    def __contains__(self, x: Value, /) -> bool:
        """Whether the value has the mark."""

    def add(self, x: Value) -> None:
        """Give it the mark."""

    def discard(self, x: Value) -> bool:
        """Take the mark away; whether it was there."""


class Ownership:
    """The states of the values of one library, by two marks. A value with neither is shared."""

    def __init__(self, initial: Mark, own: Mark) -> None:
        self.initial = initial
        self.own = own

    def take(self, x: Value) -> bool:
        """Make an initial value a step's own; False if others may know it."""
        if x not in self.initial:
            return False
        self.own.add(x)
        if not self.initial.discard(x):  # Another thread has lent it meanwhile.
            self.own.discard(x)
            return False
        return True

    def lend(self, x: Value) -> bool:
        """Let others know a value from now on; whether they must get a copy, because a step may
        write to it later.
        """
        self.initial.discard(x)  # Before it is asked whether a step has taken it meanwhile.
        return x in self.own
