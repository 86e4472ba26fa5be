"""Finds what a declared primitive computes in a program, by the primitive's own decomposition.

The decomposition is traced once on placeholders: the pattern. It is unified with a part of the
program, both in normal form (`algebra.py`): terms are paired whatever their order is, and operands
of the pattern are bound to tensors of the program. Numbers of the pattern, such as a rate, come
last. Each pair of terms says what their coefficients must be, as an equation between the numbers
and what stands in the program, and these equations are solved one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import permutations
from typing import Any, ClassVar, NamedTuple

from backplane.compile.fuse.algebra import (
    EXTREMES,
    Algebra,
    Atom,
    Call,
    Product,
    Sum,
    atom,
    number_of,
    plus,
    power,
    times,
)
from backplane.core.graph import Placeholder, Tensor
from backplane.core.primitive import Primitive
from backplane.core.spec import Spec

MOST_TERMS = 6
"""Sums of more terms are no part of any pattern."""

SCALE = Placeholder(Spec((), "float32"))
"""Stands for the factor of a gradient that programs write before it, such as one that clips."""


class StepPattern:
    """The decomposition of an optimizer step, traced on placeholders.

    Its results are the new values of `variables`, of which the first is the parameter. Forms of
    results hold other results as atoms.
    """

    def __init__(
        self, op: Primitive[Any], count: int, variables: int, params: Mapping[str, Any]
    ) -> None:
        self.op, self.params = op, dict(params)
        self.numbers = [Placeholder(Spec((), "float32")) for _ in range(count)]
        self.variables = [Placeholder(Spec((2,), "float32")) for _ in range(variables)]
        self.gradient = Placeholder(Spec((2,), "float32"))
        assert op.decomposition is not None
        self.results: list[Tensor] = op.decomposition(
            *self.numbers, *self.variables, self.gradient, **params
        )
        ends = set(self.results)
        self.forms = [by_tensors(Algebra(ends - {t})(t)) for t in self.results]
        self.kinds = shape_of(self.forms[0])


ONCE = number_of(1.0)

Grouped = dict[Product, Sum]
"""The coefficients of products of tensors, which are sums of products of scalars."""


def is_number(x: Atom) -> bool:
    """Whether an atom is a scalar."""
    if isinstance(x, Tensor):
        return not x.ndim
    return all(is_number(y) for s in x.operands for product, _ in s for y, _ in product)


def by_tensors(form: Sum, counts: Callable[[Atom], bool] = is_number) -> Grouped:
    """A normal form, by products of tensors. `counts` says which factors belong to coefficients, by
    default scalars.
    """
    sums: dict[Product, Sum] = {}
    for product, number in form:
        scalars = [pair for pair in product if counts(pair[0])]
        if scalars:
            tensors, term = product.difference(scalars), Sum([(frozenset(scalars), number)])
        else:
            tensors, term = product, ONCE if number == 1 else number_of(number)
        known = sums.get(tensors)
        sums[tensors] = term if known is None else plus(known, term)
    return {product: total for product, total in sums.items() if total}


@lru_cache(maxsize=512)
def _of_pattern(form: Sum, counts: Callable[[Atom], bool]) -> Grouped:
    """The same for an operand of a pattern, which is looked at again and again."""
    return by_tensors(form, counts)


def shape_of(form: Grouped) -> tuple[tuple[float, ...], ...]:
    """A key that is equal for forms that can be unified."""
    return tuple(sorted([tuple(sorted([n for _, n in product])) for product in form]))


Equations = tuple[tuple[Sum, Sum], ...]
"""Coefficients of the pattern, and what they are in the program."""


class Match(NamedTuple):
    """The bindings found so far."""

    bound: dict[Atom, Any]
    """Atoms of the program for atoms of the pattern: a tensor for a tensor, a call for a call."""
    equations: Equations = ()
    factor: Sum = ONCE
    """The factor by which the unified product is multiplied in the program."""


class Unifier:
    """Pairs the terms, factors and operands of two normal forms in all ways that fit."""

    looks_into: ClassVar = False
    """Whether factors of the program may be looked into."""
    counts = staticmethod(is_number)
    """The test for factors that belong to coefficients (`by_tensors`)."""

    def sums(self, ours: Grouped, theirs: Grouped, match: Match) -> Iterator[Match]:
        """Pair the terms of two sums."""
        if len(ours) != len(theirs) or len(ours) > MOST_TERMS:
            return
        if not ours:
            yield match
            return
        # What has functions in it, and what is bound, leaves the least choice.
        product = max(ours, key=lambda p: (sum(self.is_certain(x, match) for x, _ in p), len(p)))
        rest = {p: n for p, n in ours.items() if p != product}
        for other, number in self._partners(product, theirs, match):
            for longer in self.products(product, other, match._replace(factor=ONCE)):
                scale, factor, equations = self.scale(product), longer.factor, longer.equations
                left = ours[product] if scale is ONCE else times(ours[product], scale)
                right = number if factor is ONCE else times(number, factor)
                if left != right:
                    equations = (*equations, (left, right))
                remaining = {p: n for p, n in theirs.items() if p != other}
                yield from self.sums(rest, remaining, Match(longer.bound, equations, match.factor))

    def _partners(
        self, product: Product, theirs: Grouped, match: Match
    ) -> Collection[tuple[Product, Sum]]:
        """The terms that a product may be paired with: those that hold what is bound."""
        bound = match.bound
        image = frozenset([(bound[x], n) for x, n in product if x in bound])
        if len(image) == len(product) and image in theirs:
            return [(image, theirs[image])]
        if not self.looks_into:
            size = len(product)
            return [(p, n) for p, n in theirs.items() if len(p) == size and image <= p]
        return theirs.items()

    def products(self, ours: Product, theirs: Product, match: Match) -> Iterator[Match]:
        """Pair the factors of two products."""
        if not ours:
            if not theirs:
                yield match
            return
        if len(theirs) < len(ours) or (len(ours) == 1 and ours != theirs):
            yield from self.opened(ours, theirs, match)
        if len(theirs) != len(ours):
            return
        x, exponent = max(ours, key=lambda pair: self.is_certain(pair[0], match))
        for other, n in theirs:
            if n == exponent:
                for longer in self.atoms(x, other, match):
                    rest = theirs - {(other, n)}
                    yield from self.products(ours - {(x, exponent)}, rest, longer)

    def atoms(self, ours: Atom, theirs: Atom, match: Match) -> Iterator[Match]:
        """Bind an atom, or compare it."""
        known = match.bound.get(ours)
        if known is not None:
            if known is theirs or (isinstance(known, Call) and known == theirs):
                yield match
        elif isinstance(ours, Call):
            if isinstance(theirs, Call):
                for longer in self.calls(ours, theirs, match):
                    yield longer._replace(bound={**longer.bound, ours: theirs})
        elif isinstance(theirs, Tensor):
            bound = self.binding(ours, theirs, match)
            if bound is not None and not (match.bound.keys() & bound.keys()):
                yield match._replace(bound={**match.bound, **bound})

    def calls(self, ours: Call, theirs: Call, match: Match) -> Iterator[Match]:
        """Unify the operands of a function."""
        if ours.op is not theirs.op or ours.params != theirs.params:
            return
        orders = permutations(theirs.operands) if ours.op in EXTREMES else [theirs.operands]
        for order in orders:
            yield from self._operands(ours.operands, order, match)

    def _operands(
        self, ours: Sequence[Sum], theirs: Sequence[Sum], match: Match
    ) -> Iterator[Match]:
        if not ours:
            yield match
            return
        whole = _of_pattern(ours[0], self.counts), by_tensors(theirs[0], self.counts)
        for longer in self.sums(*whole, match):
            yield from self._operands(ours[1:], theirs[1:], longer)

    # --- what patterns of different kinds do in their own ways ------------------------------------

    def is_certain(self, x: Atom, match: Match) -> bool:
        """Whether an atom leaves little choice."""
        return isinstance(x, Call) or x in match.bound

    def binding(self, ours: Tensor, theirs: Tensor, match: Match) -> dict[Atom, Tensor] | None:
        """The match in which an atom is a tensor of the program; None if it cannot be."""
        return {ours: theirs}

    def scale(self, product: Product) -> Sum:
        """The factor of a product of the pattern in programs."""
        return ONCE

    def opened(self, ours: Product, theirs: Product, match: Match) -> Iterator[Match]:
        """Unify with what a factor is made of."""
        return iter(())


class StepUnifier(Unifier):
    """Unifies the pattern of an optimizer's step with a program in which `news` are the new values
    of variables.

    `form` brings a tensor of the program into normal form, of which the gradient is already known
    or not.
    """

    looks_into = True

    def __init__(
        self,
        pattern: StepPattern,
        news: Mapping[Tensor, Tensor],
        form: Callable[[Tensor, Tensor | None], Sum],
    ) -> None:
        self.pattern, self.news, self.form = pattern, news, form
        results, variables = pattern.results, pattern.variables
        self.variable_of: dict[Atom, Tensor] = dict(zip(results, variables, strict=True))
        self.result_of: dict[Atom, Tensor] = dict(zip(variables, results, strict=True))
        self.new = {v: t for t, v in news.items()}

    def results(self, match: Match, first: Grouped) -> Iterator[Match]:
        """Unify the results one after the other, the first one given, each when it is bound."""
        for longer in self.sums(self.pattern.forms[0], first, match):
            yield from self._rest(longer, {0})

    def _rest(self, match: Match, done: set[int]) -> Iterator[Match]:
        pattern = self.pattern
        if len(done) == len(pattern.results):
            yield match
            return
        for i, result in enumerate(pattern.results):
            if i not in done and result in match.bound:
                whole = by_tensors(
                    self.form(match.bound[result], match.bound.get(pattern.gradient))
                )
                for longer in self.sums(pattern.forms[i], whole, match):
                    yield from self._rest(longer, {*done, i})
                return

    def is_certain(self, x: Atom, match: Match) -> bool:
        """Values of variables are known for what they are."""
        return super().is_certain(x, match) or x in self.variable_of or x in self.result_of

    def scale(self, product: Product) -> Sum:
        """The power of the gradient's factor in a product."""
        exponent = dict(product).get(self.pattern.gradient, 0)
        return atom(SCALE, exponent) if exponent else ONCE

    def opened(self, ours: Product, theirs: Product, match: Match) -> Iterator[Match]:
        """Unify with the factors of a tensor that the program's normal form holds whole, such as
        the square of the gradient, if the gradient is known.
        """
        gradient = match.bound.get(self.pattern.gradient)
        if len(theirs) != 1 or gradient is None:
            return
        ((t, n),) = theirs
        if not isinstance(t, Tensor) or t is gradient or t.op is None:
            return
        form = by_tensors(power(self.form(t, gradient), n))
        if len(form) == 1 and theirs not in form:
            ((product, number),) = form.items()
            for longer in self.products(ours, product, match):
                yield longer._replace(factor=times(longer.factor, number))

    def binding(self, ours: Tensor, theirs: Tensor, match: Match) -> dict[Atom, Tensor] | None:
        """The match in which an atom is a tensor of the program; a new value is a variable's."""
        if theirs in match.bound.values():
            return None
        variable = self.variable_of.get(ours)
        if variable is not None:
            owner = self.news.get(theirs)
            return None if owner is None else {ours: theirs, variable: owner}
        result = self.result_of.get(ours)
        if result is not None:
            new = self.new.get(theirs)
            return None if new is None else {ours: theirs, result: new}
        is_gradient = ours is self.pattern.gradient and theirs not in self.news
        return {ours: theirs} if is_gradient else None
