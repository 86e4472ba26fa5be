"""Tensors as polynomials of others: what is written in different orders has equal ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from backplane.core.graph import Tensor
from backplane.ops.elementwise import add, div, mul, neg, number, pow, sub

Monomial = frozenset[tuple[Tensor, int]]
"""Tensors with their powers."""
Polynomial = dict[Monomial, float]

ARITHMETIC = frozenset((add, sub, mul, div, neg, pow))
MOST_TERMS, DEPTH = 6, 8
"""How large polynomials become, and how deep they are looked into."""

NEAR = {"float64": 1e-12}
"""How far, relatively, a coefficient may be from that of the kernel; 1e-6 for the other dtypes."""

ONE: Monomial = frozenset()


def powers(*terms: tuple[Tensor, int]) -> Monomial:
    """The product of powers of tensors."""
    return frozenset(terms)


def product(a: Monomial, b: Monomial, sign: int = 1) -> Monomial:
    """The product of two, or their quotient if `sign` is −1."""
    found = dict(a)
    for t, n in b:
        found[t] = found.get(t, 0) + sign * n
    return frozenset([(t, n) for t, n in found.items() if n])


def _times(p: Polynomial, q: Polynomial) -> Polynomial:
    found: Polynomial = {}
    for a, m in p.items():
        for b, n in q.items():
            key = product(a, b)
            found[key] = found.get(key, 0.0) + m * n
    return found


def _plus(p: Polynomial, q: Polynomial, factor: float = 1.0) -> Polynomial:
    found = dict(p)
    for key, n in q.items():
        found[key] = found.get(key, 0.0) + factor * n
    return found


Atom = Callable[[Tensor], Tensor | None]
"""Gives what stands for a tensor that a polynomial is one of, None for other tensors."""


def polynomial(t: Tensor, atom: Atom, depth: int = DEPTH) -> tuple[Polynomial, bool]:
    """`t` as a polynomial, and whether any atom occurs in it. What contains none stays whole."""
    known = atom(t)
    if known is not None:
        return {powers((known, 1)): 1.0}, True
    constant = number(t)
    if constant is not None:
        return {ONE: constant}, False
    if t.op in ARITHMETIC and depth:
        parts = [polynomial(x, atom, depth - 1) for x in t.inputs]
        if any(occurs for _, occurs in parts):
            found = _combined(t, [p for p, _ in parts])
            if found is not None and len(found) <= MOST_TERMS:
                return found, True
    return {powers((t, 1)): 1.0}, False


def _combined(t: Tensor, parts: Sequence[Polynomial]) -> Polynomial | None:
    """The result of an operation on polynomials, if it is one."""
    p = parts[0]
    if t.op is neg:
        return _plus({}, p, -1.0)
    q = parts[1]
    if t.op in (add, sub):
        return _plus(p, q, 1.0 if t.op is add else -1.0)
    if t.op is mul:
        return _times(p, q)
    if len(q) != 1:
        return None
    ((key, factor),) = q.items()
    if t.op is div:
        return {product(a, key, -1): n / factor for a, n in p.items()} if factor else None
    if key or factor not in (2.0, 3.0):
        return None
    found = p
    for _ in range(int(factor) - 1):
        found = _times(found, p)
    return found


def equal(p: Polynomial, q: Polynomial, dtype: str) -> bool:
    """Whether two have the same terms, with coefficients that are equal but for rounding."""
    near = NEAR.get(dtype, 1e-6)
    return p.keys() == q.keys() and all(abs(p[k] - q[k]) <= near * abs(q[k]) for k in q)
