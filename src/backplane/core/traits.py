"""Facts of primitives, for passes and code generation, and the rules that many primitives share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, NamedTuple

from backplane.core.graph import Tensor

Axis = tuple[Tensor, int]
AxisRule = Callable[[Tensor, int], Sequence[Axis]]
"""A function of a node and an axis of its result. It returns the axes of operands from which that
size is taken."""


class Memory(Enum):
    """Whose memory the result of a primitive is, on every engine."""

    FRESH = "fresh"
    """Memory of its own, which no operand shares."""
    VIEW = "view"
    """It may share memory with the first operand, and with no other."""
    ANY = "any"
    """It may share memory with any operand."""


class Precision(Enum):
    """How a primitive takes part in mixed precision (`compile.precision`)."""

    LOW = "low"
    """Its float32 operands are cast to the low precision: products, which are quick in it."""
    FOLLOWS = "follows"
    """It is computed in the low precision if an operand has it. Weights and numbers beside are
    cast; anything else that is float32 makes it float32."""
    BOUNDS = "bounds"
    """It follows, but not with a number that the low precision does not hold exactly: a clip to 1 −
    1e-7 would be one to 1."""
    FULL = "full"
    """Its operands keep their dtypes: sums, exponentials, whatever must be exact."""


class Stacked(NamedTuple):
    """What replaces a tensor of a loop's steps when work moves out of the loop."""

    tensor: Tensor
    stacked: bool
    """Whether `tensor` holds the values of all steps along a new first axis. Otherwise the tensor
    is the same in each step."""
    rows_first: bool = False
    """Whether all steps of the first row come first where rows are joined (`linear.as_rows`)."""


StackRule = Callable[[Tensor, Sequence[Stacked]], "Tensor | None"]
"""A function of a node in a loop's step and its operands outside of the loop, of which at least one
is stacked. It returns the stacked results of all steps, or None if the operands do not fit."""


# --- where the size of an axis comes from ---------------------------------------------------------


def like_first(node: Tensor, axis: int) -> Sequence[Axis]:
    """The result has the shape of the first operand."""
    return [(node.inputs[0], axis)]


def broadcasting(node: Tensor, axis: int) -> Sequence[Axis]:
    """The result is broadcast from all operands; operands of size 1 have no say."""
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
    """For primitives of one operand with a parameter that names axes: with time in front, each axis
    comes one later.
    """

    def rule(node: Tensor, operands: Sequence[Stacked]) -> Tensor:
        assert node.op is not None
        axes = node.params[parameter]
        later = tuple([i + 1 for i in axes]) if isinstance(axes, tuple) else axes + 1
        stacked: Tensor = node.op(operands[0].tensor, **{**node.params, parameter: later})
        return stacked

    return rule


def whole_time(parameter: str, whole: Any) -> StackRule:
    """For primitives of one operand with a parameter that has an entry for each axis: time gets the
    entry `whole`.
    """

    def rule(node: Tensor, operands: Sequence[Stacked]) -> Tensor:
        assert node.op is not None
        entries = (whole, *node.params[parameter])
        stacked: Tensor = node.op(operands[0].tensor, **{**node.params, parameter: entries})
        return stacked

    return rule
