"""Primitives, each declared once: its spec rule, its gradient, its traits, its decomposition.

The decorated function is the spec rule. It takes the specs of the operands and returns the spec of
the result, or a list of specs.

    @primitive(memory=Memory.FRESH, axes=like_first)
    def softmax(x, *, axis):
        \"\"\"Exponentials along `axis`, scaled to sum to one.\"\"\"
        return x

    @softmax.vjp
    def _(g, y, x, *, axis): ...          # one cotangent (or None) per operand

    @softmax.decompose
    def _(x, *, axis): ...                # tensors in, tensor out

All other facts of the primitive are its *traits*: the arguments of the decorator. Passes and code
generation ask the primitive for them and keep no lists of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

from backplane.core.registry import PRIMITIVES
from backplane.core.tensor import OUTPUT as OUTPUT
from backplane.core.tensor import AxisRule, SpecRule, Tensor
from backplane.core.tensor import Primitive as Primitive
from backplane.core.tensor import outputs_of as outputs_of
from backplane.core.trait_values import Fused as Fused
from backplane.core.trait_values import Memory, Precision


@overload
def primitive(
    *, memory: Memory, name: str | None = None, multiple: Literal[True], **traits: object
) -> Callable[[SpecRule], Primitive[list[Tensor]]]: ...
@overload
def primitive(
    *, memory: Memory, name: str | None = None, multiple: Literal[False] = False, **traits: object
) -> Callable[[SpecRule], Primitive[Tensor]]: ...
def primitive(*, memory: Memory, name: str | None = None, **traits: Any) -> Any:
    """Decorator: declare a primitive with traits (see `Primitive`), named after its spec rule."""

    def declare(rule: SpecRule) -> Primitive[Any]:
        key = name or rule.__name__.rstrip("_")
        if key in PRIMITIVES:
            raise ValueError(f"primitive {key!r} is declared twice")
        PRIMITIVES[key] = Primitive(key, rule, memory=memory, **traits)
        return PRIMITIVES[key]

    return declare


def moving(
    memory: Memory, axes: AxisRule, linear: Sequence[int] = (0,), **traits: Any
) -> Callable[[SpecRule], Primitive[Tensor]]:
    """Decorator: declare a primitive that moves the elements of its first operand and computes
    none. So it is linear in that operand, and in mixed precision it follows it.
    """
    follows = Precision.FOLLOWS
    return primitive(memory=memory, axes=axes, linear=linear, precision=follows, **traits)
