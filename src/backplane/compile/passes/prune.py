"""Dead code elimination in loops: removes results, states and operands that nobody reads.

Scans offer every intermediate value of their body to their gradient. Here the whole program is in
sight, so a scan is reduced to the results that are used, the states that these need, and the
operands that remain. What only fed a dropped operand goes with it.
"""

from __future__ import annotations

from collections.abc import Sequence

from backplane.core.graph import Graph, Tensor, rewrite, toposort
from backplane.core.primitive import OUTPUT
from backplane.core.trace import used_inputs
from backplane.ops.control import scan_


def prune(outputs: Sequence[Tensor]) -> list[Tensor]:
    """Equal outputs, whose scans compute only what somebody needs."""
    order = toposort(outputs)
    if not any(node.op is scan_ for node in order):
        return list(outputs)
    plans = _scans_to_cut(order, outputs)

    def pruned(node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor | None:
        if node in plans:
            return plans[node].rebuilt(node, inputs)
        if node.op is not OUTPUT or node.inputs[0] not in plans:
            return None
        index = plans[node.inputs[0]].position.get(node.params["index"])
        if index is None:
            return node  # Nobody reads it.
        return Tensor(OUTPUT, inputs, {"index": index}, node.spec, node.where)

    return rewrite(outputs, pruned, keep_specs=True)


class _Plan:
    """One scan, without the results, states and operands that nobody reads."""

    def __init__(self, node: Tensor, used: set[int]) -> None:
        body: Graph = node.params["body"]
        carry, xs = node.params["carry"], node.params["xs"]
        self.states = _needed_states(body, carry, used)
        self.ys = sorted(i for i in used if i >= carry)
        kept = [*self.states, *self.ys]
        self.position = {i: k for k, i in enumerate(kept)}
        outputs = prune([body.outputs[i] for i in kept])
        alive = used_inputs(Graph(body.inputs, outputs))
        operands = [
            i for i in range(len(body.inputs)) if body.inputs[i] in alive or i in self.states
        ]
        sequences = [i for i in operands if carry <= i < carry + xs]
        if not sequences and xs and node.params["length"] is None:
            # The number of steps is read from a sequence.
            operands = sorted({*operands, carry})
            sequences = [carry]
        self.operands = [i for i in operands if i >= carry or i in self.states]
        self.body = Graph([body.inputs[i] for i in self.operands], outputs)
        self.params = {
            **node.params, "body": self.body, "carry": len(self.states), "xs": len(sequences),
        }  # fmt: skip
        if not sequences and node.params["length"] is None:
            self.params["length"] = 0

    def rebuilt(self, node: Tensor, inputs: Sequence[Tensor]) -> Tensor:
        """The scan, rebuilt on those of its new operands that are left."""
        specs: tuple[object, ...] = node.spec
        operands = tuple([inputs[i] for i in self.operands])
        kept = tuple([specs[i] for i in self.position])
        return Tensor(node.op, operands, self.params, kept, node.where)  # type: ignore[arg-type]


def _scans_to_cut(order: Sequence[Tensor], outputs: Sequence[Tensor]) -> dict[Tensor, _Plan]:
    """Walk from the outputs to the leaves: a scan's users decide what it needs."""
    needed = set(outputs)
    used: dict[Tensor, set[int]] = {}
    plans: dict[Tensor, _Plan] = {}
    for node in reversed(order):
        if node not in needed:
            continue
        if node.op is OUTPUT:
            used.setdefault(node.inputs[0], set()).add(node.params["index"])
            needed.add(node.inputs[0])
        elif node.op is scan_:
            plans[node] = plan = _Plan(node, used.get(node, set()))
            needed.update(node.inputs[i] for i in plan.operands)
        else:
            needed.update(node.inputs)
    return plans


def _needed_states(body: Graph, carry: int, used: set[int]) -> list[int]:
    """The states that the used results depend on, over any number of steps."""
    needed: set[int] = set()
    waiting = list(used)
    position = {t: i for i, t in enumerate(body.inputs[:carry])}
    done: set[int] = set()
    while waiting:
        i = waiting.pop()
        if i in done:
            continue
        done.add(i)
        if i < carry:
            needed.add(i)
        waiting.extend(position[t] for t in toposort([body.outputs[i]]) if t in position)
    return sorted(needed)
