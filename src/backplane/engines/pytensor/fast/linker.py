"""A linker for PyTensor: a graph as straight-line Python over NumPy.

    def program(a0, a1):
        t0 = dot(a0, a1)
        t1 = tanh(t0, out=t0)
        return (t1,)

It is linked in a time linear in the graph, without a C compiler, and called without PyTensor's
cells. A result takes over the memory of an operand that nobody needs any more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from pytensor.compile.mode import Mode
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.link.basic import JITLinker

from backplane.core.registry import primitive
from backplane.core.source import Source
from backplane.engines.arrays.engine import without_warnings
from backplane.engines.programs import Function
from backplane.engines.pytensor.array_op import ArrayOp
from backplane.engines.pytensor.fast.calls import Call, call_of


class Emission:
    """Writes the source of one graph and binds the objects that it names."""

    def __init__(self, graph: Any) -> None:
        self.inputs: Sequence[Variable] = graph.inputs
        self.outputs: Sequence[Variable] = graph.outputs
        self.results = set(self.outputs)
        self.order: list[Apply] = []
        self.calls: dict[Apply, Call] = {}
        self.users: dict[Variable, list[Apply]] = defaultdict(list)
        self.source = Source("program")
        self.names: dict[Variable, str] = {x: f"a{i}" for i, x in enumerate(self.inputs)}
        self.later: list[str] = []
        """The names of the calls that write over operands, which the program leaves to be done."""
        # What writes over variables comes after all that may still read them, or fail.
        self._plan(sorted(graph.toposort(), key=_writes))

    # --- planning: from the outputs back ----------------------------------------------------------

    def _plan(self, order: Sequence[Apply]) -> None:
        """Find the values that are needed, and the calls that need them."""
        wanted = set(self.outputs)
        for node in reversed(order):
            if wanted.isdisjoint(node.outputs):
                continue
            self.order.append(node)
            call = self.calls[node] = call_of(node.op, node)
            for x in call.inputs:
                self.users[x].append(node)
            wanted.update(call.inputs)
        self.order.reverse()

    # --- writing: from the inputs on --------------------------------------------------------------

    def function(self) -> Function:
        """The program."""
        position = {node: i for i, node in enumerate(self.order)}
        last = {x: max(users, key=position.__getitem__) for x, users in self.users.items() if users}
        with self.source.block(f"def program({', '.join(self.names[x] for x in self.inputs)}):"):
            for node in self.order:
                text = self._line(node, last)
                inputs = dict.fromkeys(self.calls[node].inputs)
                dead = [self.names[x] for x in inputs if self._dies(x, node, last)]
                deletion = f"; del {', '.join(dead)}" if dead else ""
                self.source.line(text + deletion, getattr(node.tag, "place", None))
            results = [self.name(x) for x in self.outputs]
            if self.later:
                results.append(f"[{', '.join([f'*{name}' for name in self.later])}]")
            self.source.line(f"return ({''.join([f'{x}, ' for x in results])})")
        return self.source.function("program")

    def _dies(self, x: Variable, node: Apply, last: dict[Variable, Apply]) -> bool:
        """Whether a value made here is read for the last time by `node`."""
        return x.owner is not None and last[x] is node and x not in self.results

    def _line(self, node: Apply, last: dict[Variable, Apply]) -> str:
        call = self.calls[node]
        function = self.source.bind(call.function, getattr(call.function, "__name__", "f"))
        operands = [self.name(x) for x in call.inputs]
        if call.in_place:
            target = next((x for x in call.inputs if self._reusable(x, node, last)), None)
            operands += [f"out={self.names[target]}"] if target is not None else []
        targets = ", ".join(self._fresh(x) for x in node.outputs)
        if _writes(node):
            self.later.append(f"later{len(self.later)}")
            targets = f"({targets},), {self.later[-1]}"
        return f"{targets} = {function}({', '.join(operands)})"

    def _reusable(self, x: Variable, node: Apply, last: dict[Variable, Apply]) -> bool:
        """Whether the result of `node` may be written to `x`. Code generation asks the same of our
        graphs (`Buffers.is_free`); this graph is PyTensor's, which its rewrites have changed.
        """
        kind = node.outputs[0].type
        return (
            kind.ndim > 0
            and None not in kind.shape
            and x.type == kind
            and x.owner in self.calls
            and self._is_new(x.owner)
            and self._dies(x, node, last)
            and all(self._is_new(user) for user in self.users[x])
        )

    def _is_new(self, node: Apply) -> bool:
        """Whether the results of `node` share no memory with its operands."""
        return not (self.calls[node].view or node.op.view_map or node.op.destroy_map)

    # --- names ------------------------------------------------------------------------------------

    def _fresh(self, x: Variable) -> str:
        name = self.names[x] = f"t{len(self.names)}"
        return name

    def name(self, x: Variable) -> str:
        """The expression for a variable."""
        if x not in self.names and isinstance(x, Constant):
            self.names[x] = self.source.bind(x.data, f"c{len(self.names)}")
        return self.names[x]


def _writes(node: Apply) -> bool:
    """Whether a node leaves calls to be done which write over its operands."""
    return isinstance(node.op, ArrayOp) and primitive(node.op.name).in_place


class ArrayLinker(JITLinker):
    """Links to one Python function over arrays."""

    required_rewrites = ()

    def fgraph_convert(self, fgraph: Any, **_: Any) -> Function:
        """The graph as a function."""
        return Emission(fgraph).function()

    def jit_compile(self, fn: Function) -> Function:
        """The function, silent about floating-point errors."""
        return without_warnings(fn)

    def create_thunk_inputs(self, storage_map: Any) -> list[Any]:
        """The cells of the inputs."""
        return [storage_map[x] for x in self.fgraph.inputs]


ARRAYS = Mode(ArrayLinker(), None)
"""No rewrites: our own graph is simplified already, and PyTensor's take a time that grows faster
than the graph."""
