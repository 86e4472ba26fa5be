"""The common part of the rooms `factorizations` of several engines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from backplane.core.graph import Graph, Placeholder
from backplane.core.registry import primitive
from backplane.core.spec import HALVES, Spec, is_float


def is_half(specs: Sequence[Spec], **params: Any) -> bool:
    """Whether operands are halves, for which libraries have no kernels: `Entry.unless`."""
    return specs[0].dtype in HALVES


def gradient_graph(
    name: str, specs: Sequence[Spec], params: Mapping[str, Any], flowing: Callable[[int], bool]
) -> tuple[Graph, list[bool]]:
    """The gradient rule of a primitive as a graph: from the operands, and the cotangents of the
    results that are `flowing`, to the cotangents of the operands that have one. The flags say which
    operands these are.
    """
    op = primitive(name)
    leaves = [Placeholder(spec) for spec in specs]
    result: Any = op(*leaves, **params)
    listed = result if op.multiple else [result]
    moving = [i for i, t in enumerate(listed) if is_float(t.spec.dtype) and flowing(i)]
    seeds = {i: Placeholder(listed[i].spec) for i in moving}
    given = [seeds.get(i) for i in range(len(listed))]
    node = listed[0].inputs[0] if op.multiple else result
    g, y = (given, listed) if op.multiple else (given[0], result)
    cotangents = (
        list(op.cotangents(g, y, node, [is_float(s.dtype) for s in specs])) if seeds else []
    )
    cotangents += [None] * (len(leaves) - len(cotangents))
    graph = Graph([*leaves, *seeds.values()], [t for t in cotangents if t is not None])
    return graph, [t is not None for t in cotangents]
