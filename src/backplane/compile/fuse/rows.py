"""Keeps steps of optimizers to the rows of a table that a batch reads.

The gradient of lookups is zero in all rows that are not looked up. Some steps then change nothing
there, such as Adagrad's:

    a' = a + square(g)
    p' = p - rate * g / (sqrt(a') + epsilon)

Whether a step is of this kind follows from what was written: with 0 in the place of g, its normal
form must be the old value. Then the rows that were looked up are taken out of the table and of all
states, with the sum of the gradients for each, and their new values are written back. The time does
not depend on the size of the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from backplane.compile.fuse.algebra import (
    ONE,
    Algebra,
    Call,
    Sum,
    atom,
    number_of,
    plus,
    scales,
    times,
)
from backplane.compile.fuse.numbers import tensor_of
from backplane.compile.fuse.readers import terms_of, uses_of
from backplane.compile.fuse.unify import ONCE, by_tensors
from backplane.core.context import changed
from backplane.core.graph import Tensor, rebuild, rewrite, toposort
from backplane.core.shapes import product
from backplane.core.spec import is_float
from backplane.engines.base import Engine
from backplane.ops.elementwise import add, cast, mul, sub
from backplane.ops.indexing import gather, scatter_add
from backplane.ops.shaping import concat, expand_dims, reshape, zeros_like
from backplane.ops.updates import merged_rows, rows_add

LARGE = 1 << 15
"""Elements of a table from which on its rows are worth it."""

MOST_NODES = 256
"""Nodes of a step that are looked at. No optimizer's step is longer."""


class Rows(NamedTuple):
    """Some rows of a tensor, and their indices."""

    rows: Tensor
    indices: Tensor


def lookups(gradient: Tensor, table: Tensor) -> list[Tensor]:
    """The gradients of lookups in `table` that add up to `gradient`; none if it is no such sum."""
    gradients = list[Tensor]()
    for t in terms_of([gradient]):
        if t.op is not scatter_add or t.params["axis"] or t.spec != table.spec:
            return []
        gradients.append(t)
    return gradients if table.spec.is_static else []


def find_rows(outputs: Sequence[Tensor], state: Mapping[Tensor, int]) -> dict[Tensor, Rows]:
    """The new rows of the variables that change only in rows that are looked up. `state` tells
    which variable is replaced by which output. Plain descent is left to others: sums need no old
    rows.
    """
    takers: dict[tuple[Tensor, ...], _Taker] = {}
    rows: dict[Tensor, Rows] = {}
    for table, position in state.items():
        new, size = outputs[position], (*table.spec.shape, 0)[0]
        total = product(table.spec.shape)
        large = total is not None and total >= LARGE
        if not large or not is_float(table.spec.dtype) or new.spec != table.spec:
            continue
        if size is None or not 1 < size < 2**31:
            continue
        gradients = _gradients(new)
        if gradients and _keeps_other_rows(new, table, gradients):
            if gradients not in takers:
                takers[gradients] = _Taker(gradients)
            rows[table] = takers[gradients].rows(new)
    return rows


def _gradients(new: Tensor) -> tuple[Tensor, ...] | None:
    """The sums of gradients of lookups from which each row of `new` is computed by itself, beside
    the same row of other tables; None if it is not computed so.
    """
    gradients: dict[Tensor, None] = {}
    seen, waiting = {new}, [new]
    while waiting:
        t = waiting.pop()
        if lookups(t, t):
            gradients[t] = None
        elif t.op is not None:
            operands = _row_by_row(t)
            if operands is None or len(seen) > MOST_NODES:
                return None
            waiting += [x for x in operands if x not in seen]
            seen.update(operands)
    return tuple(gradients)


def _row_by_row(t: Tensor) -> list[Tensor] | None:
    """The operands whose rows make the rows of `t`; None if other rows may have a share in them."""
    op = t.op
    assert op is not None
    if op.elementwise:
        return [x for x in t.inputs if x.ndim == t.ndim and x.spec.shape[0] == t.spec.shape[0]]
    keeps = (op.reduction or op is expand_dims) and 0 not in t.params["axes"]
    return list(t.inputs) if keeps else None


