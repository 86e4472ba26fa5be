"""The closed graphs of loops and branches, which read the sizes that they need inside.

Engines with `host_shapes` need sizes as plain ints. What a loop or a branch is handed is a value
that its library traces, so a size from outside would be one too. Therefore a body gets the tensor
and not its size, and reads the size there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from backplane.core import trace as core
from backplane.core.graph import (
    Graph,
    KeySource,
    Placeholder,
    Tensor,
    constant,
    substitute,
    toposort,
)
from backplane.core.sizes import origin, tie
from backplane.core.spec import Spec, is_float
from backplane.ops.creation import dim, sizes_among

Closed = tuple[Graph, list[Tensor], list[KeySource]]
"""A graph, the tensors from outside that its inputs stand for, and the random keys made inside."""


def trace(function: Callable[..., Sequence[Tensor]], specs: Sequence[Spec]) -> Closed:
    """Like `core.trace.trace`, with sizes read inside."""
    graph, captured, keys = core.trace(function, specs)
    return _reading_sizes(graph, captured, keys)


def branch(outputs: Sequence[Tensor], mark: int) -> Closed:
    """The graph of a branch, whose nodes were built after the serial number `mark`."""
    return _reading_sizes(*core.close(outputs, (), mark, lazy=True))


def _reading_sizes(graph: Graph, captured: list[Tensor], keys: list[KeySource]) -> Closed:
    """The graph without sizes as inputs: it reads them from its inputs, or tensors for that."""
    whole = [t for t in captured if t.inputs and not is_float(t.spec.dtype)]
    known = sizes_among(toposort(whole)) if whole else ()
    sizes = [t for t in whole if t in known]
    if not sizes:
        return graph, captured, keys
    own = graph.inputs[: len(graph.inputs) - len(captured) - len(keys)]
    given = dict(zip(captured, graph.inputs[len(own) :], strict=False))
    same = {
        origin(leaf, i): (leaf, i)
        for leaf in own
        for i, n in enumerate(leaf.spec.shape)
        if n is None
    }
    needed = toposort(sizes, stop=[t for t in known if t.op is dim])
    inner: dict[Tensor, Tensor] = {}
    for node in needed:
        if node.op is dim:
            source, axis = node.inputs[0], node.params["axis"]
            if source.spec.shape[axis] is not None:
                inner[node] = constant(source.spec.shape[axis], "int32")
                continue
            leaf, i = same.get(origin(source, axis), (None, axis))
            if leaf is None:
                leaf = given.setdefault(source, Placeholder(source.spec))
                tie(leaf, axis, source, axis)
            inner[node] = dim(leaf, axis=i)
    computed = substitute(sizes, inner, keep_specs=True)
    bound = {given.pop(t): size for t, size in zip(sizes, computed, strict=True)}
    inputs = [*own, *given.values(), *graph.inputs[len(graph.inputs) - len(keys) :]]
    return Graph(inputs, substitute(graph.outputs, bound)), [*given], keys


def over(operands: Sequence[Tensor], graph: Graph, captured: Sequence[Tensor]) -> Graph:
    """`graph` with inputs for all `operands`, of which its last inputs stand for `captured`."""
    own = graph.inputs[: len(graph.inputs) - len(captured)]
    binders = {t: Placeholder(t.spec) for t in operands}
    bound = dict(zip(graph.inputs[len(own) :], [binders[t] for t in captured], strict=True))
    return Graph([*own, *binders.values()], substitute(graph.outputs, bound))
