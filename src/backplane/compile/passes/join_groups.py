"""Joins groups: one node in the place of what a program writes as a dozen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from backplane.compile.cache_key import params_key
from backplane.compile.fuse.groups import groups_in
from backplane.compile.fuse.products import chains_in
from backplane.compile.fuse.readers import serves, users_of
from backplane.compile.fuse.scales import with_scales
from backplane.core.context import changed
from backplane.core.graph import Tensor, rebuild, toposort
from backplane.core.primitive import outputs_of
from backplane.engines.base import Engine
from backplane.ops.autodiff import Group
from backplane.ops.groups import attention, is_vector, normalize_by, rms_normalize
from backplane.ops.linear import matmul
from backplane.ops.shaping import squeeze


def join_groups(outputs: Sequence[Tensor]) -> list[Tensor]:
    """`outputs`, with the primitive of each group in the place of its nodes, unless others read
    these too. Gradients of groups have already such nodes, which are used again.
    """
    order = toposort(outputs)
    groups = with_scales(groups_in(order), order, outputs)
    if not groups:
        return list(outputs)
    users = users_of(order)
    ops = {group.op for group in groups}
    made = {(t.op, t.inputs, params_key(t.params)): t for t in order if t.op in ops}
    instead: dict[Tensor, Tensor] = {}
    for group in groups:
        if _is_closed(group, users, outputs):
            results = _made(group, made)
            instead[group.end], shape = results[0], group.reshape
            if shape is not None:  # The program reshapes the result.
                inputs = results[0], *shape.inputs[1:]
                instead[group.end] = rebuild(shape, inputs, keep_spec=True)
            for t, i in group.others.items():
                y = results[i]
                instead[t] = y if t.ndim == y.ndim else squeeze(y, axes=group.params["axes"])
    return _with(outputs, instead)


def join_normalizations(outputs: Sequence[Tensor], engine: Engine) -> list[Tensor]:
    """`outputs`, lowered for `engine`, with the primitives without a gradient in the place of what
    they compute, unless others read what is inside: `normalize_by` and `rms_normalize`.
    """
    if {normalize_by.name, rms_normalize.name}.isdisjoint(engine.table):
        return list(outputs)
    order = toposort(outputs)
    groups = groups_in(order, differentiable=False)
    return _alone(outputs, groups, users_of(order) if groups else {}, engine)


def join_products(outputs: Sequence[Tensor], engine: Engine) -> list[Tensor]:
    """The same for chains of products: `attention`."""
    if attention.name not in engine.table:
        return list(outputs)
    order = toposort(outputs)
    if not any(t.op is matmul for t in order):
        return list(outputs)
    users = users_of(order)
    return _alone(outputs, chains_in(order, users), users, engine)


def _alone(
    outputs: Sequence[Tensor],
    groups: Sequence[Group],
    users: Mapping[Tensor, Sequence[Tensor]],
    engine: Engine,
) -> list[Tensor]:
    """`outputs`, with a node in the place of each group that `engine` has a kernel for, unless
    others read what is inside.
    """
    instead: dict[Tensor, Tensor] = {}
    for group in groups:
        own = {*group.inside, group.end}
        large = {t for t in group.inside if not is_vector(t.spec)}
        alone = all(own.issuperset(users[t]) for t in large) and large.isdisjoint(outputs)
        (node,) = _listed(group)
        if alone and serves(engine, node) and node.spec == group.end.spec:
            instead[group.end] = node
    return _with(outputs, instead) if instead else list(outputs)


def _made(group: Group, made: Mapping[Any, Tensor]) -> list[Tensor]:
    """The results of the group's primitive on its operands, from its node if there is one."""
    results = made.get((group.op, group.operands, params_key(group.params)))
    if results is None:
        return _listed(group)
    return outputs_of(results) if group.op.multiple else [results]


def _listed(group: Group) -> list[Tensor]:
    with changed(line=group.end.where):
        results = group.op(*group.operands, **group.params)
    return results if isinstance(results, list) else [results]


def _is_closed(
    group: Group, users: Mapping[Tensor, Sequence[Tensor]], outputs: Sequence[Tensor]
) -> bool:
    """Whether only the group, and results of its primitive, read what is inside of it."""
    own = {*group.inside, group.end}
    read = {t for t in group.inside if not own.issuperset(users[t])}
    read |= group.inside.intersection(outputs)
    if not read:
        return True
    return read.issubset(group.others) and read.isdisjoint(toposort(group.operands[1:]))


def _with(outputs: Sequence[Tensor], instead: Mapping[Tensor, Tensor]) -> list[Tensor]:
    """`outputs`, with tensors replaced as the table says, wherever they are read."""
    new: dict[Tensor, Tensor] = {}
    stack = list(outputs)
    while stack:
        node = stack[-1]
        other = instead.get(node)
        waiting = [t for t in (node.inputs if other is None else (other,)) if t not in new]
        if waiting:
            stack += waiting
            continue
        stack.pop()
        if other is not None:
            new[node] = new[other]
        elif node not in new:
            inputs = tuple([new[t] for t in node.inputs])
            new[node] = node if inputs == node.inputs else rebuild(node, inputs, keep_spec=True)
    return [new[t] for t in outputs]
