"""The numbers of patterns: what they are in programs, by equations, and as tensors."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import reduce
from typing import Any

from backplane.compile.fuse.algebra import (
    ZERO,
    Algebra,
    Atom,
    Call,
    Product,
    Sum,
    atom,
    atoms_in,
    number_of,
    plus,
    power,
    times,
)
from backplane.compile.fuse.unify import SCALE, Equations
from backplane.core.graph import Tensor, constant
from backplane.ops import elementwise as ew

NEAR = {"float32": 1.2e-7, "float64": 4e-16}
"""The largest difference between numbers that were meant to be equal, for numbers near 1."""

Numbers = Mapping[Atom, Sum]
"""The values of a pattern's numbers."""


def solved(equations: Equations, near: float, known: dict[Atom, Sum]) -> dict[Atom, Sum] | None:
    """The numbers for which the equations hold, beside those that are `known`; None if there are
    none, or they do not tell. Numbers that are as `near` to each other were meant to be equal.
    """
    waiting = list(equations)
    while waiting:
        ready: list[tuple[Atom, Sum, Sum]] = []
        for equation in waiting:
            unknown = {x for product, _ in equation[0] for x, _ in product} - known.keys()
            if not unknown:
                if not _is_near(value(equation[0], known), equation[1], near, equation[0]):
                    return None
                waiting = [e for e in waiting if e is not equation]
            elif len(unknown) == 1:
                ready.append((unknown.pop(), *equation))
        if not ready:
            return known if not waiting else None
        x, ours, theirs = min(ready, key=_loss_of_digits)
        solution = _solution(x, ours, theirs, known)
        if solution is None:
            return None
        known = {**known, x: solution}
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
    solution = times(wanted, power(gain, -1)) if wanted and gain else ZERO
    return _root(solution, exponent) if solution else None


def _root(form: Sum, degree: float) -> Sum | None:
    """The root of a sum that is certainly a power. Of a square, either sign will do."""
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


def _is_near(a: Sum, b: Sum, near: float, ours: Sum) -> bool:
    """Whether numbers were meant to be equal, though 1 − x may have lost digits."""
    if a == b:
        return True
    a, b = _written_out(a), _written_out(b)
    numbers = dict(a), dict(b)
    for product in {*numbers[0], *numbers[1]}:
        m, n = [table.get(product, 0.0) for table in numbers]
        scale = 1.0 if len(ours) > 1 else max(abs(m), abs(n))
        if abs(m - n) > near * scale:
            return False
    return True


def _written_out(form: Sum) -> Sum:
    """The same, with what stands in its atoms."""
    form_of = Algebra()
    atoms = {x for product, _ in form for x, _ in product}
    return value(form, {x: atom(x) if isinstance(x, Call) else form_of(x) for x in atoms})


def renamed(form: Sum, names: Any) -> Sum:
    """A number with other tensors in it, or with names of tensors in their places, and back."""

    def other(x: Any) -> Any:
        if isinstance(x, Call):
            return x._replace(operands=tuple([renamed(y, names) for y in x.operands]))
        return names[x]

    if form.number is not None:
        return form
    return Sum([(frozenset([(other(x), e) for x, e in product]), n) for product, n in form])


def tensors_in(form: Sum) -> list[Tensor]:
    """The scalar tensors of which a number is made."""
    return [x for x in atoms_in(form) if isinstance(x, Tensor)]


def tensor_of(form: Sum, dtype: str) -> Tensor:
    """A sum of products of scalars as a tensor of a dtype; a known number as a float64."""
    known = form.number
    return _written(form, dtype) if known is None else constant(known, "float64")


def _written(form: Sum, dtype: str) -> Tensor:
    terms = sorted(form, key=lambda term: -term[1])
    return reduce(ew.add, [_product(product, number, dtype) for product, number in terms])


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
