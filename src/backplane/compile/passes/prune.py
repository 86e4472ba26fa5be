"""Dead code elimination in loops: removes results, states and operands that nobody reads.

Scans offer every intermediate value of their body to their gradient. Here the whole program is in
sight, so a scan is reduced to the results that are used, the states that these need, and the
operands that remain. What only fed a dropped operand goes with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from backplane.core.graph import Graph, Results, Tensor, rewrite, toposort
from backplane.core.primitive import OUTPUT, outputs_of
from backplane.core.trace import used_inputs
from backplane.ops.control import scan_


def prune(outputs: Sequence[Tensor]) -> list[Tensor]:
    """Equal outputs, whose scans compute only what somebody needs."""
    order = toposort(outputs)
    if not any(node.op is scan_ for node in order):
        return list(outputs)
    smaller = _scans_to_cut(order, outputs)

    def pruned(node: Tensor, inputs: tuple[Tensor, ...]) -> Results | None:
        return smaller[node].results(node, inputs) if node in smaller else None

    return rewrite(outputs, pruned, keep_specs=True)


class _Smaller:
    """One scan, without the results, states and operands that nobody reads."""

    def __init__(self, node: Tensor, used: set[int]) -> None:
        body: Graph = node.params["body"]
        carry, xs = node.params["carry"], node.params["xs"]
        self.states = _needed_states(body, carry, used)
        self.ys = sorted(i for i in used if i >= carry)
        self.kept = [*self.states, *self.ys]
        outputs = prune([body.outputs[i] for i in self.kept])
        alive = used_inputs(Graph(body.inputs, outputs))
        kept = {*self.states, *[i for i, t in enumerate(body.inputs) if t in alive]}
        if xs and node.params["length"] is None and kept.isdisjoint(range(carry, carry + xs)):
            kept.add(carry)  # The number of steps is read from a sequence.
        self.operands = sorted(kept)
        sequences = [i for i in self.operands if carry <= i < carry + xs]
        self.body = Graph([body.inputs[i] for i in self.operands], outputs)
        self.params = {
            **node.params, "body": self.body, "carry": len(self.states), "xs": len(sequences),
        }  # fmt: skip
        if not sequences and node.params["length"] is None:
            self.params["length"] = 0

    def results(self, node: Tensor, inputs: Sequence[Tensor]) -> Results:
        """The results that are left, of the scan on those of its new operands that are left."""
        specs: Any = tuple([node.spec[i] for i in self.kept])
        operands = tuple([inputs[i] for i in self.operands])
        scan = Tensor(node.op, operands, self.params, specs, node.where)
        return dict(zip(self.kept, outputs_of(scan), strict=True))


def _scans_to_cut(order: Sequence[Tensor], outputs: Sequence[Tensor]) -> dict[Tensor, _Smaller]:
    """Walk from the outputs to the leaves: a scan's users decide what it needs."""
    needed = set(outputs)
    used: dict[Tensor, set[int]] = {}
    smaller: dict[Tensor, _Smaller] = {}
    for node in reversed(order):
        if node not in needed:
            continue
        if node.op is OUTPUT:
            used.setdefault(node.inputs[0], set()).add(node.params["index"])
            needed.add(node.inputs[0])
        elif node.op is scan_:
            smaller[node] = cut = _Smaller(node, used.get(node, set()))
            needed.update(node.inputs[i] for i in cut.operands)
        else:
            needed.update(node.inputs)
    return smaller


def _needed_states(body: Graph, carry: int, used: set[int]) -> list[int]:
    """The states that the used results depend on, over any number of steps."""
    waiting = list(used)
    position = {t: i for i, t in enumerate(body.inputs[:carry])}
    done: set[int] = set()
    while waiting:
        i = waiting.pop()
        if i not in done:
            done.add(i)
            waiting.extend(position[t] for t in toposort([body.outputs[i]]) if t in position)
    return sorted(i for i in done if i < carry)
