"""A linker for PyTensor: a graph as straight-line Python over NumPy.

    def program(a0, a1):
        t0 = dot(a0, a1)
        t1 = tanh(t0, out=t0)
        return (t1,)

It is linked in a time linear in the graph, without a C compiler, and called without PyTensor's
cells. A result takes over the memory of an operand that nobody needs any more; a branch of `ifelse`
that is not taken is not computed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from pytensor.compile.mode import Mode
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.ifelse import IfElse
from pytensor.link.basic import JITLinker
from pytensor.scan.op import Scan

from backplane.core.registry import primitive
from backplane.core.source import Source
from backplane.engines.arrays.engine import without_warnings
from backplane.engines.base import Function
from backplane.engines.pytensor.calls import Call, call_of
from backplane.engines.pytensor.control import scan_call
from backplane.engines.pytensor.kernel import Kernel
from backplane.engines.pytensor.shape_calls import is_last

DEEPEST = 20
"""How far branches inside branches are kept lazy: Python does not indent without limit."""

Line = tuple[str, Any]
"""A line of text, and the mark of the line of the emitted program that it comes from."""

Region = tuple[tuple[Apply, int], ...]
"""Where a node is computed: the (ifelse, branch) pairs around it, outermost first."""


class Emission:
    """Writes the source of one graph and binds the objects that it names."""

    def __init__(self, graph: Any) -> None:
        self.inputs: Sequence[Variable] = graph.inputs
        self.outputs: Sequence[Variable] = graph.outputs
        self.results = set(self.outputs)
        self.order: list[Apply] = []
        self.calls: dict[Apply, Call] = {}
        self.region: dict[Apply, Region] = {}
        self.users: dict[Variable, list[Apply]] = defaultdict(list)
        self.source = Source("program")
        self.names: dict[Variable, str] = {x: f"a{i}" for i, x in enumerate(self.inputs)}
        self.lines: dict[Region, list[Line]] = defaultdict(list)
        self.later: list[str] = []
        """The names of the calls that write over operands, which the program leaves to be done."""
        self._plan(_writers_last(graph.toposort()))

    # --- planning: from the outputs back ----------------------------------------------------------

    def _plan(self, order: Sequence[Apply]) -> None:
        """What is needed, by which calls, and inside which branches."""
        wanted: dict[Variable, list[Region]] = defaultdict(list)
        for x in self.outputs:
            wanted[x].append(())
        for node in reversed(order):
            uses = [region for x in node.outputs for region in wanted.get(x, ())]
            if not uses:
                continue
            here = self.region[node] = _common(uses)
            self.order.append(node)
            call = self.calls[node] = self._call(node, wanted)
            for x in call.inputs:
                self.users[x].append(node)
            for x, region in self._reads(node, call, here):
                wanted[x].append(region)
        self.order.reverse()

    def _call(self, node: Apply, wanted: Any) -> Call:
        if isinstance(node.op, IfElse):
            condition, *rest = node.inputs
            n = node.op.n_outs
            used = [i for i, x in enumerate(node.outputs) if x in wanted]
            return Call(
                bool, [condition, *[rest[i] for i in used], *[rest[n + i] for i in used]], True
            )
        if isinstance(node.op, Scan):
            final = [self._only_last(x) for x in node.outputs]
            return scan_call(node, function_of, final) or call_of(node.op, node)
        return call_of(node.op, node)

    def _only_last(self, x: Variable) -> bool:
        """Whether nothing but `x[-1]` is read of a trace."""
        return x not in self.results and all(is_last(user) for user in self.users[x])

    @staticmethod
    def _reads(node: Apply, call: Call, here: Region) -> list[tuple[Variable, Region]]:
        """The operands of a call, and inside which branches they are needed for it."""
        if not isinstance(node.op, IfElse) or len(here) >= DEEPEST:
            return [(x, here) for x in call.inputs]
        condition, *rest = call.inputs
        half = len(rest) // 2
        branches = [(x, (*here, (node, int(i >= half)))) for i, x in enumerate(rest)]
        return [(condition, here), *branches]

    # --- writing: from the inputs on --------------------------------------------------------------

    def function(self) -> Function:
        """The program."""
        position = {node: i for i, node in enumerate(self.order)}
        last = {x: max(users, key=position.__getitem__) for x, users in self.users.items() if users}
        for node in self.order:
            here = self.region[node]
            lines = self.lines[here]
            if isinstance(node.op, IfElse):
                lines += self._branches(node, here)
            else:
                lines.append((self._line(node, last), getattr(node.tag, "place", None)))
            dead = [x for x in dict.fromkeys(self.calls[node].inputs) if self._dies(x, node, last)]
            if dead:
                lines.append((f"del {', '.join(self.names[x] for x in dead)}", None))
        with self.source.block(f"def program({', '.join(self.names[x] for x in self.inputs)}):"):
            for line, place in self.lines[()]:
                self.source.line(line, place)
            results = [self.name(x) for x in self.outputs]
            if self.later:
                results.append(f"[{', '.join([f'*{name}' for name in self.later])}]")
            self.source.line(f"return ({''.join([f'{x}, ' for x in results])})")
        return self.source.function("program")

    def _dies(self, x: Variable, node: Apply, last: dict[Variable, Apply]) -> bool:
        """Whether a value made here is read for the last time by `node`."""
        return (
            x.owner is not None
            and last[x] is node
            and x not in self.results
            and all(self.region[user] == self.region[x.owner] for user in self.users[x])
        )

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
        """Whether the result of `node` may be written to `x`."""
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

    def _branches(self, node: Apply, here: Region) -> list[Line]:
        """An `ifelse` as Python's own."""
        condition, *rest = self.calls[node].inputs
        half = len(rest) // 2
        used = [x for x in node.outputs if x in self.users or x in self.results]
        targets = [self._fresh(x) for x in used]
        lines: list[Line] = []
        for branch, head in enumerate((f"if {self.name(condition)}:", "else:")):
            values = rest[branch * half : (branch + 1) * half]
            moves = [(f"{t} = {self.name(x)}", None) for t, x in zip(targets, values, strict=True)]
            inner = self.lines.pop((*here, (node, branch)), [])
            lines += [(head, None), *[(f" {line}", mark) for line, mark in (*inner, *moves)]]
        return lines

    # --- names ------------------------------------------------------------------------------------

    def _fresh(self, x: Variable) -> str:
        name = self.names[x] = f"t{len(self.names)}"
        return name

    def name(self, x: Variable) -> str:
        """The expression for a variable."""
        if x not in self.names and isinstance(x, Constant):
            self.names[x] = self.source.bind(x.data, f"c{len(self.names)}")
        return self.names[x]


