"""Facts of primitives for passes and code generation, and the rules that many of them share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, NamedTuple

from backplane.core.graph import Tensor

Axis = tuple[Tensor, int]
AxisRule = Callable[[Tensor, int], Sequence[Axis]]
"""From a node and an axis of its result to the axes of operands that this size is taken from."""


class Memory(Enum):
    """Whose memory the result of a primitive is, on every engine."""

    FRESH = "fresh"
    """Memory of its own, which no operand shares."""
    VIEW = "view"
    """It may share memory with the first operand, and with no other."""
    ANY = "any"
    """It may share memory with any operand."""


class Stacked(NamedTuple):
    """What stands outside of a loop for a tensor of its steps."""

    tensor: Tensor
    stacked: bool
    """Whether it has the values of all steps along a new first axis. If not, it is the same tensor
    in each step."""


StackRule = Callable[[Tensor, Sequence[Stacked]], "Tensor | None"]
"""From a node of a loop's step and its operands outside of the loop to the results of all steps,
stacked; None where the operands do not fit. At least one operand is stacked."""


# --- where the size of an axis comes from ---------------------------------------------------------


def like_first(node: Tensor, axis: int) -> Sequence[Axis]:
    """The result has the shape of the first operand."""
    return [(node.inputs[0], axis)]


def broadcasting(node: Tensor, axis: int) -> Sequence[Axis]:
    """The result is broadcast from all operands: those of size 1 have no say."""
    found = []
    for t in node.inputs:
        i = axis - node.ndim + t.ndim
        if i >= 0 and t.spec.shape[i] != 1:
            found.append((t, i))
    return found


def reduced(node: Tensor, axis: int) -> Sequence[Axis]:
    """The axes in the parameter `axes` are reduced away, or to size 1."""
    if node.params["keepdims"]:
        return [(node.inputs[0], axis)]
    removed = node.params["axes"]
    kept = [i for i in range(node.inputs[0].ndim) if i not in removed]
    return [(node.inputs[0], kept[axis])]


# --- all steps of a loop at once ------------------------------------------------------------------


def later_axes(parameter: str) -> StackRule:
    """For one operand and a parameter that names axes: with time in front, each comes one later."""

    def rule(node: Tensor, operands: Sequence[Stacked]) -> Tensor:
        assert node.op is not None
        axes = node.params[parameter]
        later = tuple([i + 1 for i in axes]) if isinstance(axes, tuple) else axes + 1
        stacked: Tensor = node.op(operands[0].tensor, **{**node.params, parameter: later})
        return stacked

    return rule


def whole_time(parameter: str, whole: Any) -> StackRule:
    """For one operand and a parameter with an entry for each axis: time gets `whole`."""

    def rule(node: Tensor, operands: Sequence[Stacked]) -> Tensor:
        assert node.op is not None
        entries = (whole, *node.params[parameter])
        stacked: Tensor = node.op(operands[0].tensor, **{**node.params, parameter: entries})
        return stacked

    return rule
