"""A rewrite of finished graphs: the bias behind a convolution becomes its operand.

ONNX Runtime moves transpositions through programs and fuses a convolution with the bias and the
activation that follow, but takes no sum with a vector for a bias unless the vector is a constant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from backplane.engines.onnxruntime.builder import Body, Node, Scope


def fuse_biases(scope: Scope, outputs: Iterable[str]) -> None:
    """Replace each `Conv`, `Transpose`, `Add` of a vector of which only the sum is read."""
    if not scope.biased:
        return
    reads = Counter(outputs)
    _count(scope, reads)
    makers = {each.outputs[0]: each for each in scope.nodes}
    nodes: list[Node] = []
    for each in scope.nodes:
        moved = makers.get(each.inputs[0]) if each.outputs[0] in scope.biased else None
        made = makers.get(moved.inputs[0]) if moved and moved.op == "Transpose" else None
        if moved and made and made.op == "Conv" and _only_read_here(reads, moved, made):
            name = scope.name()
            nodes.append(
                Node("Conv", (*made.inputs, each.inputs[1]), (name,), made.attributes, made.line)
            )
            nodes.append(Node("Transpose", (name,), each.outputs, moved.attributes, made.line))
        else:
            nodes.append(each)
    scope.nodes = nodes


def _only_read_here(reads: Counter[str], moved: Node, made: Node) -> bool:
    once = reads[moved.outputs[0]] == reads[made.outputs[0]] == 1
    return once and len(made.inputs) == 2


def _count(scope: Scope, reads: Counter[str]) -> None:
    """How often each name is read, by loops and branches inside too."""
    for each in scope.nodes:
        reads.update(each.inputs)
        for value in each.attributes.values():
            if isinstance(value, Body):
                reads.update([x.name for x in value.outputs])
                _count(value.scope, reads)
