"""Mixed precision: the graph of a function in which products run in float16 or bfloat16.

Each primitive declares how it takes part (`core.tensor.Precision`). Variables, what is fed and what
is returned stay float32. Gradients are part of the graph, so they come along.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from backplane.core.context import changed
from backplane.core.graph import Graph, Tensor, constant, graphs_of, is_array, rewrite
from backplane.core.primitive import OUTPUT
from backplane.core.traits import Precision
from backplane.core.variable import Variable
from backplane.ops.creation import full
from backplane.ops.elementwise import cast

WIDE = "float32"

After = Callable[[Tensor, Tensor], Tensor]
"""A function of a node as it was and as it is now. It returns what takes its place."""


class Lowering:
    """Rewrites graphs for a low precision; the last operations of `precise` keep theirs."""

    def __init__(self, dtype: str, ends: Collection[Tensor] = (), precise: Sequence[Tensor] = ()):
        self.dtype = dtype
        self.ends = ends
        """Tensors that keep their dtype: gradients, from which new values are computed."""
        self.precise = self._region(precise)
        self.loose: set[Tensor] = set()
        """Numbers and weights, which take the precision of what they meet."""
        self._casts: dict[tuple[Tensor, str], Tensor] = {}
        self._graphs: dict[Graph, Graph] = {}

    def _region(self, precise: Sequence[Tensor]) -> set[Tensor]:
        """The nodes that lead to `precise` through operations that would follow their operands."""
        region: set[Tensor] = set()
        waiting = list(precise)
        while waiting:
            node = waiting.pop()
            follows = node.op is not None and node.op.precision in _FOLLOWING
            if follows and node not in region and node not in self.ends:
                region.add(node)
                waiting += node.inputs
        return region

    def run(self, outputs: Sequence[Tensor], after: After | None = None) -> list[Tensor]:
        """Equal outputs, of the same dtypes. `after` sees each node that has a primitive."""

        def rule(node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor | None:
            if node.op is None or node.op is OUTPUT:
                if is_array(node) or isinstance(node, Variable):
                    self.loose.add(node)
                return None
            made = self._made(node, self._operands(node, inputs))
            if node in self.ends:
                made = self._as(made, node.spec.dtype)
            return made if after is None else after(node, made)

        results = rewrite(outputs, rule)
        return [self._as(t, old.spec.dtype) for t, old in zip(results, outputs, strict=True)]

    def _made(self, node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor:
        """The node on other operands. Loops and branches hold graphs, which are rewritten too."""
        assert node.op is not None
        graphs = {name: self._graph(graph) for name, graph in graphs_of(node).items()}
        if inputs == node.inputs and not graphs:
            return node
        params = {**node.params, **graphs}
        spec = node.op.infer(inputs, params)
        return Tensor(node.op, inputs, params, spec, node.where, node._name)

    def _graph(self, graph: Graph) -> Graph:
        if graph not in self._graphs:
            self._graphs[graph] = Graph(graph.inputs, Lowering(self.dtype).run(graph.outputs))
        return self._graphs[graph]

    def _operands(self, node: Tensor, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The new operands in the dtypes in which the node is to take them."""
        assert node.op is not None
        pairs = [*zip(node.inputs, inputs, strict=True)]
        wide = [(old, new) for old, new in pairs if old.spec.dtype == WIDE]
        how = Precision.FULL if node in self.precise else node.op.precision
        low = how is Precision.LOW
        if how in _FOLLOWING:
            if node.op is full or (wide and all(new in self.loose for _, new in wide)):
                self.loose.add(node)
            low = any(new.spec.dtype == self.dtype for _, new in wide) and all(
                new.spec.dtype == self.dtype or self._gives_way(new, how) for _, new in wide
            )
        dtypes = [self.dtype if low and t.spec.dtype == WIDE else t.spec.dtype for t in node.inputs]
        return tuple(map(self._as, inputs, dtypes))

    def _gives_way(self, t: Tensor, how: Precision) -> bool:
        """Whether a float32 operand is cast to the low precision of the others."""
        if how is Precision.BOUNDS and is_array(t):
            return bool((t.value.astype(self.dtype).astype(WIDE) == t.value).all())
        return t in self.loose

    def _as(self, t: Tensor, dtype: str) -> Tensor:
        """`t` in a dtype. Each tensor is cast once."""
        if t.spec.dtype == dtype or not isinstance(t.spec, tuple):
            return t
        if t.op is cast and t.inputs[0].spec.dtype == dtype == self.dtype:
            return t.inputs[0]
        key = (t, dtype)
        if key not in self._casts:
            with changed(line=t.where):
                self._casts[key] = constant(t.value, dtype) if is_array(t) else cast(t, dtype=dtype)
        return self._casts[key]


_FOLLOWING = (Precision.FOLLOWS, Precision.BOUNDS)
