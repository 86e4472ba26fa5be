"""Closed graphs from Python functions: loop bodies and branches.

The function is called once on fresh placeholders. Whatever it uses of its surroundings becomes a
*captured* input of the graph, so that a body shares no node with the graph around it. Work inside
the function that does not depend on its inputs is thereby moved out of the loop, except where it
draws random numbers or has an effect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from backplane.core.graph import (
    Constant,
    Graph,
    KeySource,
    Placeholder,
    Tensor,
    constant,
    substitute,
    toposort,
)
from backplane.core.spec import Spec


def trace(
    function: Callable[..., Sequence[Tensor]], specs: Sequence[Spec]
) -> tuple[Graph, list[Tensor], list[KeySource]]:
    """Call `function` on placeholders of `specs` and close the graph of its results.

    Returns the graph, whose inputs are the placeholders, then the captured tensors, then one key
    per key source made inside; the captured tensors; and those key sources.
    """
    mark = constant(0).serial
    inputs = [Placeholder(spec) for spec in specs]
    outputs = list(function(*inputs))
    return close(outputs, inputs, mark)


def close(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], mark: int, lazy: bool = False
) -> tuple[Graph, list[Tensor], list[KeySource]]:
    """Close the graph from `inputs` to `outputs`; nodes with a serial above `mark` were built
    for it.

    Those that do not depend on the inputs are moved out, unless it is `lazy`: a branch that is not
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
    """The tensors just outside: inputs of inside nodes, and outputs that are not inside."""
    edge: dict[Tensor, None] = {t: None for t in outputs if t not in inside}
    for node in sorted(inside, key=lambda t: t.serial):
        for t in node.inputs:
            if t not in inside:
                edge[t] = None
    return [t for t in edge if not _inline(t)]


def _inline(node: Tensor) -> bool:
    """Scalar numbers stay in the body as they are."""
    return (
        isinstance(node, Constant) and isinstance(node.value, np.ndarray) and node.value.ndim == 0
    )


def used_inputs(graph: Graph) -> set[Tensor]:
    """The inputs that any output of `graph` depends on."""
    needed = set(toposort(graph.outputs))
    return {t for t in graph.inputs if t in needed}


def call(graph: Graph, *arguments: Any) -> list[Tensor]:
    """The outputs of `graph` on other inputs: inlining."""
    return substitute(graph.outputs, dict(zip(graph.inputs, arguments, strict=True)))
