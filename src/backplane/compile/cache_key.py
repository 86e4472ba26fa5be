"""Keys for the structure of graphs: one compiled program serves all graphs with equal keys."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from backplane.core.graph import Constant, Graph, Tensor, is_scalar, toposort


def lifted(order: Sequence[Tensor]) -> list[Constant]:
    """The constants that become inputs of the program, so that it can be shared."""
    return [node for node in order if isinstance(node, Constant) and not is_scalar(node)]


def key_of(
    order: Sequence[Tensor], inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> Hashable:
    """The structure of the program from `inputs` to `outputs`, whose nodes are `order`."""
    number: dict[Tensor, int] = {}
    parts: list[Hashable] = []
    for i, node in enumerate(inputs):
        number[node] = i
        parts.append((node.spec.shape, node.spec.dtype))
    for node in order:
        if node in number:
            continue
        number[node] = len(number)
        if node.op is None:
            parts.append((node.spec.dtype, _bytes(node)))
        else:
            parts.append((node.op.name, *[number[t] for t in node.inputs], params_key(node.params)))
    return (len(inputs), tuple(parts), tuple(number[t] for t in outputs))


def _bytes(node: Tensor) -> Hashable:
    if isinstance(node, Constant):
        if is_scalar(node):
            return bytes(node.value.tobytes())
        return node  # itself, not its id, which another may get when this one is gone
    raise ValueError(f"{node!r} is used but is no input of the program")


def params_key(params: Mapping[str, Any]) -> Hashable:
    """Parameters as part of a key. Graphs among them are described by their structure."""
    if not params:
        return ()
    return tuple(
        [(k, graph_key(v) if isinstance(v, Graph) else _exact(v)) for k, v in params.items()]
    )


def _exact(value: object) -> Hashable:
    """A form that tells apart equal values that mean different programs: 1, 1.0, True, -0.0."""
    if type(value) is bool or type(value) is float:
        return (type(value), repr(value))
    return value


def graph_key(graph: Graph) -> Hashable:
    """The structure of a closed graph. It is computed once."""
    key = graph.cache.get("key")
    if key is None:
        key = graph.cache["key"] = key_of(toposort(graph.outputs), graph.inputs, graph.outputs)
    return key
