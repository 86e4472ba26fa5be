"""Recognition: finds the groups of `ops.groups` in graphs, in whatever order they are written.

The ends of a group are compared as polynomials. `0.5 * x * (1 + tanh(u))` and `x * (tanh(u) / 2 +
0.5)` are both 0.5 · x + 0.5 · x · tanh(u), and `gamma * (x - m) / s + beta` is gamma · x / s −
gamma · m / s + beta.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from backplane.core.graph import Tensor
from backplane.ops.autodiff import Group, set_recognition
from backplane.ops.elementwise import add, div, erf, maximum, mul, neg, number, pow, sqrt, sub, tanh
from backplane.ops.groups import CUBIC, SLOPE, gelu, normalize, varying
from backplane.ops.reduction import mean
from backplane.ops.shaping import expand_dims, reshape, squeeze

Monomial = frozenset[tuple[Tensor, int]]
"""Tensors with their powers."""
Polynomial = dict[Monomial, float]

ARITHMETIC = frozenset((add, sub, mul, div, neg, pow))
MOST_TERMS, DEPTH, MOST_CANDIDATES, MOST_SEEDS = 6, 8, 8, 4
"""How large polynomials become, how deep they are looked into, how many tensors are tried as the
operand of a group, and around how many nodes at once a group is looked for."""

NEAR = {"float64": 1e-12}
"""How far, relatively, a coefficient may be from that of the kernel; 1e-6 for the other dtypes."""

ONE: Monomial = frozenset()


# --- polynomials ----------------------------------------------------------------------------------


def _powers(*terms: tuple[Tensor, int]) -> Monomial:
    return frozenset(terms)


def _product(a: Monomial, b: Monomial, sign: int = 1) -> Monomial:
    powers = dict(a)
    for t, n in b:
        powers[t] = powers.get(t, 0) + sign * n
    return frozenset([(t, n) for t, n in powers.items() if n])


def _times(p: Polynomial, q: Polynomial) -> Polynomial:
    found: Polynomial = {}
    for a, m in p.items():
        for b, n in q.items():
            key = _product(a, b)
            found[key] = found.get(key, 0.0) + m * n
    return found


def _plus(p: Polynomial, q: Polynomial, factor: float = 1.0) -> Polynomial:
    found = dict(p)
    for key, n in q.items():
        found[key] = found.get(key, 0.0) + factor * n
    return found


Atom = Callable[[Tensor], Tensor | None]
"""Gives what stands for a tensor that a polynomial is one of, None for other tensors."""


def _polynomial(t: Tensor, atom: Atom, depth: int = DEPTH) -> tuple[Polynomial, bool]:
    """`t` as a polynomial, and whether any atom occurs in it. What contains none stays whole."""
    known = atom(t)
    if known is not None:
        return {_powers((known, 1)): 1.0}, True
    constant = number(t)
    if constant is not None:
        return {ONE: constant}, False
    if t.op in ARITHMETIC and depth:
        parts = [_polynomial(x, atom, depth - 1) for x in t.inputs]
        if any(occurs for _, occurs in parts):
            found = _combined(t, [p for p, _ in parts])
            if found is not None and len(found) <= MOST_TERMS:
                return found, True
    return {_powers((t, 1)): 1.0}, False


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
        return {_product(a, key, -1): n / factor for a, n in p.items()} if factor else None
    if key or factor not in (2.0, 3.0):
        return None
    found = p
    for _ in range(int(factor) - 1):
        found = _times(found, p)
    return found


def _equal(p: Polynomial, q: Polynomial, dtype: str) -> bool:
    near = NEAR.get(dtype, 1e-6)
    return p.keys() == q.keys() and all(abs(p[k] - q[k]) <= near * abs(q[k]) for k in q)


# --- what surrounds the end -----------------------------------------------------------------------


class _Seed(NamedTuple):
    """A node that may be inside of a group, and what finds the group in a node around it."""

    match: Callable[[Tensor], Group | None]


def groups_in(order: Sequence[Tensor]) -> list[Group]:
    """The largest groups in a graph. `order` has operands before users."""
    near: dict[Tensor, dict[_Seed, int]] = {}
    """The seeds below a node, and how far away. A residual connection leads from one group into the
    next, so there may be several."""
    largest: dict[_Seed, Group] = {}
    for node in order:
        seed = _seed(node)
        if seed is not None:
            near[node] = {seed: 0}
        elif near and node.op in ARITHMETIC:
            reached = _reached([near[t] for t in node.inputs if t in near])
            if reached:
                near[node] = reached
            for around in reached:
                found = around.match(node)
                if found is not None:
                    largest[around] = found
    return list(largest.values())


def _reached(below: Sequence[dict[_Seed, int]]) -> dict[_Seed, int]:
    """The nearest seeds of the operands, one step farther away."""
    found: dict[_Seed, int] = {}
    for seeds in below:
        for seed, distance in seeds.items():
            if distance < DEPTH:
                found[seed] = min(distance + 1, found.get(seed, DEPTH))
    return dict(sorted(found.items(), key=lambda item: item[1])[:MOST_SEEDS])


def _seed(node: Tensor) -> _Seed | None:
    if node.op is tanh or node.op is erf:
        return _gelu_around(node)
    if node.op is sqrt or node.op is pow:
        return _normalize_around(node)
    return None


def _inside(end: Tensor, operands: Iterable[Tensor]) -> frozenset[Tensor]:
    found: set[Tensor] = set()
    waiting, stop = list(end.inputs), set(operands)
    while waiting:
        t = waiting.pop()
        if t not in stop and t not in found and t.op is not None:
            found.add(t)
            waiting += t.inputs
    return frozenset(found)


# --- GELU -----------------------------------------------------------------------------------------


def _gelu_around(curve: Tensor) -> _Seed | None:
    """`curve` is the tangent or the error function of a polynomial of x."""
    approximate, dtype = curve.op is tanh, curve.spec.dtype
    for x in _candidates(curve.inputs[0]):
        argument, _ = _polynomial(curve.inputs[0], lambda t, x=x: x if t is x else None)  # type: ignore[misc]
        wanted = {_powers((x, 1)): SLOPE if approximate else 0.5**0.5}
        if approximate:
            wanted[_powers((x, 3))] = SLOPE * CUBIC
        if _equal(argument, wanted, dtype):
            return _Seed(_gelu_matcher(x, curve, approximate))
    return None


def _candidates(argument: Tensor) -> list[Tensor]:
    """What the polynomial may be one of: the nearest operands of its shape."""
    if not any(number(t) is not None for x in (argument, *argument.inputs) for t in x.inputs):
        return []  # The polynomials of GELU have coefficients.
    found = [argument]
    for t in found:
        if t.op in ARITHMETIC and len(found) < MOST_CANDIDATES:
            found += [x for x in t.inputs if x.spec == argument.spec and x not in found]
    return found[1:]


def _gelu_matcher(x: Tensor, curve: Tensor, approximate: bool) -> Callable[[Tensor], Group | None]:
    wanted = {_powers((x, 1)): 0.5, _powers((x, 1), (curve, 1)): 0.5}

    def match(end: Tensor) -> Group | None:
        found, _ = _polynomial(end, lambda t: t if t is x or t is curve else None)
        if end.spec != x.spec or not _equal(found, wanted, x.spec.dtype):
            return None
        return Group(gelu, (x,), {"approximate": approximate}, end, {}, _inside(end, (x,)))

    return match


# --- normalization --------------------------------------------------------------------------------


class _Deviation(NamedTuple):
    """The square root of a variance plus ε, or its reciprocal."""

    root: Tensor
    power: int
    """1 for the reciprocal, else −1: the power of `root` that x is multiplied by."""
    x: Tensor
    variance: Tensor
    axes: tuple[int, ...]
    epsilon: float

    def centre(self, t: Tensor) -> bool:
        """Whether `t` is the mean of x, laid along the axes that are kept."""
        known = _whole(t)
        return _is_mean(known, self.x, self.axes) and _is_kept(t.spec.shape, self.x, self.axes)


def _whole(t: Tensor) -> Tensor:
    """`t` without the axes of size 1 that it was given or has lost."""
    while t.op in (expand_dims, squeeze) or (t.op is reshape and len(t.inputs) == 1):
        t = t.inputs[0]
    return t


def _is_mean(t: Tensor, x: Tensor, axes: tuple[int, ...]) -> bool:
    return t.op is mean and t.inputs[0] is x and t.params["axes"] == axes


def _is_kept(shape: Sequence[int | None], x: Tensor, axes: tuple[int, ...]) -> bool:
    """Whether a reduced tensor broadcasts with x as it should."""
    whole = [1 if i in axes else n for i, n in enumerate(x.spec.shape)]
    leading = axes == tuple(range(len(axes)))
    return list(shape) == whole or (leading and list(shape) == whole[len(axes) :])


def _normalize_around(root: Tensor) -> _Seed | None:
    power, total = -1, root.inputs[0]
    if root.op is pow:
        exponent = number(root.inputs[1])
        if exponent not in (0.5, -0.5):
            return None
        power = -1 if exponent == 0.5 else 1
    if total.op is maximum and 0.0 in [number(t) for t in total.inputs]:
        total = next((t for t in total.inputs if number(t) != 0.0), total)
    if total.op is not add:
        return None
    for variance, more in (total.inputs, total.inputs[::-1]):
        epsilon = number(more)
        known = None if epsilon is None or epsilon <= 0 else _centred(_whole(variance))
        if known is not None and epsilon is not None:
            x, axes = known
            deviation = _Deviation(root, power, x, _whole(variance), axes, epsilon)
            if _is_kept(root.spec.shape, x, axes):
                return _Seed(partial(_normalization, deviation=deviation))
    return None


def _centred(variance: Tensor) -> tuple[Tensor, tuple[int, ...]] | None:
    """The x and the axes of which `variance` is the mean squared distance from the mean."""
    if variance.op is not mean:
        return None
    square, axes = variance.inputs[0], variance.params["axes"]
    twice = square.op is mul and square.inputs[0] is square.inputs[1]
    if not twice and not (square.op is pow and number(square.inputs[1]) == 2.0):
        return None
    difference = square.inputs[0]
    if difference.op is not sub:
        return None
    x, centre = difference.inputs
    fits = _is_mean(_whole(centre), x, axes) and _is_kept(centre.spec.shape, x, axes)
    return (x, axes) if fits else None


def _normalization(end: Tensor, deviation: _Deviation) -> Group | None:
    """The group that ends at `end`, if it is x − mean, divided by the deviation, perhaps times
    gamma plus beta.
    """
    x, axes = deviation.x, deviation.axes
    if end.spec != x.spec:
        return None

    def atom(t: Tensor) -> Tensor | None:
        if t is x or t is deviation.root:
            return t
        return deviation.variance if deviation.centre(t) else None

    found, _ = _polynomial(end, atom)
    terms = {key: n for key, n in found.items() if deviation.root in dict(key)}
    rest = [(key, n) for key, n in found.items() if key not in terms]
    divided = _powers((deviation.root, deviation.power))
    by_x = [_product(key, divided, -1) for key in terms if x in dict(key)]
    if len(by_x) != 1 or len(rest) > 1:
        return None
    gamma = _product(by_x[0], _powers((x, 1)), -1)
    # `atom` lets the variance stand for the mean.
    moved = _product(gamma, _powers((deviation.variance, 1)))
    if terms != {_product(by_x[0], divided): 1.0, _product(moved, divided): -1.0}:
        return None
    parameters = [*gamma, *[power for key, n in rest for power in (key if n == 1.0 else ())]]
    if len(gamma) != len(rest) or len(parameters) not in (0, 2):
        return None
    operands = (x, *[t for t, power in parameters if power == 1 and _is_parameter(t, x, axes)])
    if len(operands) != 1 + len(parameters):
        return None
    inside = _inside(end, operands)
    others = {t: 1 for t in inside if _is_mean(t, x, axes)} | {deviation.variance: 2}
    params = {"axes": axes, "epsilon": deviation.epsilon}
    return Group(normalize, operands, params, end, others, inside)


def _is_parameter(t: Tensor, x: Tensor, axes: tuple[int, ...]) -> bool:
    """Whether `t` varies along normalized axes alone, or along others alone."""
    if t.spec.dtype != x.spec.dtype or t.ndim > x.ndim:
        return False
    along = varying(t.spec, x.spec)
    return along.issubset(axes) or along.isdisjoint(axes)


set_recognition(groups_in)
