"""Biases, added by the convolutions and products that they follow, where an engine's kernel does
both: that spares a pass over memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from backplane.compile.simplify import rebuild_as
from backplane.core.graph import Tensor, toposort
from backplane.core.registry import primitive
from backplane.core.sizes import same_shape
from backplane.engines.base import Engine

WITH_BIAS = {"conv": "conv_bias", "matmul": "matmul_add"}


def join_biases(outputs: Sequence[Tensor], engine: Engine) -> list[Tensor]:
    """`outputs`, lowered for `engine`, with one node for a convolution and its bias, or for a
    product of matrices and what is added to it, unless somebody else reads the product.
    """
    order = toposort(outputs)
    there = {node.op.name for node in order if node.op is not None}
    names = {x: both for x, both in WITH_BIAS.items() if x in there and both in engine.table}
    if not names:
        return list(outputs)
    uses = Counter([*outputs, *[t for node in order for t in node.inputs]])
    new: dict[Tensor, Tensor] = {}
    for node in order:
        pair = _with_bias(node, names, uses)
        inputs = tuple([new[t] for t in node.inputs])
        if pair is not None:
            x, bias = pair
            operands = (*new[x].inputs, new[bias])
            assert x.op is not None
            op = primitive(names[x.op.name])
            new[node] = Tensor(op, operands, x.params, node.spec, node.where)
        else:
            same = all(a is b for a, b in zip(inputs, node.inputs, strict=True))
            new[node] = node if same else rebuild_as(node, inputs)
    return [new[t] for t in outputs]


def _with_bias(
    node: Tensor, names: dict[str, str], uses: Counter[Tensor]
) -> tuple[Tensor, Tensor] | None:
    """The operands of a sum that one kernel computes, the bias last."""
    if node.op is None or node.op.name != "add":
        return None
    for x, bias in (node.inputs, node.inputs[::-1]):
        if x.op is not None and x.op.name in names and uses[x] == 1:
            fits = _is_vector_of_channels if x.op.name == "conv" else _is_added_to_matrix
            if fits(x, bias):
                return x, bias
    return None


def _is_vector_of_channels(x: Tensor, bias: Tensor) -> bool:
    channels = x.spec.shape[-1]
    return channels is not None and bias.spec.shape == (channels,)


def _is_added_to_matrix(x: Tensor, bias: Tensor) -> bool:
    """Whether x is a matrix of floats, and the sum surely has its shape."""
    if x.ndim != 2 or x.spec.dtype not in ("float32", "float64") or bias.ndim > 2:
        return False
    sizes = zip(bias.spec.shape, x.spec.shape[2 - bias.ndim :], strict=True)
    return same_shape(bias, x) or all(n == 1 or (n is not None and n == m) for n, m in sizes)
