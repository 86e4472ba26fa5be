"""Finds loops whose steps are those of a recurrent layer, by the decomposition of its primitive.

Both steps are brought into normal form. There, products with matrices, and what is the same in all
steps, stand where other patterns have numbers. So steps unify whatever the order of their sums is,
and what is left are equations such as x · A + h · B + c = x · U + d + h · V, one for each gate: the
weights of the gate in the pattern, and in the program. Columns of a product are a product with
columns, so it does not matter whether one matrix serves all gates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, reduce
from itertools import permutations
from typing import Any, NamedTuple

from backplane.compile.fuse.algebra import ZERO, Algebra, Atom, Call, Sum, atom, plus, power, times
from backplane.compile.fuse.groups import PASSING
from backplane.compile.fuse.unify import Grouped, Match, Unifier, by_tensors, shape_of
from backplane.core.graph import Graph, Placeholder, Tensor, depends_on, substitute, toposort
from backplane.core.primitive import Primitive
from backplane.core.registry import PRIMITIVES
from backplane.core.spec import Spec
from backplane.engines.base import Engine
from backplane.ops.creation import full
from backplane.ops.effects import identity
from backplane.ops.elementwise import add
from backplane.ops.groups import is_vector
from backplane.ops.indexing import ALL, part
from backplane.ops.indexing import slice as slice_
from backplane.ops.linear import matmul
from backplane.ops.shaping import concat, reshape

UNITS, FEATURES = 2, 3
"""The sizes in patterns."""
MOST_NODES = 100
"""A longer step is none of a known layer, and its normal form would nest too deeply."""


class Loop(NamedTuple):
    """The computation of a loop: a primitive, the places of its states among those of the loop, and
    the kernel, the recurrent kernel and the bias, as the body of the loop sees them.
    """

    op: Primitive[Any]
    params: Mapping[str, Any]
    states: tuple[int, ...]
    weights: list[Tensor]


def loop_of(scan: Tensor, engine: Engine) -> Loop | None:
    """The recurrent layer whose steps a scan runs, if `engine` has a kernel for one."""
    body, carry = scan.params["body"], scan.params["carry"]
    if (scan.params["xs"], scan.params["reverse"], scan.params["length"]) != (1, False, None):
        return None
    forms = [form for form in _forms(carry) if form[0].name in engine.table]
    if not forms or len(toposort(body.outputs[:carry])) > MOST_NODES:
        return None
    step = _Step(body, carry)
    for op, option in forms:
        pattern = _pattern(op, option)
        for order in permutations(range(carry)):
            weights = _weights(pattern, step, order)
            if weights is not None:
                return Loop(op, pattern.params, order, weights)
    return None


@cache
def _forms(states: int) -> list[tuple[Primitive[Any], int]]:
    """The primitives that are loops with so many states, with the numbers of their options."""
    layers = [op for op in PRIMITIVES.values() if op.fused and op.fused.states == states > 0]
    return [(op, i) for op in layers if op.fused for i in range(len(op.fused.options))]


# --- normal forms ---------------------------------------------------------------------------------


class _Reading(Algebra):
    """Brings a step into normal form. `changing` has what is not the same in all steps; the columns
    of what is are a `Call` of `identity`, with the first and the last of them as its parameters.
    """

    def __init__(self, body: Graph, own: int) -> None:
        super().__init__()
        drawn = [t for t in toposort(body.outputs) if t.op and (t.op.effect or t.op.varies)]
        self.changing = depends_on(body.outputs, [*body.inputs[:own], *drawn])

    def _form(self, t: Tensor) -> Sum:
        op = t.op
        if op is slice_ and (columns := _columns_in(t)) is not None:
            return self._part(self(t.inputs[0]), *columns)
        if t not in self.changing:
            return atom(_same(t)) if t.ndim else super()._form(t)
        if op is matmul and t.ndim == 2 and not any(t.params.values()):
            x, matrix = t.inputs
            if matrix not in self.changing:
                return atom(Call(op, (), (self(x), self(matrix))))
        plain = op is not None and op.elementwise and not (op.effect or op.varies or op in PASSING)
        return super()._form(t) if plain else atom(t)

    def _part(self, form: Sum, start: int, stop: int) -> Sum:
        """The normal form of some columns, from that of all."""
        part = ZERO
        for product, number in form:
            factors = [power(atom(self._columns(x, start, stop)), n) for x, n in product]
            part = plus(part, reduce(times, factors, Sum([(frozenset(), number)])))
        return part

    def _columns(self, x: Atom, start: int, stop: int) -> Atom:
        if isinstance(x, Tensor):
            return Call(slice_, (start, stop), (atom(x),)) if x.ndim else x
        if x.op is identity:
            first, last = x.params
            wide = last - first > 1
            return x._replace(params=(first + start, first + stop)) if wide else x
        unchanged = x.operands[: int(x.op is matmul)]
        others = x.operands[len(unchanged) :]
        return x._replace(operands=(*unchanged, *[self._part(y, start, stop) for y in others]))


def _same(t: Tensor, start: int = 0, stop: int | None = None) -> Call:
    """Columns of what is the same in all steps."""
    stop = (t.spec.shape[-1] or 0) if stop is None else stop
    return Call(identity, (start, stop), (atom(t),))


def _columns_in(t: Tensor) -> tuple[int, int] | None:
    """The first and the last column that a slice takes; None if it takes anything else."""
    *others, (start, _, step) = t.params["slices"]
    size, start = t.spec.shape[-1], start or 0
    if len(t.inputs) > 1 or step != 1 or start < 0 or size is None or {*others} - {ALL}:
        return None
    return start, start + size


class _Step:
    """The body of a loop in normal form: the places of its states come first, then the row."""

    def __init__(self, body: Graph, carry: int) -> None:
        self.body, self.carry = body, carry
        reading = _Reading(body, carry + 1)
        self.forms = [_grouped(reading(t)) for t in body.outputs[:carry]]
        self.shapes = [shape_of(form) for form in self.forms]


def _grouped(form: Sum) -> Grouped:
    return by_tensors(form, _is_weighted)


def _is_weighted(x: Atom) -> bool:
    """Whether a factor is a product with a matrix, or the same in all steps."""
    return isinstance(x, Call) and x.op in (matmul, identity)


# --- patterns -------------------------------------------------------------------------------------


class _Pattern(NamedTuple):
    """The step of a primitive, traced from its decomposition."""

    params: Mapping[str, Any]
    step: _Step
    weights: list[Tensor]
    """The kernel, the recurrent kernel and the bias."""
    parts: tuple[int, ...]
    """The number of gates that each of these has columns for."""


@cache
def _pattern(op: Primitive[Any], option: int) -> _Pattern:
    fused = op.fused
    assert fused is not None
    assert op.decomposition is not None
    params = fused.options[option]
    states, parts = fused.states, fused.parts(**params)
    widths = [n * UNITS for n in parts]
    shapes = [(FEATURES, widths[0]), (UNITS, widths[1]), (widths[2],)]
    weights: list[Tensor] = [Placeholder(Spec(shape, "float32")) for shape in shapes]
    starts = [Placeholder(Spec((None, UNITS), "float32")) for _ in range(states)]
    row = Placeholder(Spec((None, None, FEATURES), "float32"))
    scan = op.decomposition(row, *starts, *weights, **params)[0].inputs[0]
    body: Graph = scan.params["body"]
    outside = dict(zip(body.inputs[states + 1 :], scan.inputs[states + 1 :], strict=True))
    whole = Graph(body.inputs[: states + 1], substitute(body.outputs[:states], outside))
    return _Pattern(params, _Step(whole, states), weights, parts)


# --- unification ----------------------------------------------------------------------------------


class _LoopUnifier(Unifier):
    """Unifies steps, and then the equations between their weights."""

    counts = staticmethod(_is_weighted)

    def binding(self, ours: Tensor, theirs: Tensor, match: Match) -> dict[Atom, Tensor] | None:
        return None  # States and rows are bound from the start.

    def steps(
        self, ours: Sequence[Grouped], theirs: Sequence[Grouped], match: Match
    ) -> Iterator[Match]:
        """Unify the new states, then the weights."""
        if not ours:
            yield from self._weights(match)
            return
        for longer in self.sums(ours[0], theirs[0], match):
            yield from self.steps(ours[1:], theirs[1:], longer)

    def _weights(self, match: Match) -> Iterator[Match]:
        """Solve the equations. What a gate's sum holds besides products is its bias."""
        if not match.equations:
            yield match
            return
        (ours, theirs), *rest = match.equations
        pattern, program = _terms(ours), _terms(theirs)
        if pattern is None or program is None or len(pattern[0]) != len(program[0]):
            return
        bound = {**match.bound, pattern[1][0]: program[1]}
        for order in permutations(program[0]):
            start = match._replace(bound=bound, equations=tuple(rest))
            for longer in self._products(pattern[0], order, start):
                yield from self._weights(longer)

    def _products(
        self, ours: Sequence[Call], theirs: Sequence[Call], match: Match
    ) -> Iterator[Match]:
        """Unify what is multiplied by matrices, and bind these."""
        if not ours:
            yield match
            return
        x, y = (_grouped(products[0].operands[0]) for products in (ours, theirs))
        matrix, other = (products[0].operands[1].atom for products in (ours, theirs))
        for longer in self.sums(x, y, match):
            bound = {**longer.bound, matrix: [other]}
            yield from self._products(ours[1:], theirs[1:], longer._replace(bound=bound))


