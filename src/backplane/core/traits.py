"""The rules that many primitives share: where sizes come from, all steps of a loop at once."""

from __future__ import annotations

from collections.abc import Sequence

from backplane.core.tensor import Axis as Axis
from backplane.core.tensor import AxisRule as AxisRule
from backplane.core.tensor import Stacked as Stacked
from backplane.core.tensor import StackRule as StackRule
from backplane.core.tensor import Tensor
from backplane.core.trait_values import Memory as Memory
from backplane.core.trait_values import Precision as Precision

# --- where the size of an axis comes from ---------------------------------------------------------


def like_first(node: Tensor, axis: int) -> Sequence[Axis]:
    """The result has the shape of the first operand."""
    return [(node.inputs[0], axis)]


def broadcasting(node: Tensor, axis: int) -> Sequence[Axis]:
    """The result is broadcast from all operands; operands of size 1 have no say."""
    origins = []
    for t in node.inputs:
        i = axis - node.ndim + t.ndim
        if i >= 0 and t.spec.shape[i] != 1:
            origins.append((t, i))
    return origins


def reduced(node: Tensor, axis: int) -> Sequence[Axis]:
    """The axes in the parameter `axes` are reduced away, or to size 1."""
    if node.params["keepdims"]:
        return [(node.inputs[0], axis)]
    removed = node.params["axes"]
    kept = [i for i in range(node.inputs[0].ndim) if i not in removed]
    return [(node.inputs[0], kept[axis])]


# --- all steps of a loop at once ------------------------------------------------------------------


def later_axes(parameter: str) -> StackRule:
    """For a parameter that names axes of all operands: with time in front, they come one later."""

    def rule(node: Tensor, operands: Sequence[Stacked]) -> Tensor | None:
        assert node.op is not None
        axes = node.params[parameter]
        later = tuple([i + 1 for i in axes]) if isinstance(axes, tuple) else axes + 1
        if not all(t.stacked for t in operands):
            return None
        return node.op(*[t.tensor for t in operands], **{**node.params, parameter: later})

    return rule


def whole_time(parameter: str, whole: object) -> StackRule:
    """For primitives of one operand with a parameter per axis: time gets the entry `whole`."""

    def rule(node: Tensor, operands: Sequence[Stacked]) -> Tensor:
        assert node.op is not None
        entries = (whole, *node.params[parameter])
        return node.op(operands[0].tensor, **{**node.params, parameter: entries})

    return rule
