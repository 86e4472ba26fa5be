"""Equality of unknown sizes: each is followed back to the axis where it first appears.

`x + y` with two unknown batch sizes may broadcast one of them. Its gradient must then be ready to
sum that axis down again, unless both sizes come from the same axis of the same tensor. The trait
`axes` of a primitive tells from which axes of its operands the size of an axis of its result is
taken. If all of them have the same origin, it is the origin of that size too. If the trait lists no
axis, the size is new.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar

from backplane.core.context import assigned
from backplane.core.graph import Tensor
from backplane.core.traits import Axis


def _origins(x: Tensor) -> dict[int, Axis | None]:
    """The origins found so far, by axis; None stands for the tensor itself.

    The tensor keeps them itself. A table with weak keys would keep its entries for ever: classic
    Keras hangs the layer on a tensor, which leads to users of the tensor, so an entry would hold
    its own key.
    """
    return x.__dict__.setdefault("origins", {})


class Sizes:
    """Finds origins."""

    def origin(self, x: Tensor, axis: int) -> Axis:
        """The tensor and the axis that the unknown size of `axis` of `x` is taken from."""
        stack = [(x, axis)]
        while stack:
            node, i = stack[-1]
            known = self._known(node)
            if i not in known:
                needed = self._needed(node)
                first = self._unknown(needed) if needed else ()
                sources = () if first else self._sources(node, i)
                if waiting := first or self._unknown(sources):
                    stack.extend(waiting)
                    continue
                origins = {self._known(t)[j] or (t, j) for t, j in sources}
                known[i] = origins.pop() if len(origins) == 1 else None
            stack.pop()
        return self._known(x)[axis] or (x, axis)

    def _unknown(self, axes: Iterable[Axis]) -> list[Axis]:
        return [(t, i) for t, i in axes if i not in self._known(t)]

    def _needed(self, x: Tensor) -> Sequence[Axis]:
        """The tensors whose sizes the trait of `x` itself looks at."""
        return ()

    def _known(self, x: Tensor) -> dict[int, Axis | None]:
        return _origins(x)

    def _sources(self, x: Tensor, axis: int) -> Sequence[Axis]:
        rule = x.op.axes if x.op is not None else None
        return rule(x, axis) if rule is not None else ()


class Assumption(Sizes):
    """Finds origins where some unknown sizes are equal; keeps what follows apart from tensors."""

    def __init__(self, same: Mapping[Axis, Axis]) -> None:
        """`same`: from axes of leaves to the axes whose sizes they have."""
        self.same = same
        self.loops: dict[Tensor, Assumption] = {}
        """The facts that hold inside of loops."""
        self._found: dict[Tensor, dict[int, Axis | None]] = {}

    def _known(self, x: Tensor) -> dict[int, Axis | None]:
        return self._found.setdefault(x, {})

    def _needed(self, x: Tensor) -> Sequence[Axis]:
        """For the result of a loop, its operands."""
        node = x.inputs[0] if x.inputs else x
        if node.op is None or not node.op.multiple or node in self.loops:
            return ()
        return [(t, i) for t in node.inputs for i, n in enumerate(t.spec.shape) if n is None]

    def _sources(self, x: Tensor, axis: int) -> Sequence[Axis]:
        if (x, axis) in self.same:
            return [self.same[x, axis]]
        if x.op is not None:
            return super()._sources(x, axis)
        tied = _origins(x).get(axis)
        return [tied] if tied else ()


_PLAIN = Sizes()
_assumption: ContextVar[Assumption | None] = ContextVar("sizes that are equal", default=None)

assumption = _assumption.get
"""Returns the present `Assumption`, or None."""


def assuming(leaves: Sequence[Tensor]) -> AbstractContextManager[None]:
    """Context manager: inside, the first axes of these leaves have one size."""
    same = {(t, 0): (leaves[0], 0) for t in leaves[1:]}
    return assigned(_assumption, Assumption(same) if same else None)


def origin(x: Tensor, axis: int) -> Axis:
    """The tensor and the axis that the unknown size of `axis` of `x` is taken from."""
    assumed = assumption()
    if assumed is None and (known := _origins(x).get(axis)) is not None:
        return known
    return (assumed or _PLAIN).origin(x, axis)


def tie(x: Tensor, axis: int, to: Tensor, to_axis: int) -> None:
    """Record that a leaf has the unknown size of another tensor.

    The leaf is an input of a loop's body, and the other tensor is what the loop hands to it.
    """
    _origins(x)[axis] = origin(to, to_axis)


def tie_all(leaves: Sequence[Tensor], sources: Sequence[Tensor], skip: int = 0) -> None:
    """Give the inputs of a body the unknown sizes of the tensors that are handed to them, without
    the first `skip` axes. Rules inside the body then need not expect a broadcast between them.
    """
    for leaf, source in zip(leaves, sources, strict=False):
        for i, n in enumerate(leaf.spec.shape):
            if n is None and source.spec.shape[i + skip] is None:
                tie(leaf, i, source, i + skip)


def same_shape(x: Tensor, y: Tensor) -> bool:
    """Whether `x` and `y` are certain to have equal shapes when they are computed."""
    if x is y:
        return True
    shape = x.spec.shape
    if shape != y.spec.shape:
        return False
    if None not in shape:
        return True
    return all(n is not None or origin(x, i) == origin(y, i) for i, n in enumerate(shape))
