"""Reverse-mode differentiation: gradients are graphs, made by one rule per primitive."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from backplane.core.context import NOTHING, changed, current, user_line
from backplane.core.graph import Tensor, toposort
from backplane.core.hooks import HOOKS
from backplane.core.primitive import OUTPUT, Primitive, outputs_of
from backplane.core.spec import is_float
from backplane.core.variable import Variable
from backplane.ops.creation import full
from backplane.ops.elementwise import add
from backplane.ops.shaping import ones_like, reshape_like, zeros_like
from backplane.ops.switches import Guard, switches

Cotangents = dict[Tensor, Any]
Picked = dict[Tensor, dict[int, Tensor]]
"""For nodes with several results, those that the graph picks. The gradient reads the same tensors,
so that a gradient of the gradient sees that it depends on them."""


class Group(NamedTuple):
    """A part of a graph that one primitive computes."""

    op: Primitive[Any]
    operands: tuple[Tensor, ...]
    params: Mapping[str, Any]
    end: Tensor
    """The node that the first result of `op` is equal to."""
    others: Mapping[Tensor, int]
    """The nodes inside that are equal to its other results, with the numbers of these. They may
    lack axes of size 1."""
    inside: frozenset[Tensor]
    """The nodes on the way from the operands to the end."""
    views: Mapping[Tensor, Tensor] = NOTHING
    """The operands that are tensors of the program in another shape, and these."""
    reshape: Tensor | None = None
    """The node inside that gives the end its shape, if that is not the shape of `op`'s result."""


class Slope(NamedTuple):
    """The facts about a tensor that `gradients` has returned. `K.function` treats gradients of
    variables in their own way where it splits the batch or scales the loss.
    """

    seeds: tuple[Tensor, ...]
    """The cotangents of the losses. The gradient is linear in them."""
    of_variable: bool
    """Whether it is the gradient with respect to a variable."""


def slope_of(t: Tensor) -> Slope | None:
    """The facts about `t` as a gradient, if the caller of `gradients` left the seeds out."""
    return t.__dict__.get("slope")


def gradients(
    losses: Sequence[Tensor],
    wrt: Sequence[Tensor],
    seeds: Sequence[Tensor | None] | None = None,
    stop: Sequence[Tensor] = (),
) -> list[Tensor | None]:
    """Gradients of the sum of all elements of `losses` with respect to each of `wrt`.

    `seeds` are the cotangents of the losses; None in the list stands for ones. `wrt` may hold
    leaves and any tensors in between; those in `stop` count as leaves. The result has None for a
    tensor that no loss depends on through differentiable primitives.
    """
    order = toposort(losses, stop)
    connected = reached(order, wrt)
    groups = _groups(order, {*wrt, *stop})
    table: Cotangents = {}
    made: list[Tensor] = []
    line, masked = user_line(), current().masked
    switched = set(order) if masked else set[Tensor]()
    with changed(line=line and line.of_gradient(), masked=masked) as here:
        for loss, seed in zip(losses, seeds or [None] * len(losses), strict=True):
            if loss in connected:
                made += [ones_like(loss)] if seed is None else []
                _accumulate(table, loss, made[-1] if seed is None else seed)
        picked: Picked = {}
        for node in reversed(order):
            if node.op is OUTPUT:
                picked.setdefault(node.inputs[0], {})[node.params["index"]] = node
            # A tensor of `wrt` may be the result of a primitive without a gradient.
            if node in table and (node.op is OUTPUT or (node.op and node.op.differentiable)):
                # Tensors of the gradient belong to the line of the original.
                here.line = node.where and node.where.of_gradient()
                here.masked = node in switched or switches(node)
                g = table[node] if isinstance(table[node], list) else [table[node]]
                under = Guard([t for t in g if t is not None], switched) if here.masked else None
                # The kernel of a group's gradient multiplies, where its single rules are guarded.
                if node in groups and under is None:
                    _backward_group(groups[node], table, connected)
                else:
                    _backward(node, table, connected, picked, under)
    cotangents = [table.get(t) for t in wrt]
    for x, t in zip(wrt, cotangents, strict=True):
        if t is not None and made:
            known = slope_of(t) or Slope((), False)
            of_variable = known.of_variable or isinstance(x, Variable)
            t.__dict__["slope"] = Slope((*known.seeds, *made), of_variable)
    return cotangents


