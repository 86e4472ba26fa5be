"""One normal form of arithmetic: sums of products of powers of atoms.

`a * x - (y + b * x) / c` is a·x − y·c⁻¹ − b·x·c⁻¹ here, in whatever order it is written. An atom is
a tensor that is not looked into, or a `Call`: a function that is no arithmetic, such as a square
root, of operands in normal form. So two ways to write the same expression give equal normal forms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from backplane.compile.cache_key import params_key
from backplane.compile.constants import by_numpy
from backplane.core.graph import Constant, Tensor, is_scalar
from backplane.core.primitive import Primitive
from backplane.ops import elementwise as ew
from backplane.ops.effects import branch, identity, stop_gradient
from backplane.ops.shaping import expand_dims, reshape, squeeze

MOST_TERMS = 24
"""Products of sums are written out up to so many terms."""


class Call(NamedTuple):
    """A function of operands in normal form. A sum that stands under a fraction has no function."""

    op: Primitive[Any] | None
    params: Any
    operands: tuple[Sum, ...]


Atom = Tensor | Call
Product = frozenset[tuple[Atom, float]]
"""Atoms with their exponents. The empty product is 1."""

ONE: Product = frozenset()


class Sum(frozenset[tuple[Product, float]]):
    """Products with their coefficients, none of which is 0."""

    __slots__ = ()

    @property
    def number(self) -> float | None:
        """The number that it is, if it is one."""
        if not self:
            return 0.0
        ((product, factor),) = self if len(self) == 1 else ((None, 0.0),)
        return factor if product == ONE else None

    @property
    def atom(self) -> Any:
        """The atom that it is, if it is one."""
        ((product, factor),) = self if len(self) == 1 else ((ONE, 0.0),)
        ((x, exponent),) = product if len(product) == 1 else ((None, 0),)
        return x if (factor, exponent) == (1, 1) else None


ZERO = Sum()


def atoms_in(form: Sum) -> Iterator[Atom]:
    """The atoms of a sum, and those in the operands of functions."""
    for product, _ in form:
        for x, _ in product:
            yield x
            for operand in x.operands if isinstance(x, Call) else ():
                yield from atoms_in(operand)


def _sum(terms: Mapping[Product, float]) -> Sum:
    return Sum([(product, factor) for product, factor in terms.items() if factor])


def number_of(value: float) -> Sum:
    """A number in normal form."""
    return Sum([(ONE, value)]) if value else ZERO


def atom(x: Atom, exponent: float = 1) -> Sum:
    """A power of an atom in normal form."""
    return Sum([(frozenset([(x, exponent)]), 1.0)])


def plus(a: Sum, b: Sum, factor: float = 1.0) -> Sum:
    """A + factor · b."""
    terms = dict(a)
    for product, number in b:
        terms[product] = terms.get(product, 0.0) + factor * number
    return _sum(terms)


def multiplied(a: Product, b: Product) -> Product:
    """The product of two products."""
    powers = dict(a)
    for x, exponent in b:
        powers[x] = powers.get(x, 0) + exponent
    return frozenset([(x, exponent) for x, exponent in powers.items() if exponent])


def times(a: Sum, b: Sum) -> Sum:
    """A · b. Nothing is said of 0 · b where b may be infinite."""
    if not (a and b):
        known = all(is_positive(x) for s in (a, b) for p, _ in s for x, n in p if n < 0)
        return ZERO if known else atom(Call(ew.mul, (), (a, b)))
    if len(a) * len(b) > MOST_TERMS:
        a, b = [x if len(x) == 1 else atom(Call(None, (), (x,))) for x in (a, b)]
    terms: dict[Product, float] = {}
    for p, m in a:
        for q, n in b:
            product = multiplied(p, q)
            terms[product] = terms.get(product, 0.0) + m * n
    return _sum(terms)


def is_positive(x: Atom | Sum) -> bool:
    """Whether it is certainly positive, if roots exist and scalars such as rates are positive."""
    if isinstance(x, Tensor):
        return not x.spec.shape
    if isinstance(x, Call):
        return x.op is None and is_positive(x.operands[0])
    return all(n > 0 for _, n in x) and any(all(is_positive(y) for y, _ in p) for p, _ in x)


def power(a: Sum, exponent: float) -> Sum:
    """A to the power of a constant. Sums are written out for small whole numbers only, and roots
    stay roots: that of a square is no square of a root.
    """
    if exponent == 1:
        return a
    if len(a) == 1 and exponent == int(exponent):
        ((product, factor),) = a
        powers = frozenset([(x, n * exponent) for x, n in product])
        return Sum([(powers, float(factor**exponent))])
    if len(a) > 1 and exponent == int(exponent) < 0:
        common = frozenset.intersection(*[product for product, _ in a])
        if common:
            rest = Sum([(product - common, n) for product, n in a])
            return times(power(Sum([(common, 1.0)]), exponent), power(rest, exponent))
    if exponent in (2, 3):
        return times(a, a) if exponent == 2 else times(a, times(a, a))
    return atom(Call(None, (), (a,)), exponent)


class Algebra:
    """Brings tensors into normal form.

    `stops` are not looked into. `zeros` count as 0. `opens` says of a node whether to look into it.
    """

    def __init__(
        self,
        stops: Collection[Tensor] = (),
        zeros: Collection[Tensor] = (),
        opens: Callable[[Tensor], bool] = lambda t: True,
    ) -> None:
        self.stops, self.opens = stops, opens
        self.known: dict[Tensor, Sum] = dict.fromkeys(zeros, ZERO)

    def __call__(self, t: Tensor) -> Sum:
        """The normal form of `t`."""
        form = self.known.get(t)
        if form is None:
            form = self.known[t] = self._form(t)
        return form

    def _form(self, t: Tensor) -> Sum:
        if is_scalar(t):
            return number_of(meant(t))
        op = t.op
        if op is None or t in self.stops or not self.opens(t):
            return atom(t)
        rule = _RULES.get(op)
        if rule is not None:
            form: Sum = rule(*[self(x) for x in t.inputs])
            return form
        if op is ew.pow and is_scalar(t.inputs[1]):
            return power(self(t.inputs[0]), meant(t.inputs[1]))
        if op is ew.cast and t.inputs[0].spec.dtype == t.spec.dtype:
            return self(t.inputs[0])
        if op.reduction or op in VIEWS:
            reduced = kept_reduction(t)
            if reduced is not None:
                return self.reduced(reduced)
        if op.elementwise or op.reduction:
            return _called(t, t.params, [self(x) for x in t.inputs])
        return atom(t)

    def reduced(self, t: Tensor) -> Sum:
        """The normal form of a reduction, as if its axes had been kept with size 1."""
        return _called(t, {**t.params, "keepdims": True}, [self(x) for x in t.inputs])


VIEWS = frozenset([expand_dims, squeeze, reshape])


def kept_reduction(t: Tensor) -> Tensor | None:
    """The reduction of which `t` holds the elements, if `t` is broadcast with the operand of that
    as if the reduced axes had been kept with size 1.
    """
    whole = t
    while whole.op in VIEWS and len(whole.inputs) == 1:
        whole = whole.inputs[0]
    if whole.op is None or not whole.op.reduction:
        return None
    axes, sizes = whole.params["axes"], whole.inputs[0].spec.shape
    kept = tuple([1 if i in axes else n for i, n in enumerate(sizes)])
    leading = axes == tuple(range(len(axes)))
    fits = t.spec.shape == kept or (leading and t.spec.shape == kept[len(axes) :])
    return whole if fits else None


def scales(t: Tensor) -> bool:
    """Whether `t` is an operand times a number, or a number."""
    if not t.ndim:
        return t.op in (ew.mul, ew.div, ew.neg)
    if t.op is ew.neg:
        return True
    x, y = t.inputs if len(t.inputs) == 2 else (t, t)
    return (t.op is ew.mul and not (x.ndim and y.ndim)) or (t.op is ew.div and not y.ndim)


def meant(t: Constant) -> float:
    """The number that was meant: 0.1 for the float32 that is nearest to it."""
    value = t.value[()]
    return float(str(value)) if t.spec.dtype == "float32" else float(value)


def _quotient(x: Sum, y: Sum) -> Sum:
    return times(x, power(y, -1)) if y else atom(Call(ew.div, (), (x, y)))


def _root(x: Sum) -> Sum:
    """`K.sqrt` takes the square root of max(x, 0)."""
    inner = x.atom
    if isinstance(inner, Call) and inner.op is ew.maximum and ZERO in inner.operands:
        x = next(y for y in inner.operands if y)
    return power(x, 0.5)


_RULES: dict[Primitive[Any], Callable[..., Sum]] = {
    ew.add: plus,
    ew.sub: lambda x, y: plus(x, y, -1.0),
    ew.neg: lambda x: plus(ZERO, x, -1.0),
    ew.mul: times,
    ew.div: _quotient,
    ew.sqrt: _root,
    branch: lambda x: x,
    identity: lambda x: x,
    stop_gradient: lambda x: x,
}
"""The rules of arithmetic for normal forms."""

EXTREMES = frozenset([ew.maximum, ew.minimum])
"""Functions whose operands may stand in any order."""


def _called(t: Tensor, params: Mapping[str, Any], operands: Sequence[Sum]) -> Sum:
    """An element-wise function, or a reduction, of operands in normal form."""
    op = t.op
    assert op is not None
    if op is ew.where and operands[1] == operands[2]:
        return operands[1]
    if op.linear and all(operands[i] == ZERO for i in op.linear):
        return ZERO
    if op in EXTREMES:
        if operands[0] == operands[1]:
            return operands[0]
        operands = sorted(operands, key=hash)
    numbers = [x.number for x in operands]
    if None not in numbers and not (op.reduction and any(numbers)):
        number = _computed(t, numbers)
        if number is not None and not (op.reduction and number):
            return number_of(number)
    return atom(Call(op, params_key(params), tuple(operands)))


def _computed(t: Tensor, numbers: Sequence[float | None]) -> float | None:
    """An element of `t`, whose operands are filled with numbers."""
    specs = [x.spec for x in t.inputs]
    if "bfloat16" in [spec.dtype for spec in specs]:
        return None
    pairs = zip(t.inputs, numbers, strict=True)
    made = by_numpy(t, specs, [np.full((1,) * x.ndim, n, x.spec.dtype) for x, n in pairs])
    number = math.nan if made is None else float(np.ravel(made)[0])
    return number if math.isfinite(number) else None
