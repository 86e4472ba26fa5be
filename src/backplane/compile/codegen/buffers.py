"""Liveness: how long the memory of a value is read, and which temporary is written over.

Unlike aliasing, it knows the engine: some lowerings give views where the trait says `FRESH`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence

from backplane.core.graph import Tensor
from backplane.core.primitive import OUTPUT
from backplane.core.sizes import origin
from backplane.core.traits import Memory
from backplane.engines.base import Engine
from backplane.engines.table import Entry

ShapeKey = tuple[Hashable, ...]


def shape_key(t: Tensor) -> ShapeKey | None:
    """A key that is equal only for surely equal shapes; None if a size's origin is unknown."""
    shape = t.spec.shape
    if None not in shape:
        return shape
    key: list[Hashable] = []
    for axis, n in enumerate(shape):
        source, source_axis = origin(t, axis) if n is None else (t, axis)
        if source_axis >= source.ndim:
            return None  # An operand that the lowering does not read stands for the source.
        key.append((source, source_axis) if n is None else n)
    return tuple(key)


def passes_over(node: Tensor, engine: Engine, host: Collection[Tensor] = ()) -> int:
    """The number of passes over memory that the element-wise lowering of a node takes, if it can
    write to an array that it is given. 0 for all other nodes, and for nodes that the `host`
    computes.
    """
    entry = engine.table.get(node.op.name) if node.op is not None else None
    if entry is None or not entry.out or node in host:
        return 0
    return entry.out if node.spec.shape else 0


class Buffers:
    """The memory of the values of one program, whose nodes run in a given order."""

    def __init__(
        self,
        order: Sequence[Tensor],
        outputs: Sequence[Tensor],
        engine: Engine,
        host: Collection[Tensor],
    ) -> None:
        self.order, self.engine, self.host = order, engine, host
        self.position = {node: i for i, node in enumerate(order)}
        self.last = dict.fromkeys(outputs, len(order))
        """The position in `order` of the last node that may read a value's memory, be it through
        another value that shares it. Outputs are read after the end."""
        self.others: dict[Tensor, int] = {}
        """The same, through other values only."""
        self.ends = self._ends(outputs)
        """For each position, the temporaries whose names nothing needs afterwards."""
        last, others = self.last, self.others
        for i in range(len(order) - 1, -1, -1):
            node = order[i]
            until = last.get(node, i)
            # If the result is not certain to be fresh, it may be any of the operands.
            passed = not self.is_fresh(node)
            for t in node.inputs:
                last[t] = max(last.get(t, i), until if passed else i)
                if passed:
                    others[t] = max(others.get(t, i), until)

    def _ends(self, outputs: Sequence[Tensor]) -> dict[int, list[Tensor]]:
        kept, last = set(outputs), dict[Tensor, int]()
        for i, node in enumerate(self.order):
            if node.op is not OUTPUT:
                last.update(dict.fromkeys(node.inputs, i))
        ends: dict[int, list[Tensor]] = {}
        for t, i in last.items():
            if t.op is not None and t not in kept and t not in self.host:
                ends.setdefault(i, []).append(t)
        return ends

    def is_fresh(self, node: Tensor) -> bool:
        """Whether the result has memory that nothing else shares."""
        if node.op is None or node in self.host:
            return False
        entry = self.engine.table.get(node.op.name)
        return node.op.memory is Memory.FRESH and not (entry is not None and entry.view)

    def is_free(self, t: Tensor, first: int, last: int) -> bool:
        """Whether the nodes from position `first` to `last` may write to the memory of `t`. They
        may if they are the last to read it, and it belongs to no other value.
        """
        if not (t.ndim and self.is_fresh(t) and first <= self.last[t] <= last):
            return False
        # NumPy would first copy an operand that is another view of the memory written to, or refuse
        # it.
        return self.others.get(t, -1) < first

    def reusable(
        self, node: Tensor, entry: Entry, is_free: Callable[[Tensor, int, int], bool]
    ) -> Tensor | None:
        """An operand over which the lowering of `node` may write its result."""
        if entry.out != 1 or not node.spec.shape:
            return None
        i, dtype, key = self.position[node], node.spec.dtype, None
        for t in node.inputs:
            if t.spec.dtype == dtype and is_free(t, i, i):
                key = key or shape_key(node)
                if key is not None and shape_key(t) == key:
                    return t
        return None
