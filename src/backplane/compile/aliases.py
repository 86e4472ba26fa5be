"""Aliasing: which tensors of a graph may share memory, and what must be copied for that.

These facts follow from the traits of primitives alone. Passes, code generation and plans read them.
When a value's memory is read for the last time is liveness (`codegen/buffers.py`), which also knows
what an engine's lowerings share. Who owns the value of a variable is known when programs run
(`engines/ownership.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from backplane.core.graph import Constant, Tensor
from backplane.core.primitive import OUTPUT
from backplane.core.shapes import product
from backplane.core.traits import Memory


def alias_root(t: Tensor) -> Tensor:
    """The tensor whose memory the value of `t` may share."""
    while t.op is not None and t.op.memory is Memory.VIEW:
        t = t.inputs[0]
    return t


def is_stretched(t: Tensor) -> bool:
    """Whether elements of `t` may be one place in memory: a view that repeats its operand's."""
    while t.op is not None and t.op.memory is Memory.VIEW:
        count, before = product(t.spec.shape), product(t.inputs[0].spec.shape)
        if count is not None and before is not None and count > before:
            return True
        t = t.inputs[0]
    return False


def writes_over(node: Tensor) -> bool:
    """Whether `node` writes over its operands, or is a result of a node that does."""
    op = node.inputs[0].op if node.op is OUTPUT else node.op
    return op is not None and op.in_place


def is_fixed(t: Tensor) -> bool:
    """Whether who writes to an element of `t` may change a constant, or other elements."""
    return is_stretched(t) or any(isinstance(root, Constant) for root in alias_roots([t]))


def alias_roots(
    tensors: Iterable[Tensor], is_kernel: Callable[[Tensor], bool] = lambda node: False
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