UNIFIER = _LoopUnifier()


def _terms(form: Sum) -> tuple[list[Call], list[Call]] | None:
    """The products with matrices, and the other terms, of a sum in which nothing else stands."""
    terms: tuple[list[Call], list[Call]] = [], []
    for product, number in form:
        x = Sum([(product, number)]).atom
        if x is None or not _is_weighted(x):
            return None
        terms[x.op is identity].append(x)
    return terms


def _weights(pattern: _Pattern, step: _Step, order: Sequence[int]) -> list[Tensor] | None:
    """The weights of a step that the pattern unifies with, if its states have this order."""
    ours, inputs = pattern.step, step.body.inputs
    if ours.shapes != [step.shapes[i] for i in order]:
        return None
    own = [inputs[i] for i in (*order, step.carry)]
    bound: dict[Atom, Any] = dict(zip(ours.body.inputs, own, strict=False))
    for match in UNIFIER.steps(ours.forms, [step.forms[i] for i in order], Match(bound)):
        weights = _joined(pattern, match, own[-1].spec, own[0].spec)
        if weights is not None:
            return weights
    return None


# --- weights --------------------------------------------------------------------------------------


def _joined(pattern: _Pattern, match: Match, row: Spec, state: Spec) -> list[Tensor] | None:
    """The kernel, the recurrent kernel and the bias of all gates, from those that are bound."""
    units = state.shape[-1]
    joined: list[list[list[Call]]] = []
    for weights, count in zip(pattern.weights, pattern.parts, strict=True):
        gates = [_same(weights, n * UNITS, (n + 1) * UNITS) for n in range(count)]
        joined.append([match.bound[gate] for gate in gates])
    matrices, bias = [[x for (x,) in gates] for gates in joined[:2]], joined[2]
    parts = [x for gates in joined for terms in gates for x in terms]
    fits = units is not None and all(x.params[1] - x.params[0] == units for x in parts)
    for matrix, factor in zip(matrices, (row, state), strict=True):
        fits = fits and all(_node(x).spec.shape[:-1] == factor.shape[-1:] for x in matrix)
    if units is None or not fits:
        return None
    if not all(is_vector(_node(x).spec) for terms in bias for x in terms):
        return None
    return [*[_beside(matrix, units) for matrix in matrices], _sum(bias, units, state.dtype)]