def _writers_last(order: Sequence[Apply]) -> list[Apply]:
    """`order`, but what writes over variables after all that may still read them, or fail."""
    writers = [n for n in order if _writes(n)]
    last = set(writers)
    return [*[n for n in order if n not in last], *writers]


def _writes(node: Apply) -> bool:
    """Whether a node leaves calls to be done which write over its operands."""
    return isinstance(node.op, Kernel) and primitive(node.op.name).in_place


def _common(regions: Sequence[Region]) -> Region:
    """The innermost region that holds all of them."""
    first = regions[0]
    for region in regions[1:]:
        shared = zip(first, region, strict=False)
        count = next((i for i, (a, b) in enumerate(shared) if a != b), min(len(first), len(region)))
        first = first[:count]
    return first


def function_of(graph: Any) -> Function:
    """A Python function over arrays that computes a PyTensor graph."""
    return Emission(graph).function()


class ArrayLinker(JITLinker):
    """Links to one Python function over arrays."""

    required_rewrites = ()

    def fgraph_convert(self, fgraph: Any, **_: Any) -> Function:
        """The graph as a function."""
        return function_of(fgraph)

    def jit_compile(self, fn: Function) -> Function:
        """The function, silent about floating-point errors."""
        return without_warnings(fn)

    def create_thunk_inputs(self, storage_map: Any) -> list[Any]:
        """The cells of the inputs."""
        return [storage_map[x] for x in self.fgraph.inputs]


ARRAYS = Mode(ArrayLinker(), None)
"""No rewrites: our own graph is simplified already, and PyTensor's take a time that grows faster
than the graph."""