def _keeps_other_rows(new: Tensor, table: Tensor, gradients: Sequence[Tensor]) -> bool:
    """Whether a row of zeros in the gradients leaves the table's row as it is."""

    def opens(t: Tensor) -> bool:
        assert t.op is not None
        return t.spec.shape[:1] == table.spec.shape[:1] or (not t.ndim and t.op.elementwise)

    if Algebra(zeros=gradients, opens=opens)(new) != atom(table):
        return False
    terms = plus(Algebra(stops=gradients, opens=opens)(new), atom(table), -1.0)
    powers = [[(x, n) for x, n in product if isinstance(x, Call) or x.ndim] for product, _ in terms]
    return not all(len(p) == 1 and p[0][0] in gradients and p[0][1] == 1 for p in powers)


class _Taker:
    """Computes rows of tables in the place of tables."""

    def __init__(self, gradients: Sequence[Tensor]) -> None:
        terms = [(g, t) for g in gradients for t in lookups(g, g)]
        size = gradients[0].spec.shape[0]
        with changed(line=gradients[0].where):
            indices = _joined([_in_line(t.inputs[1], t.inputs[1].ndim) for _, t in terms])
            self.known: dict[Tensor, Tensor] = {}
            for g in gradients:
                given = [(t.inputs[0], t.inputs[1].ndim, own is g) for own, t in terms]
                parts = [_in_line(x if own else zeros_like(x), n) for x, n, own in given]
                self.known[g], self.indices = merged_rows(_joined(parts), indices, size=size)

    def rows(self, new: Tensor) -> Rows:
        """The new rows of a table."""
        order = toposort([new], stop=self.known)
        wanted = {new}
        for t in reversed(order):
            if t in wanted and t.op is not None and t not in self.known:
                wanted.update(_row_by_row(t) or ())
        for t in order:
            if t in wanted and t not in self.known:
                with changed(line=new.where):
                    self.known[t] = self._taken(t)
        return Rows(self.known[new], self.indices)

    def _taken(self, t: Tensor) -> Tensor:
        if t.op is None:
            return gather(t, self.indices, axis=0)
        operands = _row_by_row(t) or []
        return rebuild(t, tuple([self.known[x] if x in operands else x for x in t.inputs]))


def _in_line(x: Tensor, first: int) -> Tensor:
    """`x` with its first axes as one."""
    return x if first == 1 else reshape(x, shape=(-1, *x.spec.shape[first:]))


def _joined(parts: Sequence[Tensor]) -> Tensor:
    """Tensors along the first axis, one after the other."""
    if len(parts) == 1:
        return parts[0]
    if len({x.spec.dtype for x in parts}) > 1:
        parts = [cast(x, dtype="int64") for x in parts]
    return concat(*parts, axis=0)


# --- sums -----------------------------------------------------------------------------------------


def add_rows(outputs: Sequence[Tensor], engine: Engine) -> list[Tensor]:
    """`outputs`, with `rows_add` in the place of a sum of a tensor and a multiple of the gradient
    of lookups in its rows, which is zero everywhere else, unless somebody else reads the gradient.
    """
    if rows_add.name not in engine.table:
        return list(outputs)
    uses = uses_of(outputs)

    def added(node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor | None:
        if node.op is not add and node.op is not sub:
            return None
        for i in (1, 0) if node.op is add else (1,):
            x, term = inputs[1 - i], inputs[i]
            fits = is_float(node.spec.dtype) and x.spec == node.spec and not lookups(x, node)
            factor, gradient = _multiple(term) if fits else (ONCE, node)
            rows = lookups(gradient, node) if fits else []
            if rows and uses[node.inputs[i]] == 1:
                sign = 1.0 if node.op is add else -1.0
                return _rows_added(x, times(factor, number_of(sign)), rows)
        return None

    return rewrite(outputs, added)


def _multiple(t: Tensor) -> tuple[Sum, Tensor]:
    """The number and the tensor whose product `t` is."""
    form = by_tensors(Algebra(opens=scales)(t))
    ((product, factor),) = form.items() if len(form) == 1 else ((ONE, ONCE),)
    x = Sum([(product, 1.0)]).atom
    return (factor, x) if isinstance(x, Tensor) else (ONCE, t)


def _rows_added(x: Tensor, factor: Sum, gradients: Sequence[Tensor]) -> Tensor:
    dtype = x.spec.dtype
    number = cast(tensor_of(factor, dtype), dtype=dtype)
    for gradient in gradients:
        g, indices = gradient.inputs
        x = rows_add(x, mul(number, g), indices)
    return x
