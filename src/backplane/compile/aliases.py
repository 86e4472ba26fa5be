"""Which values may share memory: what must be copied, and what must not be written over."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from backplane.core.graph import Tensor
from backplane.core.primitive import OUTPUT

VIEWS = frozenset(
    (
        "reshape",
        "transpose",
        "expand_dims",
        "squeeze",
        "slice",
        "dynamic_slice",
        "head",
        "flip",
        "broadcast_to",
        "identity",
        "check_windows",
        "stop_gradient",
        "print",
        "to_dense",
        "to_sparse",
        "cast",
        "sum_to",
    )
)
"""Primitives whose result may share memory with their operand."""

UNSURE = frozenset(("cond", "output", "where"))
"""Primitives whose result may be one of several operands, depending on what is known when they
run.
"""


def alias_root(t: Tensor) -> Tensor:
    """The tensor whose memory the value of `t` may share."""
    while t.op is not None and t.op.name in VIEWS:
        t = t.inputs[0]
    return t


def alias_roots(tensors: Iterable[Tensor]) -> set[Tensor]:
    """All tensors whose memory the values of `tensors` may share; branches and loops may hand an
    operand on.
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
            # A loop of no steps gives its initial state.
            waiting += source.inputs[: source.params.get("carry", len(source.inputs))]
        elif root.op is not None and root.op.name == "where":
            waiting += root.inputs[1:]
    return roots


def shared(outputs: Sequence[Tensor], news: Sequence[Tensor]) -> tuple[list[bool], list[bool]]:
    """Which outputs must be copied, because an input, a constant, a variable's new value or an
    output before them may have the same memory; and which new values of variables, because an
    input, a constant, or the new value of a variable before them may.
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
        copied.append(root in taken or root.op is None or root.op.name in UNSURE)
        taken.add(root)
    return copied, lent
