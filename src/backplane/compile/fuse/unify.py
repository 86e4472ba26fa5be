"""Finds what a declared primitive computes in a program, by the primitive's own decomposition.

The decomposition is traced once on placeholders: the pattern. It is unified with a part of the
program, both in normal form (`algebra.py`): terms are paired whatever their order is, and operands
of the pattern are bound to tensors of the program. Numbers of the pattern, such as a rate, come
last. Each pair of terms says what their coefficients must be, as an equation between the numbers
and what stands in the program, and these equations are solved one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import permutations
from typing import Any, NamedTuple

from backplane.compile.fuse.algebra import (
    EXTREMES,
    ZERO,
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
from backplane.core.graph import Placeholder, Tensor, constant
from backplane.core.primitive import Primitive
from backplane.core.spec import Spec
from backplane.ops import elementwise as ew

MOST_TERMS = 6
"""Sums of more terms are no part of any pattern."""

NEAR = {"float32": 1.2e-7, "float64": 4e-16}
"""How far from each other numbers may be that were meant to be equal, for numbers near 1."""

SCALE = Placeholder(Spec((), "float32"))
"""Stands for the factor of a gradient that programs write before it, such as one that clips."""

Numbers = Mapping[Atom, Sum]
"""What the numbers of a pattern are."""


class Pattern:
    """What a primitive computes, traced on placeholders.

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


Grouped = dict[Product, Sum]
"""The coefficients of products of tensors, which are sums of products of scalars."""


def by_tensors(form: Sum) -> Grouped:
    """A normal form, by products of tensors."""
    found: dict[Product, Sum] = {}
    for product, number in form:
        scalars = frozenset([pair for pair in product if is_number(pair[0])])
        tensors = product - scalars
        found[tensors] = plus(found.get(tensors, Sum()), Sum([(scalars, number)]))
    return {product: total for product, total in found.items() if total}


def is_number(x: Atom) -> bool:
    """Whether an atom is a scalar."""
    if isinstance(x, Tensor):
        return not x.ndim
    return all(is_number(y) for s in x.operands for product, _ in s for y, _ in product)


def shape_of(form: Grouped) -> tuple[tuple[float, ...], ...]:
    """What forms have in common that can be unified."""
    return tuple(sorted([tuple(sorted([n for _, n in product])) for product in form]))


Equations = tuple[tuple[Sum, Sum], ...]
"""Coefficients of the pattern, and what they are in the program."""

ONCE = number_of(1.0)


class Match(NamedTuple):
    """What has been found so far."""

    bound: dict[Atom, Tensor]
    """Tensors of the program for atoms of the pattern."""
    equations: Equations = ()
    factor: Sum = ONCE
    """What the product that is unified is to be multiplied by in the program."""


