"""The traits that many declarations of primitives share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from backplane.core.primitive import Primitive, primitive
from backplane.core.tensor import SpecRule, Tensor
from backplane.core.traits import Axis, AxisRule, Memory, Precision

Cotangents = list[Tensor | None]
"""The gradients by the operands of a primitive, or by its results if there are several; None where
no gradient flows."""


def moving(
    memory: Memory, axes: AxisRule, linear: Sequence[int] = (0,), **traits: Any
) -> Callable[[SpecRule], Primitive[Tensor]]:
    """Decorator: declare a primitive that moves the elements of its first operand and computes
    none. So it is linear in that operand, and in mixed precision it follows it.
    """
    follows = Precision.FOLLOWS
    return primitive(memory=memory, axes=axes, linear=linear, precision=follows, **traits)


def other_axes(node: Tensor, axis: int) -> Sequence[Axis]:
    """All sizes are those of the first operand, except along the axis in the parameter `axis`."""
    return [(node.inputs[0], axis)] if axis != node.params["axis"] else ()


def results_like(*operands: int) -> AxisRule:
    """For primitives with several results: result i has the shape of the operand at position
    `operands[i]`. If there are more results, no operand tells the shapes of the others.
    """

    def rule(result: Tensor, axis: int) -> Sequence[Axis]:
        index = result.params["index"]
        node = result.inputs[0]
        return [(node.inputs[operands[index]], axis)] if index < len(operands) else ()

    return rule