def reached(order: Sequence[Tensor], wrt: Sequence[Tensor]) -> set[Tensor]:
    """The nodes that depend on any of `wrt` through float values and primitives with a gradient."""
    connected = set()
    sources = set(wrt)
    for node in order:
        if node in sources:
            connected.add(node)
        elif node.op is OUTPUT:
            if node.inputs[0] in connected and is_float(node.spec.dtype):
                connected.add(node)
        elif (
            node.op is not None
            and node.op.differentiable
            and (node.op.multiple or is_float(node.spec.dtype))
            and any(t in connected for t in node.inputs)
        ):
            connected.add(node)
    return connected


def _backward(
    node: Tensor,
    table: Cotangents,
    connected: set[Tensor],
    picked: Picked,
    under: Guard | None,
) -> None:
    """Hand the cotangent of `node` on to its operands."""
    op = node.op
    assert op is not None
    g = table[node]
    if op is OUTPUT:
        source = node.inputs[0]
        slots = table.setdefault(source, [None] * len(source.spec))
        index = node.params["index"]
        slots[index] = g if slots[index] is None else add(slots[index], g)
        if under is not None:
            under.below.add(source)
        return
    if op.argument_rules is not None and not op.multiple:
        # Rules are linear in g: zeros stay zeros and need not be computed.
        nothing = _is_zero(g)
        for rule, x in zip(op.argument_rules, node.inputs, strict=False):
            if rule is not None and x in connected:
                cotangent = zeros_like(x) if nothing else rule(g, node, *node.inputs, **node.params)
                _accumulate(table, x, cotangent, under)
        return
    wanted = [t in connected for t in node.inputs]
    y = outputs_of(node, picked.get(node)) if op.multiple else node
    for x, cotangent in zip(node.inputs, op.cotangents(g, y, node, wanted), strict=False):
        _accumulate(table, x, cotangent, under)


def _groups(order: Sequence[Tensor], asked: Collection[Tensor]) -> Mapping[Tensor, Group]:
    """The groups that nobody asks for an inner gradient of, by their ends."""
    groups = HOOKS["groups"](order)
    return {group.end: group for group in groups if group.inside.isdisjoint(asked)}


def _backward_group(group: Group, table: Cotangents, connected: set[Tensor]) -> None:
    """Hand the cotangent of a group's end to its operands. Other readers have their own share."""
    g: Any = table[group.end]
    y: Any = group.op(*group.operands, **group.params)
    node = y[0].inputs[0] if group.op.multiple else y
    if group.op.multiple:
        g = reshape_like(g, y[0]) if group.reshape is not None else g
        g = [g, *[None for _ in y[1:]]]
    sources = [group.views.get(t, t) for t in group.operands]
    wanted = [t in connected for t in sources]
    for x, cotangent in zip(sources, group.op.cotangents(g, y, node, wanted), strict=False):
        _accumulate(table, x, None if cotangent is None else reshape_like(cotangent, x))


def _accumulate(
    table: Cotangents, x: Tensor, cotangent: Tensor | None, under: Guard | None = None
) -> None:
    if cotangent is None:
        return
    if under is not None:
        cotangent = under.safe(x, cotangent)
    known = table.get(x)
    if known is None or _is_zero(known):
        table[x] = cotangent
    elif not _is_zero(cotangent):
        table[x] = add(known, cotangent)


def _is_zero(g: Tensor) -> bool:
    """Whether a rule gave plain zeros: the operand is connected, but has no influence."""
    return g.op is full and g.params["value"] == 0