class Unifier:
    """Unifies a pattern with a program in which `news` are the new values of variables.

    `form` brings a tensor of the program into normal form, of which the gradient is already known
    or not.
    """

    def __init__(
        self,
        pattern: Pattern,
        news: Mapping[Tensor, Tensor],
        form: Callable[[Tensor, Tensor | None], Sum],
    ) -> None:
        self.pattern, self.news, self.form = pattern, news, form
        pairs = zip(pattern.results, pattern.variables, strict=True)
        self.variable_of: dict[Atom, Tensor] = dict(pairs)
        self.result_of: dict[Atom, Tensor] = {
            v: t for t, v in zip(pattern.results, pattern.variables, strict=True)
        }
        self.new = {v: t for t, v in news.items()}

    def results(self, match: Match, first: Grouped) -> Iterator[Match]:
        """Unify the results one after the other, the first one given, each when it is bound."""
        for found in self.sums(self.pattern.forms[0], first, match):
            yield from self._rest(found, {0})

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
                for found in self.sums(pattern.forms[i], whole, match):
                    yield from self._rest(found, {*done, i})
                return

    # --- sums, products, atoms --------------------------------------------------------------------

    def sums(self, ours: Grouped, theirs: Grouped, match: Match) -> Iterator[Match]:
        """Pair the terms of two sums."""
        if len(ours) != len(theirs) or len(ours) > MOST_TERMS:
            return
        if not ours:
            yield match
            return
        # What has functions in it, and what is bound, leaves the least choice.
        product = max(ours, key=lambda p: (sum(self._is_certain(x, match) for x, _ in p), len(p)))
        rest = {p: n for p, n in ours.items() if p != product}
        for other, number in theirs.items():
            for found in self.products(product, other, match._replace(factor=ONCE)):
                pair = times(ours[product], self._scale(product)), times(number, found.factor)
                remaining = {p: n for p, n in theirs.items() if p != other}
                found = Match(found.bound, (*found.equations, pair), match.factor)
                yield from self.sums(rest, remaining, found)

    def _scale(self, product: Product) -> Sum:
        """The power of the gradient's factor in a product."""
        exponent = dict(product).get(self.pattern.gradient, 0)
        return atom(SCALE, exponent) if exponent else ONCE

    def _is_certain(self, x: Atom, match: Match) -> bool:
        known = x in match.bound or x in self.variable_of or x in self.result_of
        return isinstance(x, Call) or known

    def products(self, ours: Product, theirs: Product, match: Match) -> Iterator[Match]:
        """Pair the factors of two products."""
        if not ours:
            if not theirs:
                yield match
            return
        if len(theirs) < len(ours) or (len(ours) == 1 and ours != theirs):
            yield from self._opened(ours, theirs, match)
        if len(theirs) != len(ours):
            return
        x, exponent = max(ours, key=lambda pair: self._is_certain(pair[0], match))
        for other, n in theirs:
            if n == exponent:
                for found in self.atoms(x, other, match):
                    rest = theirs - {(other, n)}
                    yield from self.products(ours - {(x, exponent)}, rest, found)

    def _opened(self, ours: Product, theirs: Product, match: Match) -> Iterator[Match]:
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
            for found in self.products(ours, product, match):
                yield found._replace(factor=times(found.factor, number))

    def atoms(self, ours: Atom, theirs: Atom, match: Match) -> Iterator[Match]:
        """Bind an atom, or compare it."""
        if isinstance(ours, Call):
            if isinstance(theirs, Call):
                yield from self._calls(ours, theirs, match)
        elif isinstance(theirs, Tensor):
            known = match.bound.get(ours)
            if known is not None:
                if known is theirs:
                    yield match
            elif theirs not in match.bound.values():
                bound = self._binding(ours, theirs)
                if bound is not None and not (match.bound.keys() & bound.keys()):
                    yield match._replace(bound={**match.bound, **bound})

    def _binding(self, ours: Tensor, theirs: Tensor) -> dict[Atom, Tensor] | None:
        """What it means that an atom of the pattern is a tensor of the program. A new value is
        that of a variable.
        """
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

    def _calls(self, ours: Call, theirs: Call, match: Match) -> Iterator[Match]:
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
        for found in self.sums(by_tensors(ours[0]), by_tensors(theirs[0]), match):
            yield from self._operands(ours[1:], theirs[1:], found)


# --- numbers --------------------------------------------------------------------------------------


def solved(equations: Equations, dtype: str, known: dict[Atom, Sum]) -> dict[Atom, Sum] | None:
    """The numbers for which the equations hold, beside those that are `known`; None if there are
    none, or they do not tell.
    """
    waiting = list(equations)
    while waiting:
        ready: list[tuple[Atom, Sum, Sum]] = []
        for equation in waiting:
            unknown = {x for product, _ in equation[0] for x, _ in product} - known.keys()
            if not unknown:
                if not _is_near(value(equation[0], known), equation[1], dtype, equation[0]):
                    return None
                waiting = [e for e in waiting if e is not equation]
            elif len(unknown) == 1:
                ready.append((unknown.pop(), *equation))
        if not ready:
            return known if not waiting else None
        x, ours, theirs = min(ready, key=_loss_of_digits)
        found = _solution(x, ours, theirs, known)
        if found is None:
            return None
        known = {**known, x: found}
    return known


def _loss_of_digits(equation: tuple[Atom, Sum, Sum]) -> tuple[bool, float, int]:
    """The order in which equations tell a number. Of 0.999 and 0.001, the smaller one tells exactly
    what both mean, unless the factor of the gradient has been multiplied into it.
    """
    _, ours, theirs = equation
    scaled = any(x is SCALE for product, _ in ours for x, _ in product)
    return scaled, abs(theirs.number or 1.0), len(ours)


