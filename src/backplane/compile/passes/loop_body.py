"""The body of a loop, taken apart for the passes that move work out of the loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from backplane.compile.passes.simplify import simplify
from backplane.core.context import changed
from backplane.core.graph import Constant, Graph, Placeholder, Tensor, is_scalar, rewrite, toposort
from backplane.core.primitive import OUTPUT, outputs_of
from backplane.core.shapes import elements
from backplane.core.sizes import assumption, tie
from backplane.core.spec import Spec
from backplane.core.traits import Stacked
from backplane.ops.control import sizes_inside
from backplane.ops.convolution import conv_kernel_grad
from backplane.ops.creation import dim
from backplane.ops.elementwise import add
from backplane.ops.linear import as_rows, matmul
from backplane.ops.reduction import sum as sum_
from backplane.ops.shaping import transpose


class Joining(NamedTuple):
    """The conversion of a loop's products, one for each step, to one product for all steps."""

    pays: Callable[[int | None], bool]
    """Tells whether one product is faster than a product per step. The argument is the number of
    rows in each step; None if it is unknown."""
    rows_first: bool = False
    """Whether the steps of the first row come first, then those of the second one. So an engine
    that has the rows in parts can go on with these parts."""
    before: Callable[[int | None], bool] | None = None
    """Whether it is faster for what comes before the loop, if that is another question."""
    sums: Callable[[Tensor], bool] = lambda node: True
    """Whether it is faster for a product whose results in all steps are added up."""

    def early(self) -> Joining:
        """The conversion of the products that come before the loop."""
        return self if self.before is None else self._replace(pays=self.before)

    def adds_up(self, node: Tensor) -> bool:
        """Whether the results of a node in all steps are added up as one, if they can be. Gradients
        of kernels are if the rows are in parts: elsewhere that only takes more memory.
        """
        if node.op is conv_kernel_grad:
            return self.rows_first
        return self.sums(node)


class Loop:
    """One scan: its body, taken apart, and the operands that its inputs stand for."""

    def __init__(self, node: Tensor, operands: Sequence[Tensor], joining: Joining) -> None:
        self.joining = joining
        body: Graph = node.params["body"]
        self.node, self.carry = node, node.params["carry"]
        n, m = self.carry, self.carry + node.params["xs"]
        numbers = {t: x for t, x in zip(body.inputs[m:], operands[m:], strict=True) if is_scalar(x)}
        tied = _tied(body, operands, n, node.params["xs"])
        self.outputs = simplify(body.outputs, {**tied, **numbers}, keep_stops=True)
        inputs = [tied.get(t, t) for t in body.inputs]
        self.states, self.starts = inputs[:n], list(operands[:n])
        self.rows, self.sequences = inputs[n:m], list(operands[n:m])
        self.shared, self.constants = inputs[m:], list(operands[m:])

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
        with changed(line=self.node.where):
            self.constants += [transpose(operand[w], perm=(1, 0)) for w in turned]

    def stacked(self, x: Tensor) -> Stacked:
        """The values of all steps."""
        return Stacked(x, True, self.joining.rows_first)

    def outside(self) -> dict[Tensor, Stacked]:
        """Replacements, outside of the loop, for its constants and unchanging inputs."""
        known = {t: self.stacked(x) for t, x in zip(self.rows, self.sequences, strict=True)}
        for t, x in zip(self.shared, self.constants, strict=True):
            known[t] = Stacked(x, False)
        for t in toposort(self.outputs):
            if isinstance(t, Constant):
                known[t] = Stacked(t, False)
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


def _tied(body: Graph, operands: Sequence[Tensor], carry: int, xs: int) -> dict[Tensor, Tensor]:
    """Inputs in place of a body's, with the equal sizes that the present assumption tells."""
    assumed = assumption()
    if assumed is None:
        return {}
    tied: dict[Tensor, Tensor] = {}
    for (leaf, axis), source in sizes_inside(assumed, body, operands, carry, xs).same.items():
        if leaf not in tied:
            tied[leaf] = Placeholder(leaf.spec)
        tie(tied[leaf], axis, *source)
    return tied


