"""Tensors that a compiler takes as they are: powers under a logarithm, and what is compared with
elements of itself.

A compiler that joins operations may compute a tensor again for each group of operations that reads
it, and round differently there: with a fused multiply-add in one group, without one in the other.
Then no element equals the maximum, and the gradient of the maximum is lost.

XLA takes log(xʸ) for y · log |x|, which is no NaN where x is negative and y is not whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
from typing import Any

from backplane.core.graph import Graph, Tensor, graphs_of, rebuild, rewrite, toposort
from backplane.core.primitive import OUTPUT
from backplane.core.spec import is_float
from backplane.ops import elementwise as ew
from backplane.ops import indexing, reduction, shaping
from backplane.ops.effects import identity
from backplane.ops.remat import barrier
from backplane.ops.scattering import scatter

COMPARISONS = frozenset([ew.equal, ew.not_equal, ew.less, ew.less_equal])
SELECTING = frozenset(
    (
        reduction.max, reduction.min, ew.maximum, ew.minimum, ew.where, shaping.expand_dims,
        shaping.squeeze, shaping.reshape, shaping.broadcast_to, shaping.transpose, shaping.concat,
        indexing.gather, indexing.slice, reduction.top_k, scatter, identity,
    )
)  # fmt: skip
"""Primitives whose results are elements of their operands."""
MOST = 16
"""Nodes that are looked at from each operand of a comparison."""


def hold(outputs: Sequence[Tensor]) -> list[Tensor]:
    """`outputs`, with a barrier behind each computed tensor that is compared with itself, and each
    power whose logarithm is taken.
    """
    held: set[Tensor] = set()
    inside: dict[Tensor, dict[str, Any]] = {}
    for node in toposort(outputs):
        if node.op in COMPARISONS and is_float(node.inputs[0].spec.dtype):
            held |= _sources(node.inputs[0]) & _sources(node.inputs[1])
        elif node.op is ew.log and node.inputs[0].op is ew.pow:
            held.add(node.inputs[0])
        bodies = {name: _held(body) for name, body in graphs_of(node).items()}
        if any(body is not node.params[name] for name, body in bodies.items()):
            inside[node] = {**node.params, **bodies}
    if not held and not inside:
        return list(outputs)

    def kept(node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor | None:
        if node in inside:
            return Tensor(node.op, inputs, inside[node], node.spec, node.where, node._name)
        if node not in held:
            return None
        copy = rebuild(node, inputs)
        return barrier(copy, copy)

    return rewrite(outputs, kept)


def _held(body: Graph) -> Graph:
    """The body of a loop or a branch with barriers of its own; itself if it needs none."""
    outputs = hold(body.outputs)
    same = all(map(is_, outputs, body.outputs))
    return body if same else Graph(body.inputs, outputs)


def _sources(t: Tensor) -> set[Tensor]:
    """The computed tensors of which `t` has elements."""
    sources: set[Tensor] = set()
    waiting = [t]
    for _ in range(MOST):
        if not waiting:
            break
        node = waiting.pop()
        maker = node.inputs[0] if node.op is OUTPUT else node
        if maker.op in SELECTING:
            waiting += maker.inputs
        elif node.op not in (None, barrier) and is_float(node.spec.dtype):
            sources.add(node)
    return sources