def _solution(x: Atom, ours: Sum, theirs: Sum, known: Numbers) -> Sum | None:
    """The x for which two sums are equal, if only one power of it stands in them."""
    having = [(dict(product)[x], product, n) for product, n in ours if x in dict(product)]
    exponent = having[0][0]
    if any(e != exponent for e, *_ in having):
        return None
    gain = value([(product - {(x, exponent)}, n) for _, product, n in having], known)
    rest = value(ours.difference([(product, n) for _, product, n in having]), known)
    wanted = plus(theirs, rest, -1.0)
    found = times(wanted, power(gain, -1)) if wanted and gain else ZERO
    return _root(found, exponent) if found else None


def _root(form: Sum, degree: float) -> Sum | None:
    """What a sum is a power of, if it is certain. Where it is a square, either sign will do."""
    if degree == 1 or len(form) > 1:
        return form if degree == 1 else None
    ((product, n),) = form
    roots = [(x, exponent / degree) for x, exponent in product]
    if n <= 0 or any(exponent != int(exponent) for _, exponent in roots):
        return None
    return Sum([(frozenset([(x, int(exponent)) for x, exponent in roots]), n ** (1 / degree))])


def value(form: Collection[tuple[Product, float]], known: Numbers) -> Sum:
    """A sum of products of numbers that are known."""
    total = Sum()
    for product, n in form:
        term = number_of(n)
        for x, exponent in product:
            term = times(term, power(known[x], exponent))
        total = plus(total, term)
    return total


def _is_near(a: Sum, b: Sum, dtype: str, ours: Sum) -> bool:
    """Whether two numbers were meant to be equal. Where one of them was subtracted from 1, digits
    have been lost.
    """
    if a == b:
        return True
    a, b = _written_out(a), _written_out(b)
    numbers = dict(a), dict(b)
    for product in {*numbers[0], *numbers[1]}:
        m, n = [table.get(product, 0.0) for table in numbers]
        scale = 1.0 if len(ours) > 1 else max(abs(m), abs(n))
        if abs(m - n) > NEAR[dtype] * scale:
            return False
    return True


def _written_out(form: Sum) -> Sum:
    """The same, with what stands in its atoms."""
    form_of = Algebra()
    atoms = {x for product, _ in form for x, _ in product}
    return value(form, {x: atom(x) if isinstance(x, Call) else form_of(x) for x in atoms})


def tensors_in(form: Sum) -> list[Tensor]:
    """The scalar tensors of which a number is made."""
    atoms = [x for product, _ in form for x, _ in product]
    inside = [t for x in atoms if isinstance(x, Call) for s in x.operands for t in tensors_in(s)]
    return [*[x for x in atoms if isinstance(x, Tensor)], *inside]


def tensor_of(form: Sum, dtype: str) -> Tensor:
    """A sum of products of scalars as a tensor of a dtype; a known number as a float64."""
    known = form.number
    return _written(form, dtype) if known is None else constant(known, "float64")


def _written(form: Sum, dtype: str) -> Tensor:
    total: Tensor | None = None
    for product, number in sorted(form, key=lambda term: -term[1]):
        term = _product(product, number, dtype)
        total = term if total is None else ew.add(total, term)
    assert total is not None
    return total


def _product(product: Product, number: float, dtype: str) -> Tensor:
    result: Tensor | None = constant(number, dtype) if number != 1 or not product else None
    for x, exponent in sorted(product, key=lambda pair: pair[1] < 0):
        assert isinstance(x, Tensor) or x.op is None, "functions of numbers stay tensors"
        t = x if isinstance(x, Tensor) else _written(x.operands[0], dtype)
        if abs(exponent) != 1:
            t = ew.pow(t, constant(abs(exponent), dtype))
        if result is None:
            result = t if exponent > 0 else ew.div(constant(1, dtype), t)
        else:
            result = (ew.mul if exponent > 0 else ew.div)(result, t)
    assert result is not None
    return result
