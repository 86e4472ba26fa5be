"""Finds fused primitives that are two products of matrices with a softmax between them, such as
attention, by their decompositions.

The operand of the softmax is brought into normal form, in which the first product is an atom. That
is unified with the same part of the decomposition. There, one operand stands for all terms that a
program adds: several masks become one bias. The operands before it are the factors, and those after
it are masks of bools.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, reduce
from typing import Any, NamedTuple

from backplane.compile.fuse.algebra import (
    Algebra,
    Call,
    Sum,
    atom,
    atoms_in,
    number_of,
    plus,
    times,
)
from backplane.compile.fuse.groups import NEAR, Reading, nodes_below, nodes_inside
from backplane.compile.fuse.numbers import solved, tensor_of
from backplane.compile.fuse.unify import Grouped, Match, Unifier, by_tensors
from backplane.core.graph import Placeholder, Tensor
from backplane.core.primitive import Primitive
from backplane.core.registry import PRIMITIVES
from backplane.core.spec import Spec
from backplane.ops import elementwise as ew
from backplane.ops.autodiff import Group
from backplane.ops.creation import full, like
from backplane.ops.linear import matmul
from backplane.ops.reduction import softmax
from backplane.ops.shaping import expand_dims, reshape, transpose

MOST_NODES = 24
"""The nodes between the two products."""


class Chain(NamedTuple):
    """Two products, and the scores between them, whose softmax is multiplied again."""

    inner: Tensor
    scores: Tensor
    outer: Tensor

    @property
    def form(self) -> Grouped:
        """The normal form of the scores, by products of tensors. What is filled is a number, and a
        choice between sums is a sum of what both have and a choice between numbers.
        """
        reading = Reading(self.inner)
        form = reading.form
        for t in reversed(nodes_below(self.scores, MOST_NODES)):
            if t.op is full:
                reading.contains[t] = True
                form.known[t] = number_of(float(t.params["value"]))
            elif t.op is ew.where:
                common = form(t.inputs[1]) & form(t.inputs[2])
                x, y = [Sum(form(branch) - common).number for branch in t.inputs[1:]]
                if common and x is not None and y is not None:
                    numbers = [like(n, t) for n in (x, y)]
                    form.known[t] = plus(Sum(common), atom(ew.where(t.inputs[0], *numbers)))
        return by_tensors(form(self.scores))

    @property
    def factors(self) -> tuple[Tensor, Tensor, Tensor]:
        """The factors of x · yᵀ and · z."""
        (x, y), z = self.inner.inputs, self.outer.inputs[1]
        swaps, outer = self.inner.params, self.outer.params
        return (
            _swapped(x) if swaps["transpose_x"] else x,
            y if swaps["transpose_y"] else _swapped(y),
            _swapped(z) if outer["transpose_y"] else z,
        )


def _swapped(t: Tensor) -> Tensor:
    """`t` with its last two axes swapped."""
    *batch, rows, columns = t.params["perm"] if t.op is transpose else range(t.ndim)
    x, perm = t.inputs[0] if t.op is transpose else t, (*batch, columns, rows)
    return x if perm == tuple(range(t.ndim)) else transpose(x, perm=perm)


def _chains_at(outer: Tensor) -> Iterator[Chain]:
    """The chains that end in a product."""
    scores = None if outer.params["transpose_x"] else _scores(outer.inputs[0])
    if scores is not None:
        for t in nodes_below(scores, MOST_NODES):
            if t.op is matmul and t.spec == scores.spec:
                yield Chain(t, scores, outer)


def _scores(weights: Tensor) -> Tensor | None:
    """The tensor of whose rows `weights` is the softmax, which may be written out."""
    if weights.op is softmax:
        return weights.inputs[0] if weights.params["axis"] == weights.ndim - 1 else None
    if weights.op is ew.div and weights.inputs[0].op is ew.exp:
        assert softmax.decomposition is not None
        for x in weights.inputs[0].inputs[0].inputs:
            if x.spec == weights.spec:
                wanted = Algebra([x])(softmax.decomposition(x, axis=x.ndim - 1))
                if Reading(x).form(weights) == wanted:
                    return x
    return None


# --- patterns -------------------------------------------------------------------------------------


class _Pattern(NamedTuple):
    """One form of a primitive, traced on placeholders."""

    op: Primitive[Any]
    params: Mapping[str, Any]
    numbers: Mapping[str, Tensor]
    rest: Tensor
    masks: Sequence[Tensor]
    inner: Tensor
    form: Grouped


@cache
def _patterns() -> list[_Pattern]:
    patterns = []
    for op in PRIMITIVES.values():
        if op.fused is not None and op.fused.rest is not None:
            options = zip(op.fused.options, op.fused.operands, strict=True)
            patterns += [_traced(op, option, count) for option, count in options]
    return patterns


def _traced(op: Primitive[Any], option: Mapping[str, Any], count: int) -> _Pattern:
    fused = op.fused
    assert fused is not None
    assert fused.rest is not None
    assert op.decomposition is not None
    numbers = {x: Placeholder(Spec((), "float64")) for x in fused.numbers if x not in option}
    floats = [Placeholder(Spec((2, 2), "float64")) for _ in range(fused.rest + 1)]
    masks = [Placeholder(Spec((2, 2), "bool")) for _ in range(fused.rest + 1, count)]
    (chain,) = _chains_at(op.decomposition(*floats, *masks, **numbers, **option))
    assert [*chain.factors] == floats[:-1]
    return _Pattern(op, option, numbers, floats[-1], masks, chain.inner, chain.form)


# --- unification ----------------------------------------------------------------------------------


class _Unifier(Unifier):
    """Unifies sums in which one operand stands for all terms that nothing else unifies with."""

    def __init__(self, rest: Tensor) -> None:
        self.rest = rest

    def sums(self, ours: Grouped, theirs: Grouped, match: Match) -> Iterator[Match]:
        """Terms with the product, or with functions of it, leave the others for the rest."""
        key = frozenset([(self.rest, 1)])
        if key not in ours:
            yield from super().sums(ours, theirs, match)
            return
        images = {*match.bound.values()}
        known = {
            p: n for p, n in theirs.items() if any(x in images or isinstance(x, Call) for x, _ in p)
        }
        rest = [times(Sum([(p, 1.0)]), n) for p, n in theirs.items() if p not in known]
        others = {p: n for p, n in ours.items() if p != key}
        for paired in super().sums(others, known, match):
            yield paired._replace(bound={**paired.bound, self.rest: rest})

    def calls(self, ours: Call, theirs: Call, match: Match) -> Iterator[Match]:
        """A choice is the same with its operands swapped and its condition negated."""
        yield from super().calls(ours, theirs, match)
        if ours.op is theirs.op is ew.where:
            condition, x, y = theirs.operands
            swapped = theirs._replace(operands=(condition, y, x))
            for paired in super().calls(ours, swapped, match):
                yield paired._replace(bound={**paired.bound, NEGATED: True})


NEGATED = Placeholder(Spec((), "bool"))
"""Is bound where masks are negated."""


def chains_in(order: Sequence[Tensor], users: Mapping[Tensor, Sequence[Tensor]]) -> list[Group]:
    """The chains of products in a graph that are fused primitives, if nothing else reads the
    softmax, as gradients do. `order` has operands before users.
    """
    products = [t for t in order if t.op is matmul and len(users[t.inputs[0]]) == 1]
    groups = [next(filter(None, _groups_at(t)), None) for t in products]
    return [_unfolded(group, users.get(group.end, ())) for group in groups if group is not None]


def _groups_at(outer: Tensor) -> Iterator[Group | None]:
    """The fused primitives that end in a product."""
    for chain in _chains_at(outer):
        form = chain.form
        for pattern in _patterns():
            start = Match({pattern.inner: chain.inner})
            for match in _Unifier(pattern.rest).sums(pattern.form, form, start):
                yield _made(chain, pattern, match)


def _made(chain: Chain, pattern: _Pattern, match: Match) -> Group | None:
    end, dtype, fused = chain.outer, chain.outer.spec.dtype, pattern.op.fused
    known = solved(match.equations, NEAR.get(dtype, 1e-6), {})
    rest: list[Sum] = match.bound[pattern.rest]
    if known is None or any(term.number is not None for term in rest):
        return None
    numbers = {name: known[t].number for name, t in pattern.numbers.items()}
    parts = [[t for t in atoms_in(term) if isinstance(t, Tensor)] for term in rest]
    order = sorted(range(len(rest)), key=lambda i: min([t.serial for t in parts[i]]))
    bias = [reduce(ew.add, [tensor_of(rest[i], dtype) for i in order])] if rest else []
    masks = [match.bound[t] for t in pattern.masks]
    shown = [ew.logical_not(t) for t in masks] if NEGATED in match.bound else masks
    operands, params = (*chain.factors, *bias, *shown), {**pattern.params, **numbers}
    assert fused is not None
    if None in numbers.values() or not fused.fits(*[t.spec for t in operands], **params):
        return None
    (x, y), (_, z) = chain.inner.inputs, end.inputs
    outside = [t for term in parts for part in term for t in (part, *part.inputs)]
    inside = nodes_inside(end, [x, y, z, *masks, *outside])
    return Group(pattern.op, operands, params, end, {}, inside)


# --- heads that were made part of the batch -------------------------------------------------------


def _unfolded(group: Group, users: Sequence[Tensor]) -> Group:
    """The same group with the axis of the heads apart, if it was merged with that of the batch for
    the products alone. Then nothing has to be copied.
    """
    merged = group.operands[:3]
    apart = [t.inputs[0] for t in merged if t.op is reshape and t.inputs[0].ndim == 4]
    if len(apart) < 3 or group.end.ndim != 3 or len(users) != 1 or users[0].op is not reshape:
        return group
    sizes = [(t.spec.shape[1:], x.spec.shape[1:]) for t, x in zip(apart, merged, strict=True)]
    heads = sizes[0][0][0]
    more = [_with_heads(t) for t in group.operands[3:]]
    if None in more or any(None in ours or ours != (heads, *theirs) for ours, theirs in sizes):
        return group
    operands = (*apart, *[t for t in more if t is not None])
    return group._replace(operands=operands, end=users[0], inside=group.inside | {group.end})


def _with_heads(t: Tensor) -> Tensor | None:
    """A bias or mask with an axis of heads; None if it is not the same for all of them."""
    if t.ndim < 3:
        return t
    return expand_dims(t, axes=(1,)) if t.spec.shape[0] == 1 else None
