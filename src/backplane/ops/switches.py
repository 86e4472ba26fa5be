"""Gradients under a switch: a branch that was not chosen contributes 0, and not NaN.

Rules multiply a cotangent by the slope, and 0 · ∞ is NaN. Where an operation stands in a branch of
a switch, its cotangent is 0 in the elements that were not chosen, and its values may be anything
there. So the products that its rule has built are replaced by `mul_no_nan`. Their other factors are
branches again, because a gradient of the gradient differentiates them, with a cotangent that is 0
in the same elements. Outside of switches rules stay as they are.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from backplane.core.graph import Graph, Placeholder, Tensor, constant, graphs_of, rebuild, toposort
from backplane.ops.effects import branch
from backplane.ops.elementwise import div, mul, mul_no_nan, number, one


def as_branch(x: Tensor) -> Tensor:
    """`x` as a branch that a switch may choose. Variables and constants have no rule that could
    multiply. Neither have placeholders, but those in the body of a loop stand for what is computed
    outside.
    """
    known = x.op is branch if x.op is not None else not isinstance(x, Placeholder)
    return x if known else branch(x)


def switches(node: Tensor) -> bool:
    """Whether a branch of a switch ends here, or in the graphs that a loop or a `cond` holds."""
    if node.op is branch:
        return True
    several = node.op is not None and node.op.multiple
    return several and any(map(_holds, graphs_of(node).values()))


def _holds(graph: Graph) -> bool:
    if "switches" not in graph.cache:
        graph.cache["switches"] = any(map(switches, toposort(graph.outputs)))
    return bool(graph.cache["switches"])


class Guard:
    """Makes the cotangents that a rule finds for the cotangents `sources` 0 where these are 0. The
    nodes of the rule have serial numbers above `mark`, by default that of a tensor made now.
    """

    def __init__(
        self, sources: Collection[Tensor], below: set[Tensor], mark: int | None = None
    ) -> None:
        """`below`: the nodes under a switch, which the operands of this rule join."""
        self.below = below
        self.mark = constant(0).serial if mark is None else mark
        self.seen: dict[Tensor, tuple[Tensor, bool]] = {t: (t, True) for t in sources}

    def safe(self, x: Tensor, cotangent: Tensor) -> Tensor:
        """The cotangent that the operand `x` gets."""
        self.below.add(x)
        return self.visit(cotangent)[0]

    def visit(self, node: Tensor) -> tuple[Tensor, bool]:
        """The replacement for a node, and whether it is computed from the cotangents."""
        if node not in self.seen:
            self.seen[node] = self._visited(node)
        return self.seen[node]

    def _visited(self, node: Tensor) -> tuple[Tensor, bool]:
        if node.serial <= self.mark or not node.inputs:
            return node, False
        visited = [self.visit(t) for t in node.inputs]
        moving = [i for i, (_, moves) in enumerate(visited) if moves]
        if not moving:
            return node, False
        inputs = tuple([t for t, _ in visited])
        made = node if inputs == node.inputs else rebuild(node, inputs)
        return self._safe(made, moving[0]) if len(moving) == 1 else made, True

    def _safe(self, node: Tensor, i: int) -> Tensor:
        """`node`, which is linear in its operand `i` alone, but 0 where that is 0."""
        op, inputs = node.op, node.inputs
        assert op is not None
        if op is mul or (op is div and i == 0):
            g, factor = inputs[i], inputs[1 - i]
            known = number(factor)
            if known is not None and math.isfinite(known) and (known or op is mul):
                return node
            return mul_no_nan(as_branch(factor if op is mul else div(one(factor), factor)), g)
        if op is mul_no_nan and i == 1:
            return mul_no_nan(as_branch(inputs[0]), inputs[1])
        if not op.scales or op is mul_no_nan or op.decomposition is None or len(inputs) < 2:
            return node
        plain = op.decomposition(*inputs, **node.params)
        safe = Guard([inputs[i]], set(), self.mark).visit(plain)[0]
        return node if safe is plain else safe
