"""Gradients: one reverse walk over the graph, one rule per primitive. The result is graph again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from backplane.core.graph import Tensor, toposort
from backplane.core.primitive import OUTPUT, outputs_of
from backplane.core.registry import PRIMITIVES
from backplane.core.spec import is_float
from backplane.core.where import set_inherited

Cotangents = dict[Tensor, Any]


def gradients(
    losses: Sequence[Tensor], wrt: Sequence[Tensor], seeds: Sequence[Tensor | None] | None = None
) -> list[Tensor | None]:
    """Gradients of the sum of all elements of `losses` with respect to each of `wrt`.

    `seeds` are the cotangents of the losses (None in the list: ones). The result has None for what
    no loss depends on through differentiable primitives. `wrt` may hold leaves and any tensors
    between.
    """
    order = toposort(losses)
    reached = _reached(order, wrt)
    table: Cotangents = {}
    for loss, seed in zip(losses, seeds or [None] * len(losses), strict=True):
        if loss in reached:
            _accumulate(table, loss, _filled(loss, 1) if seed is None else seed)
    for node in reversed(order):
        if node in reached and node.op is not None and node in table:
            _backward(node, table, reached)
    return [table.get(t) for t in wrt]


def _reached(order: Sequence[Tensor], wrt: Sequence[Tensor]) -> set[Tensor]:
    """Nodes that depend on any of `wrt` through float values and primitives with a gradient."""
    reached = set()
    sources = set(wrt)
    for node in order:
        if node in sources:
            reached.add(node)
        elif node.op is OUTPUT:
            if node.inputs[0] in reached and is_float(node.spec.dtype):
                reached.add(node)
        elif (
            node.op is not None
            and node.op.differentiable
            and (node.op.multiple or is_float(node.spec.dtype))
            and any(t in reached for t in node.inputs)
        ):
            reached.add(node)
    return reached


def _backward(node: Tensor, table: Cotangents, reached: set[Tensor]) -> None:
    """Hand the cotangent of `node` on to its inputs."""
    op = node.op
    assert op is not None
    g = table[node]
    if op is OUTPUT:
        source = node.inputs[0]
        table.setdefault(source, [None] * len(source.spec))
        slots, index = table[source], node.params["index"]
        slots[index] = g if slots[index] is None else PRIMITIVES["add"](slots[index], g)
        return
    before = set_inherited(node.where)
    try:
        y: Any = outputs_of(node) if op.multiple else node
        if op.argument_rules is not None:
            nothing = not op.multiple and _is_zero(g)
            for rule, x in zip(op.argument_rules, node.inputs, strict=False):
                if rule is not None and x in reached:
                    # Rules are linear in g: zeros stay zeros and need not be computed.
                    found = _filled(x, 0) if nothing else rule(g, y, *node.inputs, **node.params)
                    _accumulate(table, x, found)
            return
        assert op.gradient is not None
        found = op.gradient(g, y, *node.inputs, **node.params)
        if not isinstance(found, list | tuple):
            found = (found,)
        for cotangent, x in zip(found, node.inputs, strict=False):
            if x in reached:
                _accumulate(table, x, cotangent)
    finally:
        set_inherited(before)


def _accumulate(table: Cotangents, x: Tensor, cotangent: Tensor | None) -> None:
    if cotangent is None:
        return
    known = table.get(x)
    if known is None or _is_zero(known):
        table[x] = cotangent
    elif not _is_zero(cotangent):
        table[x] = PRIMITIVES["add"](known, cotangent)


def _is_zero(g: Tensor) -> bool:
    """Whether a rule gave plain zeros: connected, but without influence."""
    return g.op is not None and g.op.name == "full" and g.params["value"] == 0


def _filled(x: Tensor, value: int) -> Tensor:
    dims = [PRIMITIVES["dim"](x, axis=i) for i, n in enumerate(x.spec.shape) if n is None]
    result: Tensor = PRIMITIVES["full"](*dims, shape=x.spec.shape, value=value, dtype=x.spec.dtype)
    return result