class Known:
    """The part of a body that can be computed outside of the loop, and what it needs."""

    def __init__(self, loop: Loop, joining: Joining) -> None:
        self.values = loop.outside()
        self.joining = joining
        self.products: set[Tensor] = set()
        """Nodes whose stacks are computed from a product: moving those pays."""
        self.large: set[Tensor] = set()
        """Nodes whose stacks take more room than what they are computed from."""

    def add(self, node: Tensor, operands: Sequence[Stacked]) -> bool:
        """Find what stands outside for `node`. Return whether there is anything."""
        value = all_steps(node, operands, self.joining)
        if value is None:
            return False
        self.values[node] = value
        if value.stacked:
            assert node.op is not None
            if node.op is matmul or any(t in self.products for t in node.inputs):
                self.products.add(node)
            sizes = [
                weight(t.spec) for t, v in zip(node.inputs, operands, strict=True) if v.stacked
            ]
            if weight(node.spec) > max(sizes) or any(t in self.large for t in node.inputs):
                self.large.add(node)
        return True

    def pays(self, node: Tensor) -> bool:
        """Whether computing all steps at once is faster than step by step."""
        return node in self.products or node not in self.large


def _is_product(node: Tensor) -> bool:
    return node.op is matmul and node.ndim == 2


def movable(node: Tensor) -> bool:
    """Whether a node may run anywhere, and has one result."""
    return (
        node.op is not None and node.op is not OUTPUT and not (node.op.effect or node.op.multiple)
    )


def weight(spec: Spec) -> int:
    """The approximate number of elements. An unknown size counts as a middling one."""
    return elements(spec.shape, unknown=32)


# --- all steps at once ----------------------------------------------------------------------------


def all_steps(node: Tensor, operands: Sequence[Stacked], joining: Joining) -> Stacked | None:
    """The results of `node` in all steps; None if no rule gives them."""
    assert node.op is not None
    with changed(line=node.where):
        if not any(v.stacked for v in operands):
            return Stacked(node.op(*[v.tensor for v in operands], **node.params), stacked=False)
        if node.op.stacks is None or (node.op is matmul and not joining.pays(node.spec.shape[0])):
            return None
        tensor = node.op.stacks(node, operands)
    return None if tensor is None else Stacked(tensor, node.op is not dim, joining.rows_first)


def over_steps(node: Tensor, operands: Sequence[Stacked]) -> Tensor | None:
    """The sum over the steps of the results of a product, a kernel's gradient or a sum, from the
    stacks of its operands.

    None for other nodes, and if the operands do not fit.
    """
    if not all(v.stacked for v in operands):
        return None
    with changed(line=node.where):
        if is_accumulated(node):
            assert node.op is not None
            x, y = [as_rows(v.tensor, v.rows_first) for v in operands]
            return None if x is None or y is None else node.op(x, y, **node.params)
        if node.op is sum_ and not node.params["keepdims"]:
            (stack, _, rows_first), axes = operands[0], node.params["axes"]
            joins = axes == (0,) and stack.ndim == 3
            rows = as_rows(stack, rows_first) if joins else None
            if rows is not None:
                return sum_(rows, **node.params)
            return sum_(stack, axes=(0, *[i + 1 for i in axes]), keepdims=False)
    return None


def is_accumulated(node: Tensor) -> bool:
    """Whether the node is xᵀ · y or a kernel's gradient, whose sum over steps is one result."""
    product = {"transpose_x": True, "transpose_y": False}
    plain = node.op is matmul and node.ndim == 2 and dict(node.params) == product
    return plain or node.op is conv_kernel_grad


def plus(node: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """The sum of two tensors, which belongs to the same line of code as `node`."""
    with changed(line=node.where):
        return add(x, y)
