"""Tensors that are computed once, because they are compared with elements of themselves.

A compiler that joins operations may compute a tensor again for each group of operations that reads
it, and round differently there: with a fused multiply-add in one group, without one in the other.
Then no element equals the maximum, and the gradient of the maximum is lost.
"""

from __future__ import annotations

from collections.abc import Sequence

from backplane.core.graph import Tensor, rebuild, rewrite, toposort
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
    """`outputs`, with a barrier behind each computed tensor that is compared with itself."""
    held: set[Tensor] = set()
    for node in toposort(outputs):
        if node.op in COMPARISONS and is_float(node.inputs[0].spec.dtype):
            held |= _sources(node.inputs[0]) & _sources(node.inputs[1])
    if not held:
        return list(outputs)

    def kept(node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor | None:
        if node not in held:
            return None
        copy = rebuild(node, inputs)
        return barrier(copy, copy)

    return rewrite(outputs, kept)


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
