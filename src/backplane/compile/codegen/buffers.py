"""Aliasing and liveness: who shares a value's memory, how long it is read, who may write to it.

Everything about memory is here: which results of a program are copied before users get them
(`shared`), and which temporary a result is written over.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from math import prod

from backplane.core.graph import Tensor
from backplane.core.primitive import OUTPUT
from backplane.core.sizes import origin
from backplane.core.traits import Memory
from backplane.engines.base import Engine
from backplane.engines.table import Entry


def alias_root(t: Tensor) -> Tensor:
    """The tensor whose memory the value of `t` may share."""
    while t.op is not None and t.op.memory is Memory.VIEW:
        t = t.inputs[0]
    return t


def is_stretched(t: Tensor) -> bool:
    """Whether elements of `t` may be one place in memory: a view that repeats its operand's."""
    while t.op is not None and t.op.memory is Memory.VIEW:
        count, before = _count(t), _count(t.inputs[0])
        if count is not None and before is not None and count > before:
            return True
        t = t.inputs[0]
    return False


def _count(t: Tensor) -> int | None:
    """The number of elements; None if a size is unknown."""
    sizes = [n for n in t.spec.shape if n is not None]
    return prod(sizes) if len(sizes) == t.ndim else None


def _never(node: Tensor) -> bool:
    return False


def alias_roots(
    tensors: Iterable[Tensor], is_kernel: Callable[[Tensor], bool] = _never
) -> set[Tensor]:
    """All tensors whose memory the values of `tensors` may share. Branches and loops may hand an
    operand on. So may the decomposition of a primitive with several results, unless `is_kernel`
    says of its node that a kernel computes it, which then keeps to the trait `memory`.
    """
    roots: set[Tensor] = set()
    waiting = list(tensors)
    while waiting:
        root = alias_root(waiting.pop())
        if root in roots:
            continue
        roots.add(root)
        if root.op is OUTPUT:
            source = root.inputs[0]
            if source.op is not None and source.op.memory is Memory.FRESH and is_kernel(source):
                continue
            # A loop of no steps gives its initial state.
            waiting += source.inputs[: source.params.get("carry", len(source.inputs))]
        elif root.op is not None and root.op.memory is Memory.ANY:
            waiting += root.inputs
    return roots


def shared(outputs: Sequence[Tensor], news: Sequence[Tensor]) -> tuple[list[bool], list[bool]]:
    """The outputs and the new values of variables that must be copied. An output is copied if an
    input, a constant, the new value of a variable, or an output before it may have the same memory.
    A new value is copied if an input, a constant, or a new value before it may.
    """
    taken: set[Tensor] = set()
    lent = []
    for t in news:
        roots = alias_roots([t])
        lent.append(not taken.isdisjoint(roots) or any(root.op is None for root in roots))
        taken |= roots
    copied = []
    for t in outputs:
        root = alias_root(t)
        copied.append(root in taken or root.op is None or root.op.memory is Memory.ANY)
        taken.add(root)
    return copied, lent


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
