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

Cotangents = list[Tensor | None]
"""The gradients by the operands of a primitive, or by its results if there are several; None where
no gradient flows."""

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
    """The axes in the parameter `axes`, or `axis`, go away, or with `keepdims` get size 1."""
    params = node.params
    if params.get("keepdims"):
        return [(node.inputs[0], axis)]
    removed = params["axes"] if "axes" in params else (params["axis"],)
    kept = [i for i in range(node.inputs[0].ndim) if i not in removed]
    return [(node.inputs[0], kept[axis])]


def other_axes(node: Tensor, axis: int) -> Sequence[Axis]:
    """All sizes are those of the first operand, except along the axis in the parameter `axis`."""
    return [(node.inputs[0], axis)] if axis != node.params["axis"] else ()


def whole_axes(name: str, whole: object) -> AxisRule:
    """Sizes are those of the first operand where the parameter `name` says `whole` of an axis."""
    return lambda node, axis: [(node.inputs[0], axis)] if node.params[name][axis] == whole else ()


def results_like(*operands: int) -> AxisRule:
    """For primitives with several results: result i has the shape of the operand at position
    `operands[i]`. If there are more results, no operand tells the shapes of the others.
    """

    def rule(result: Tensor, axis: int) -> Sequence[Axis]:
        index = result.params["index"]
        node = result.inputs[0]
        return [(node.inputs[operands[index]], axis)] if index < len(operands) else ()

    return rule


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
