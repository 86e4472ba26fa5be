"""Scale and shift behind the reshape of a normalization.

Many programs split channels into groups, normalize each, put the channels together again, and
multiply by gamma and add beta only then. Before the reshape each element would meet the same gamma,
so a kernel can take both there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from backplane.compile.fuse.readers import users_of
from backplane.core.graph import Tensor
from backplane.core.shapes import Sizes
from backplane.ops.autodiff import Group
from backplane.ops.elementwise import add, mul
from backplane.ops.groups import is_vector, normalize
from backplane.ops.shaping import reshape


def with_scales(
    groups: Sequence[Group], order: Sequence[Tensor], outputs: Sequence[Tensor] = ()
) -> list[Group]:
    """`groups`, in which normalizations go on to their scale and shift behind a reshape, if nobody
    else reads what lies between.
    """
    if not any(map(_lacks_scale, groups)):
        return list(groups)
    users = users_of(order)
    return [_scaled(group, users, outputs) if _lacks_scale(group) else group for group in groups]


def _lacks_scale(group: Group) -> bool:
    sizes = group.end.spec.shape[-2:]
    return group.op is normalize and len(group.operands) == 1 and None not in sizes


def _scaled(
    group: Group, users: Mapping[Tensor, Sequence[Tensor]], outputs: Sequence[Tensor]
) -> Group:
    """The group up to its shift, if there is one."""
    between, node = list[Tensor](), group.end
    for op in (reshape, mul, add):
        readers = users.get(node, ())
        if len(readers) != 1 or readers[0].op is not op or node in outputs:
            return group
        between.append(node)
        (node,) = readers
    _, merged, product = between
    sizes = group.end.spec.shape[-2:]
    vectors = [_beside(merged, product), _beside(product, node)]
    alike = [t for t in vectors if is_vector(t.spec) and _fits(t, sizes)]
    split = [_split(t, sizes, users) for t in alike]
    if len(split) < 2 or not merged.spec == product.spec == node.spec:
        return group
    whole = group._replace(
        operands=(*group.operands, *split), end=node, inside=group.inside.union(between),
        views=dict(zip(split, vectors, strict=True)), reshape=merged,
    )  # fmt: skip
    fused = group.op.fused
    assert fused is not None
    fits = fused.fits(*[t.spec for t in whole.operands], **whole.params)
    return whole if fits and _fits(merged, sizes) else group


def _beside(x: Tensor, node: Tensor) -> Tensor:
    """The other operand of a sum or product with `x`."""
    return node.inputs[node.inputs[0] is x]


def _fits(t: Tensor, sizes: Sizes) -> bool:
    """Whether the last axis of `t` is that of all groups together."""
    return t.spec.shape[-1:] == (math.prod(n or 0 for n in sizes),)


def _split(t: Tensor, sizes: Sizes, users: Mapping[Tensor, Sequence[Tensor]]) -> Tensor:
    """A vector in groups. The reshape that a gradient has made serves again."""
    known = [x for x in users[t] if x.op is reshape and x.spec.shape == sizes]
    return known[0] if known else reshape(t, shape=sizes)