def _node(x: Call) -> Tensor:
    node: Tensor = x.operands[0].atom
    return node


def _beside(parts: Sequence[Call], units: int) -> Tensor:
    """Columns of tensors side by side."""
    first, start = _node(parts[0]), parts[0].params[0]
    stop = start + len(parts) * units
    if list(parts) == [_same(first, n, n + units) for n in range(start, stop, units)]:
        return _cut(first, start, stop)
    return concat(*[_cut(_node(x), *x.params) for x in parts], axis=first.ndim - 1)


def _cut(t: Tensor, start: int, stop: int) -> Tensor:
    whole = (start, stop) == (0, t.spec.shape[-1])
    return t if whole else part(t, -1, start, stop)


def _sum(bias: Sequence[Sequence[Call]], units: int, dtype: str) -> Tensor:
    """The biases of all gates side by side, each the sum of some vectors."""
    flat = [x for terms in bias for x in terms]
    if len({*map(_node, flat)}) == 1 and all(len(terms) == 1 for terms in bias):
        return reshape(_beside(flat, units), shape=(len(bias) * units,))
    if not flat:
        return full(shape=(len(bias) * units,), value=0, dtype=dtype)
    none = full(shape=(units,), value=0, dtype=dtype)
    vectors = [[reshape(_cut(_node(x), *x.params), shape=(units,)) for x in xs] for xs in bias]
    return concat(*[reduce(add, xs) if xs else none for xs in vectors], axis=0)
