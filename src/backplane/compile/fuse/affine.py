"""Reads sums of tensors times numbers out of a graph, in whatever order they are written.

For example, `a * x - (y + b * x) / c` is x · (a − b / c) + y · (−1 / c). Numbers are constants, or
scalar tensors whose values are known only when the program runs.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from backplane.core.graph import Constant, Tensor, constant
from backplane.ops.elementwise import add, div, mul, neg, sub

DEPTH = 8
"""How many operations deep a sum is looked into."""

Powers = tuple[tuple[Tensor, int], ...]

_NEAR = {"float32": 1.2e-7, "float64": 4e-16}
"""How far from one the sum of two rounded numbers may be."""


class Factor(NamedTuple):
    """A number times powers of scalar tensors."""

    number: float
    powers: Powers = ()

    def tensors(self) -> list[Tensor]:
        """The scalar tensors in the factor."""
        return [t for t, _ in self.powers]

    def times(self, other: Factor) -> Factor:
        """The product."""
        powers = dict(self.powers)
        for t, n in other.powers:
            powers[t] = powers.get(t, 0) + n
        kept = sorted([p for p in powers.items() if p[1]], key=lambda p: p[0].serial)
        return Factor(self.number * other.number, tuple(kept))

    def inverse(self) -> Factor:
        """The reciprocal."""
        return Factor(1 / self.number, tuple([(t, -n) for t, n in self.powers]))

    def tensor(self, dtype: str) -> Tensor:
        """The factor as a scalar tensor. A known number is a float64, whatever `dtype` is."""
        if not self.powers:
            return constant(self.number, "float64")
        result: Tensor | None = None
        if self.number != 1:
            result = constant(self.number, dtype)
        for t, n in sorted(self.powers, key=lambda p: p[1] < 0):
            for _ in range(abs(n)):
                if result is None:
                    result = t if n > 0 else div(constant(1, dtype), t)
                else:
                    result = (mul if n > 0 else div)(result, t)
        assert result is not None
        return result


class Sum:
    """A sum of factors."""

    __slots__ = ("terms",)

    def __init__(self, terms: dict[Powers, float]) -> None:
        self.terms = terms

    @classmethod
    def of(cls, factor: Factor) -> Sum:
        """A sum of one factor."""
        return cls({factor.powers: factor.number})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sum) and self.terms == other.terms

    __hash__ = None  # type: ignore[assignment]

    def __add__(self, other: Sum) -> Sum:
        terms = dict(self.terms)
        for powers, number in other.terms.items():
            terms[powers] = terms.get(powers, 0) + number
        return Sum(terms)

    def __neg__(self) -> Sum:
        return Sum({powers: -number for powers, number in self.terms.items()})

    def times(self, other: Factor) -> Sum:
        """The product with a factor."""
        products = [Factor(n, powers).times(other) for powers, n in self.terms.items()]
        return Sum({p.powers: p.number for p in products})

    def is_one(self) -> bool:
        """Whether it is the number 1."""
        return self.terms == {(): 1.0}

    def single(self) -> Factor | None:
        """The factor, if the sum has only one."""
        if len(self.terms) != 1:
            return None
        ((powers, number),) = self.terms.items()
        return Factor(number, powers)

    def complement_of(self, other: Sum, dtype: str) -> Factor | None:
        """The sum as a factor in [0, 1), if it is one minus `other`."""
        total = _expanded(self) + _expanded(other)
        one = total.terms.pop((), 0.0)
        if any(total.terms.values()) or abs(one - 1) > _NEAR[dtype]:
            return None
        number = other.single()
        if number is None or number.powers:
            return self.single()
        # Of 0.999 and 0.001, the smaller one tells exactly what both mean.
        return Factor(1 - number.number) if 0 < number.number <= 1 else None


ONE = Sum({(): 1.0})


def _expanded(value: Sum) -> Sum:
    """`value`, with factors that are sums of scalars written out as sums."""
    result = Sum({})
    for powers, number in value.terms.items():
        parts = Sum({powers: number})
        if len(powers) == 1 and powers[0][1] == 1:
            t = powers[0][0]
            if t.op is not None and t.op in (add, sub):
                first, second = [Sum.of(factor_of(x).times(Factor(number))) for x in t.inputs]
                parts = first + (second if t.op is add else -second)
        result = result + parts
    return result


def factor_of(t: Tensor, depth: int = DEPTH) -> Factor:
    """A scalar tensor as a factor."""
    if isinstance(t, Constant) and isinstance(t.value, np.ndarray):
        return Factor(_decimal(t.value))
    if t.op is not None and depth:
        if t.op is neg:
            return factor_of(t.inputs[0], depth - 1).times(Factor(-1.0))
        if t.op in (mul, div):
            x, y = [factor_of(u, depth - 1) for u in t.inputs]
            if t.op is mul:
                return x.times(y)
            if y.number:
                return x.times(y.inverse())
    return Factor(1.0, ((t, 1),))


def _decimal(value: np.ndarray) -> float:
    """The number that was meant: 0.1 for the float32 that is nearest to it."""
    return float(str(value[()])) if value.dtype == np.float32 else float(value)


def scaled(t: Tensor, stops: Collection[Tensor]) -> tuple[Factor, Tensor, Tensor | None]:
    """f, x and y such that `t` is f · x or, if there is a y, f · x / y. Tensors in `stops` stay
    whole.
    """
    factor, under = Factor(1.0), None
    op = t.op
    while op is not None and t not in stops:
        parts = _scaling(t)
        if parts is not None:
            factor, t = factor.times(parts[0]), parts[1]
        elif op is div and under is None and t.inputs[0].spec == t.spec:
            t, under = t.inputs
        else:
            break
        op = t.op
    return factor, t, under


def _scaling(t: Tensor) -> tuple[Factor, Tensor] | None:
    """The f and x such that `t` is f · x, if `t` is a single operation with a scalar."""
    assert t.op is not None
    if t.op is neg:
        return Factor(-1.0), t.inputs[0]
    if t.op is mul:
        for number, x in (t.inputs, t.inputs[::-1]):
            if not number.spec.shape and x.spec == t.spec:
                return factor_of(number), x
    if t.op is div and not t.inputs[1].spec.shape and t.inputs[0].spec == t.spec:
        factor = factor_of(t.inputs[1])
        return (factor.inverse(), t.inputs[0]) if factor.number else None
    return None


def leaves(
    t: Tensor, target: Tensor, stops: Collection[Tensor]
) -> dict[tuple[Tensor, Tensor | None], Sum]:
    """`t` as a sum over pairs (x, y), which stand for x / y, or for x if y is None. Only sums that
    contain `target` are opened, and tensors in `stops` stay whole.
    """
    found: dict[tuple[Tensor, Tensor | None], Sum] = {}
    _collect(t, ONE, target, stops, found)
    return found


def _collect(
    t: Tensor,
    factor: Sum,
    target: Tensor,
    stops: Collection[Tensor],
    found: dict[tuple[Tensor, Tensor | None], Sum],
) -> None:
    if t is not target and _contains(t, target, stops, DEPTH):
        assert t.op is not None
        parts = _scaling(t)
        if parts is not None:
            _collect(parts[1], factor.times(parts[0]), target, stops, found)
            return
        _collect(t.inputs[0], factor, target, stops, found)
        _collect(t.inputs[1], factor if t.op is add else -factor, target, stops, found)
        return
    scale, core, under = scaled(t, {target, *stops})
    key = (core, under)
    product = factor.times(scale)
    found[key] = found[key] + product if key in found else product


def _contains(t: Tensor, target: Tensor, stops: Collection[Tensor], depth: int) -> bool:
    """Whether `target` is a part of the sum `t`."""
    if t is target:
        return True
    if t.op is None or t in stops or not depth:
        return False
    parts = _scaling(t)
    if parts is not None:
        return _contains(parts[1], target, stops, depth - 1)
    if t.op not in (add, sub) or any(x.spec != t.spec for x in t.inputs):
        return False
    return any(_contains(x, target, stops, depth - 1) for x in t.inputs)
