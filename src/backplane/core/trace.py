"""Closure conversion: closed graphs from Python functions, for bodies of loops and branches.

The function is called once, on fresh placeholders. Every tensor that it uses from outside becomes a
*captured* input of the graph, so a body shares no node with the graph around it. This also moves
work out of the loop if it does not depend on the function's inputs, unless it draws random numbers
or has an effect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from backplane.core.graph import (
    Graph,
    KeySource,
    Placeholder,
    Tensor,
    constant,
    is_scalar,
    substitute,
    toposort,
)
from backplane.core.spec import Spec


def trace(
    function: Callable[..., Sequence[Tensor]], specs: Sequence[Spec]
) -> tuple[Graph, list[Tensor], list[KeySource]]:
    """Call `function` on placeholders of these `specs`, and close the graph of its results.

    Return the graph, the captured tensors, and the key sources that were made inside. The inputs of
    the graph are the placeholders, then the captured tensors, then one key per key source.
    """
    mark = constant(0).serial
    inputs = [Placeholder(spec) for spec in specs]
    outputs = list(function(*inputs))
    return close(outputs, inputs, mark)


def close(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], mark: int, lazy: bool = False
) -> tuple[Graph, list[Tensor], list[KeySource]]:
    """Close the graph from `inputs` to `outputs`. Nodes with a serial number above `mark` were
    built for it.

    Nodes that do not depend on the inputs move out of it, unless it is `lazy`: a branch that is not
    taken must not run.
    """
    captured, keys = _split(outputs, inputs, mark, lazy)
    bound: dict[Tensor, Tensor] = {t: Placeholder(t.spec) for t in (*captured, *keys)}
    closed = substitute(outputs, bound) if bound else list(outputs)
    return Graph((*inputs, *bound.values()), closed), captured, keys


def _split(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], mark: int, lazy: bool
) -> tuple[list[Tensor], list[KeySource]]:
    """The tensors to capture and the key sources made inside."""
    bound = set(inputs)
    inside: set[Tensor] = set()
    keys: list[KeySource] = []
    for node in toposort(outputs, stop=bound):
        if node in bound:
            inside.add(node)
        elif isinstance(node, KeySource):
            if node.serial > mark:
                inside.add(node)
                keys.append(node)
        elif (
            node.op is not None
            and node.serial > mark
            and (lazy or node.op.effect or any(t in inside for t in node.inputs))
        ):
            inside.add(node)
    return _frontier(outputs, inside), keys


def _frontier(outputs: Sequence[Tensor], inside: set[Tensor]) -> list[Tensor]:
    """The tensors just outside of the graph: operands and outputs that are not its nodes."""
    edge: dict[Tensor, None] = {t: None for t in outputs if t not in inside}
    for node in sorted(inside, key=lambda t: t.serial):
        for t in node.inputs:
            if t not in inside:
                edge[t] = None
    return [t for t in edge if not is_scalar(t)]


def used_inputs(graph: Graph) -> set[Tensor]:
    """The inputs that at least one output of `graph` depends on."""
    needed = set(toposort(graph.outputs))
    return {t for t in graph.inputs if t in needed}


def call(graph: Graph, *arguments: Any) -> list[Tensor]:
    """The outputs of `graph` for other inputs: the graph is inlined."""
    return substitute(graph.outputs, dict(zip(graph.inputs, arguments, strict=True)))
