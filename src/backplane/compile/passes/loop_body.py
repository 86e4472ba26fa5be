"""The body of a loop, taken apart for the passes that move work out of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from backplane.compile.passes.simplify import simplify
from backplane.compile.passes.stacking import Value, all_steps, swapped
from backplane.core.graph import Constant, Graph, Placeholder, Tensor, rewrite, toposort
from backplane.core.primitive import OUTPUT, outputs_of
from backplane.core.spec import Spec


class Loop:
    """One scan: its body, taken apart, and the operands of the body's inputs."""

    def __init__(self, node: Tensor, operands: Sequence[Tensor]) -> None:
        body: Graph = node.params["body"]
        self.node, self.carry = node, node.params["carry"]
        n, m = self.carry, self.carry + node.params["xs"]
        numbers = {
            t: x for t, x in zip(body.inputs[m:], operands[m:], strict=True) if _is_number(x)
        }
        self.outputs = simplify(body.outputs, numbers, keep_stops=True)
        self.states, self.starts = list(body.inputs[:n]), list(operands[:n])
        self.rows, self.sequences = list(body.inputs[n:m]), list(operands[n:m])
        self.shared, self.constants = list(body.inputs[m:]), list(operands[m:])

    def turn(self) -> None:
        """Transpose the weights of x · Wᵀ once, instead of reading them across in each step."""
        turned: dict[Tensor, Tensor] = {}
        operand = dict(zip(self.shared, self.constants, strict=True))

        def plain(node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor | None:
            if not _is_product(node) or not node.params["transpose_y"] or inputs[1] not in operand:
                return None
            x, w = inputs
            if w not in turned:
                turned[w] = Placeholder(w.spec.with_shape(w.spec.shape[::-1]))
            params = {**node.params, "transpose_y": False}
            return Tensor(node.op, (x, turned[w]), params, node.spec, node.where)

        self.outputs = rewrite(self.outputs, plain)
        self.shared += turned.values()
        self.constants += [swapped(w, operand[w]) for w in turned]

    def outside(self) -> dict[Tensor, Value]:
        """What stands outside for the inputs that do not change from step to step, and for the
        constants.
        """
        known = {t: Value(x, True) for t, x in zip(self.rows, self.sequences, strict=True)}
        for t, x in zip(self.shared, self.constants, strict=True):
            known[t] = Value(x, False)
        for t in toposort(self.outputs):
            if isinstance(t, Constant):
                known[t] = Value(t, False)
        return known

    def scanned(self, kept: Sequence[int], outputs: Sequence[Tensor]) -> list[Tensor]:
        """The results of a scan with the `kept` states, and these outputs of its body."""
        states = [self.states[i] for i in kept]
        body = Graph([*states, *self.rows, *self.shared], outputs)
        operands = [self.starts[i] for i in kept] + self.sequences + self.constants
        params = {
            **self.node.params, "body": body, "carry": len(kept), "xs": len(self.rows),
        }  # fmt: skip
        op, where = self.node.op, self.node.where
        assert op is not None
        spec = op.infer(operands, params)
        return outputs_of(Tensor(op, tuple(operands), params, spec, where))


class Known:
    """What of a body is known outside of the loop, and what it takes."""

    def __init__(self, values: dict[Tensor, Value]) -> None:
        self.values = values
        self.products: set[Tensor] = set()
        """Nodes whose stacks are computed from a product: moving those pays."""
        self.large: set[Tensor] = set()
        """Nodes whose stacks take more room than what they are computed from."""

    def add(self, node: Tensor, operands: Sequence[Value]) -> bool:
        """Find what stands outside for `node`; whether there is such a thing."""
        value = all_steps(node, operands)
        if value is None:
            return False
        self.values[node] = value
        if value.stacked:
            assert node.op is not None
            if node.op.name == "matmul" or any(t in self.products for t in node.inputs):
                self.products.add(node)
            sizes = [
                _weight(t.spec) for t, v in zip(node.inputs, operands, strict=True) if v.stacked
            ]
            if _weight(node.spec) > max(sizes) or any(t in self.large for t in node.inputs):
                self.large.add(node)
        return True

    def pays(self, node: Tensor) -> bool:
        """Whether all steps at once are faster than step by step."""
        return node in self.products or node not in self.large


def _is_product(node: Tensor) -> bool:
    return node.op is not None and node.op.name == "matmul" and node.ndim == 2


def _is_number(t: Tensor) -> bool:
    return isinstance(t, Constant) and isinstance(t.value, np.ndarray) and t.value.ndim == 0


def movable(node: Tensor) -> bool:
    """Whether it makes no difference where a node runs, and it has one result."""
    return (
        node.op is not None and node.op is not OUTPUT and not (node.op.effect or node.op.multiple)
    )


def _weight(spec: Spec) -> int:
    """About how many elements; an unknown size counts as a middling one."""
    return int(np.prod([32 if n is None else n for n in spec.shape], dtype=np.int64))


def is_add(node: Tensor) -> bool:
    """Whether a node is a sum of two tensors."""
    return node.op is not None and node.op.name == "add"


def users_of(order: Iterable[Tensor], outputs: Sequence[Tensor]) -> Counter[Tensor]:
    """How often each tensor is read, as an operand or as an output."""
    users = Counter(outputs)
    for node in order:
        users.update(node.inputs)
    return users


def terms_of(node: Tensor, inner: set[Tensor]) -> list[Tensor]:
    """The terms of a sum whose partial sums are `inner`."""
    terms = []
    stack = [*reversed(node.inputs)]
    while stack:
        t = stack.pop()
        if t in inner:
            stack += reversed(t.inputs)
        else:
            terms.append(t)
    return terms
