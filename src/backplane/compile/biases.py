"""Biases, added by the convolutions that they follow, where an engine's kernel does both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from backplane.compile.simplify import rebuild_as
from backplane.core.graph import Tensor, toposort
from backplane.core.registry import primitive
from backplane.engines.base import Engine


def join_biases(outputs: Sequence[Tensor], engine: Engine) -> list[Tensor]:
    """`outputs`, lowered for `engine`, with one node for a convolution and its bias: that spares a
    pass over memory.
    """
    if "conv_bias" not in engine.table:
        return list(outputs)
    order = toposort(outputs)
    found = {node: pair for node in order if (pair := _conv_and_bias(node)) is not None}
    if not found:
        return list(outputs)
    uses = Counter([*outputs, *[t for node in order for t in node.inputs]])
    new: dict[Tensor, Tensor] = {}
    for node in order:
        pair = found.get(node)
        inputs = tuple([new[t] for t in node.inputs])
        if pair is not None and uses[pair[0]] == 1:
            conv, bias = pair
            operands = (*new[conv].inputs, new[bias])
            op = primitive("conv_bias")
            new[node] = Tensor(op, operands, conv.params, node.spec, node.where)
        else:
            same = all(a is b for a, b in zip(inputs, node.inputs, strict=True))
            new[node] = node if same else rebuild_as(node, inputs)
    return [new[t] for t in outputs]


def _conv_and_bias(node: Tensor) -> tuple[Tensor, Tensor] | None:
    """The operands of a sum of a convolution and a vector with an element per channel."""
    if node.op is None or node.op.name != "add":
        return None
    for x, bias in (node.inputs, node.inputs[::-1]):
        if x.op is not None and x.op.name == "conv":
            channels = x.spec.shape[-1]
            if channels is not None and bias.spec.shape == (channels,):
                return x, bias
    return None
