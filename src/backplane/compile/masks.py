"""The mask of a relu under a max-pooling, applied where it is small.

A pooling's gradient goes to elements that equal the maximum of their window. So whether relu let
them through can be asked of the maxima: before the gradient is spread, on a quarter of the elements
for windows of 2 × 2, and without a mask as large as the pooling's input.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from backplane.core.graph import Tensor, rebuild, toposort
from backplane.core.registry import primitive


def pool_masks(outputs: Sequence[Tensor]) -> list[Tensor]:
    """`outputs` with `relu_grad(max_pool_grad(g, x, y), x)` as `max_pool_grad(relu_grad(g, y), x,
    y)`, unless somebody else reads the inner one.
    """
    order = toposort(outputs)
    uses = Counter([*outputs, *[t for node in order for t in node.inputs]])
    new: dict[Tensor, Tensor] = {}
    for node in order:
        inputs = tuple([new[t] for t in node.inputs])
        if _is(node, "relu_grad") and _spreads(*node.inputs) and uses[node.inputs[0]] == 1:
            spread = inputs[0]
            g, x, y, positions = spread.inputs
            masked = Tensor(primitive("relu_grad"), (g, y), {}, g.spec, node.where)
            new[node] = rebuild(spread, (masked, x, y, positions))
        else:
            same = all(a is b for a, b in zip(inputs, node.inputs, strict=True))
            new[node] = node if same else rebuild(node, inputs)
    return [new[t] for t in outputs]


def _is(node: Tensor, name: str) -> bool:
    return node.op is not None and node.op.name == name


def _spreads(g: Tensor, y: Tensor) -> bool:
    """Whether `g` is the gradient of a pooling of `y`."""
    return _is(g, "max_pool_grad") and g.inputs[1] is y
