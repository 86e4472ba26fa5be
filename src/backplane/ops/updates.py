"""Steps of optimizers over several parameters at once.

No K code builds these. `compile.passes` finds them in programs, for engines with kernels that write
the new values over the old ones. The operands are scalars, then equally many parameters, states and
gradients. The decompositions say what is computed.
"""

from __future__ import annotations

from collections.abc import Sequence

from backplane.core.graph import Tensor
from backplane.core.primitive import primitive
from backplane.core.spec import Spec
from backplane.core.traits import Memory, like_first
from backplane.ops.creation import scalar, shaped_as
from backplane.ops.elementwise import (
    add,
    cast,
    div,
    less,
    maximum,
    mul,
    not_equal,
    sqrt,
    sub,
    where,
)
from backplane.ops.indexing import check_fit, gather, scatter_add, slice
from backplane.ops.reduction import cumsum
from backplane.ops.scattering import scatter_set
from backplane.ops.shaping import concat, reshape
from backplane.ops.sorting import sort


def _split(tensors: Sequence[Tensor], kinds: int) -> list[Sequence[Tensor]]:
    count = len(tensors) // kinds
    return [tensors[i * count : (i + 1) * count] for i in range(kinds)]


@primitive(multiple=True, in_place=True, memory=Memory.ANY)
def gradient_update(factor: Spec, *tensors: Spec) -> list[Spec]:
    """Plain descent, p' = p + factor · g: [*p']."""
    return list(tensors[: len(tensors) // 2])


@gradient_update.decompose
def _(factor: Tensor, *tensors: Tensor) -> list[Tensor]:
    pairs = zip(*_split(tensors, 2), strict=True)
    return [add(p, mul(cast(factor, dtype=p.spec.dtype), g)) for p, g in pairs]


@primitive(multiple=True, in_place=True, memory=Memory.ANY)
def average_update(decay: Spec, gain: Spec, *tensors: Spec) -> list[Spec]:
    """Moving averages, v' = decay · v + gain · x: [*v']. `tensors` are all v, then all x."""
    return list(tensors[: len(tensors) // 2])


@average_update.decompose
def _(decay: Tensor, gain: Tensor, *tensors: Tensor) -> list[Tensor]:
    found = []
    for v, x in zip(*_split(tensors, 2), strict=True):
        a, b = [cast(t, dtype=v.spec.dtype) for t in (decay, gain)]
        found.append(add(mul(a, v), mul(b, x)))
    return found


@primitive(memory=Memory.FRESH, linear=(0, 1), axes=like_first)
def rows_add(x: Spec, g: Spec, indices: Spec) -> Spec:
    """`x` of known sizes, to whose rows at `indices` the rows of `g` are added: x + scatter_add(g,
    indices). Put into programs by the compiler, for engines that add in the memory of `x`.
    """
    scatter_add.infer_rule(g, indices, shape=x.shape, axis=0)
    return x


@rows_add.decompose
def _(x: Tensor, g: Tensor, indices: Tensor) -> Tensor:
    return add(x, scatter_add(g, indices, shape=x.spec.shape, axis=0))


@primitive(multiple=True, in_place=True, memory=Memory.ANY)
def rows_update(factor: Spec, p: Spec, *tensors: Spec) -> list[Spec]:
    """Plain descent by the gradients of lookups in one table, p' = p + factor · Σ scatter_add(g,
    indices): [p']. `tensors` are all g, then all indices. Other rows are neither read nor written.
    """
    return [p]


@rows_update.decompose
def _(factor: Tensor, p: Tensor, *tensors: Tensor) -> list[Tensor]:
    a = cast(factor, dtype=p.spec.dtype)
    for g, indices in zip(*_split(tensors, 2), strict=True):
        p = rows_add(p, mul(a, g), indices)
    return [p]


@primitive(multiple=True, memory=Memory.FRESH)
def merged_rows(g: Spec, indices: Spec, *, size: int) -> list[Spec]:
    """The rows of `g` for the rows of a table of `size` rows that `indices` name: each index once,
    with the sum of its rows, or several times with the same sum. The rows, and the indices in one
    line, none of them negative (int32). Engines that know no sizes that depend on values may add
    the index `size`, whose row nobody can read or write.
    """
    check_fit("merged_rows", "g", g, indices.shape + g.shape[len(indices.shape) :])
    return [Spec((None, *g.shape[len(indices.shape) :]), g.dtype), Spec((None,), "int32")]


@merged_rows.decompose
def _(g: Tensor, indices: Tensor, *, size: int) -> list[Tensor]:
    flat = cast(reshape(indices, shape=(-1,)), dtype="int32")
    flat = where(less(flat, scalar(0, "int32")), add(flat, scalar(size, "int32")), flat)
    order, positions = sort(flat)
    before = concat(
        slice(order, slices=((None, 1, 1),)), slice(order, slices=((None, -1, 1),)), axis=0
    )
    places = cumsum(cast(not_equal(order, before), dtype="int32"), axis=0, reverse=False)
    rows = gather(reshape(g, shape=(-1, *g.spec.shape[indices.ndim :])), positions, axis=0)
    sums = shaped_as(scatter_add, rows, rows, places, axis=0)
    return [gather(sums, places, axis=0), order]


@primitive(memory=Memory.FRESH, axes=like_first)
def rows_set(x: Spec, rows: Spec, indices: Spec) -> Spec:
    """`x` with other rows at `indices`, none of which is negative. A row is repeated where its
    index is. Put into programs by the compiler, for engines that write in the memory of `x`.
    """
    check_fit("rows_set", "rows", rows, indices.shape + x.shape[1:])
    return x


@rows_set.decompose
def _(x: Tensor, rows: Tensor, indices: Tensor) -> Tensor:
    return scatter_set(x, indices, rows)


@primitive(multiple=True, in_place=True, memory=Memory.ANY)
def rows_write(*tensors: Spec) -> list[Spec]:
    """Other rows for some of a table's, as `rows_set`, for each of several tables: [*x']. `tensors`
    are the tables, then rows and indices for each. Other rows are neither read nor written.
    """
    return list(tensors[: len(tensors) // 3])


@rows_write.decompose
def _(*tensors: Tensor) -> list[Tensor]:
    count = len(tensors) // 3
    pairs = zip(tensors[count::2], tensors[count + 1 :: 2], strict=True)
    return [rows_set(x, *pair) for x, pair in zip(tensors[:count], pairs, strict=True)]


@primitive(multiple=True, in_place=True, memory=Memory.ANY)
def momentum_update(
    momentum: Spec, gain: Spec, step: Spec, *tensors: Spec, nesterov: bool
) -> list[Spec]:
    """Descent with momentum, m' = momentum · m + gain · g and p' = p + step · m', to which
    `nesterov` adds gain · g: [*p', *m'].
    """
    return list(tensors[: len(tensors) // 3 * 2])


@momentum_update.decompose
def _(
    momentum: Tensor, gain: Tensor, step: Tensor, *tensors: Tensor, nesterov: bool
) -> list[Tensor]:
    ps, ms = [], []
    for p, m, g in zip(*_split(tensors, 3), strict=True):
        decay, a, b = [cast(t, dtype=p.spec.dtype) for t in (momentum, gain, step)]
        ms.append(add(mul(decay, m), mul(a, g)))
        moved = add(p, mul(b, ms[-1]))
        ps.append(add(moved, mul(a, g)) if nesterov else moved)
    return [*ps, *ms]


@primitive(multiple=True, in_place=True, memory=Memory.ANY)
def adam_update(rate: Spec, beta1: Spec, beta2: Spec, epsilon: Spec, *tensors: Spec) -> list[Spec]:
    """Adam: m' = beta1 · m + (1 − beta1) · g, v' = beta2 · v + (1 − beta2) · g², and
    p' = p − rate · m' / (√max(v', 0) + epsilon): [*p', *m', *v'].
    """
    return list(tensors[: len(tensors) // 4 * 3])


@adam_update.decompose
def _(
    rate: Tensor, beta1: Tensor, beta2: Tensor, epsilon: Tensor, *tensors: Tensor
) -> list[Tensor]:
    ps, ms, vs = [], [], []
    for p, m, v, g in zip(*_split(tensors, 4), strict=True):
        dtype = p.spec.dtype
        a, b1, b2, e = [cast(t, dtype=dtype) for t in (rate, beta1, beta2, epsilon)]
        # One minus beta before the cast: 1 − 0.999 has lost digits in float32.
        c1, c2 = [cast(sub(scalar(1, t.spec.dtype), t), dtype=dtype) for t in (beta1, beta2)]
        ms.append(add(mul(b1, m), mul(c1, g)))
        vs.append(add(mul(b2, v), mul(c2, mul(g, g))))
        root = sqrt(maximum(vs[-1], scalar(0, dtype)))
        ps.append(sub(p, div(mul(a, ms[-1]), add(root, e))))
    return [*ps, *ms, *vs]
