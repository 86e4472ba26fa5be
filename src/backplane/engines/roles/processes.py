"""The processes that share a mesh of devices, and the parts of values that each of them has."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from backplane.core.mesh import Layout
from backplane.core.variable import Block
from backplane.engines.roles.values import Values
from backplane.engines.table import Ints, Value

Read = Callable[[Sequence[slice]], np.ndarray]
"""Reads the part of a value that a slice for each axis gives."""


class Processes(Values):
    """The role of processes. By default there is one."""

    @property
    def process(self) -> int:
        """The number of this process among those that share the mesh, from 0."""
        return 0

    def everyone(self, array: np.ndarray) -> np.ndarray:
        """One row from each process of the mesh. It returns when all have called it."""
        return array[None]

    def parts(self, value: Value) -> list[Block] | None:
        """The parts of a value that this process saves, each once; None for the whole value."""
        return None

    def assembled(self, read: Read, shape: Ints, dtype: str, layout: Layout) -> Value:
        """A value that lies on the mesh in a layout. Each process reads the parts of its own."""
        raise NotImplementedError(f"the engine {self.name!r} has no mesh")

    def connect(self, address: str | None, count: int | None, index: int | None) -> int:
        """Connect the processes of a mesh; their number. `address` is that of the first process;
        what is None is told by a launcher. ValueError if the library computes in one process.
        """
        raise ValueError(f"the engine {self.name!r} computes in one process")


def texts(engine: Processes, text: str) -> list[str]:
    """The text that each process which shares the mesh of an engine gives."""
    content = np.frombuffer(text.encode(), np.uint8)
    sizes = engine.everyone(np.array([content.size], np.int32))
    padded = np.zeros(max(1, sizes.max()), np.uint8)
    padded[: content.size] = content
    rows = zip(engine.everyone(padded), sizes, strict=True)
    return [row[: size.item()].tobytes().decode() for row, size in rows]


def agree(engine: Processes, what: str, text: str) -> None:
    """Check that all processes that share the mesh of an engine have come here with the same text.

    Raises:
        ValueError: in all of them, if they have not.
    """
    from hashlib import sha256  # Here: most programs run in one process.

    rows = engine.everyone(np.frombuffer(sha256(text.encode()).digest(), np.uint32))
    others = [i for i, row in enumerate(rows) if (row != rows[engine.process]).any()]
    if others:
        raise ValueError(
            f"{what} differs between process {engine.process} and process "
            f"{', '.join(map(str, others))}: all processes of a mesh run the same program"
        )
