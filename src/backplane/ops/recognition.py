"""Recognition: finds the groups of `ops.groups` in graphs, in whatever order they are written.

The ends of a group are compared as polynomials. `0.5 * x * (1 + tanh(u))` and `x * (tanh(u) / 2 +
0.5)` are both 0.5 · x + 0.5 · x · tanh(u), and `gamma * (x - m) / s + beta` is gamma · x / s −
gamma · m / s + beta.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from backplane.core.graph import Tensor
from backplane.core.primitive import Primitive
from backplane.ops.autodiff import Group, set_recognition
from backplane.ops.creation import full
from backplane.ops.elementwise import add, erf, maximum, mul, neg, number, pow, sqrt, sub, tanh
from backplane.ops.groups import CUBIC, SLOPE, gelu, normalize, normalize_by, varying
from backplane.ops.polynomials import (
    ARITHMETIC,
    DEPTH,
    ONE,
    Monomial,
    Polynomial,
    equal,
    polynomial,
    powers,
    product,
)
from backplane.ops.reduction import mean
from backplane.ops.shaping import expand_dims, reshape, squeeze

MOST_CANDIDATES, MOST_SEEDS = 8, 4
"""How many tensors are tried as the operand of a group, and around how many nodes at once one is
looked for."""

Seed = Callable[[Tensor], Group | None]
"""What finds the group around a node in a node that may be the group's end."""
Seeds = Mapping[Primitive[Any] | None, Callable[[Tensor], Seed | None]]
"""From the primitives of nodes inside of groups to what makes a seed of a node, if it is one."""

# --- what surrounds the end -----------------------------------------------------------------------


def groups_in(order: Sequence[Tensor]) -> list[Group]:
    """The largest groups in a graph that have a gradient of their own. `order` has operands before
    users.
    """
    return _around(order, SEEDS)


def normalizations_by_given_in(order: Sequence[Tensor]) -> list[Group]:
    """The largest groups for `normalize_by` in a graph, whose operands but the first are vectors
    along the last axis.
    """
    return _around(order, SEEDS_BY_GIVEN)


def _around(order: Sequence[Tensor], seeds: Seeds) -> list[Group]:
    near: dict[Tensor, dict[Seed, int]] = {}
    """The seeds below a node, and how far away. A residual connection leads from one group into the
    next, so there may be several."""
    largest: dict[Seed, Group] = {}
    for node in order:
        find = seeds.get(node.op)
        seed = None if find is None else find(node)
        if seed is not None:
            near[node] = {seed: 0}
        elif near and node.op in ARITHMETIC:
            reached = _reached([near[t] for t in node.inputs if t in near])
            if reached:
                near[node] = reached
            for around in reached:
                found = around(node)
                if found is not None:
                    largest[around] = found
    return list(largest.values())


def _reached(below: Sequence[dict[Seed, int]]) -> dict[Seed, int]:
    """The nearest seeds of the operands, one step farther away."""
    found: dict[Seed, int] = {}
    for seeds in below:
        for seed, distance in seeds.items():
            if distance < DEPTH:
                found[seed] = min(distance + 1, found.get(seed, DEPTH))
    return dict(sorted(found.items(), key=lambda item: item[1])[:MOST_SEEDS])


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


def _gelu_around(curve: Tensor) -> Seed | None:
    """`curve` is the tangent or the error function of a polynomial of x."""
    approximate, dtype = curve.op is tanh, curve.spec.dtype
    for x in _candidates(curve.inputs[0]):
        argument, _ = polynomial(curve.inputs[0], lambda t, x=x: x if t is x else None)  # type: ignore[misc]
        wanted = {powers((x, 1)): SLOPE if approximate else 0.5**0.5}
        if approximate:
            wanted[powers((x, 3))] = SLOPE * CUBIC
        if equal(argument, wanted, dtype):
            return partial(_gelu, x=x, curve=curve)
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


def _gelu(end: Tensor, x: Tensor, curve: Tensor) -> Group | None:
    wanted = {powers((x, 1)): 0.5, powers((x, 1), (curve, 1)): 0.5}
    found, _ = polynomial(end, lambda t: t if t is x or t is curve else None)
    if end.spec != x.spec or not equal(found, wanted, x.spec.dtype):
        return None
    return Group(gelu, (x,), {"approximate": curve.op is tanh}, end, {}, _inside(end, (x,)))


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


def _power(root: Tensor) -> int | None:
    """-1 for a square root, by which x is divided, 1 for the reciprocal of one; else None."""
    if root.op is pow:
        return {0.5: -1, -0.5: 1}.get(number(root.inputs[1]) or 0.0)
    return -1 if root.op is sqrt else None


def _normalize_around(root: Tensor) -> Seed | None:
    power, total = _power(root), root.inputs[0]
    if power is None:
        return None
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
                return partial(_normalization, deviation=deviation)
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

    found, _ = polynomial(end, atom)
    terms = {key: n for key, n in found.items() if deviation.root in dict(key)}
    rest = [(key, n) for key, n in found.items() if key not in terms]
    divided = powers((deviation.root, deviation.power))
    by_x = [product(key, divided, -1) for key in terms if x in dict(key)]
    if len(by_x) != 1 or len(rest) > 1:
        return None
    gamma = product(by_x[0], powers((x, 1)), -1)
    # `atom` lets the variance stand for the mean.
    moved = product(gamma, powers((deviation.variance, 1)))
    if terms != {product(by_x[0], divided): 1.0, product(moved, divided): -1.0}:
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


# --- normalization by given moments ---------------------------------------------------------------


def is_vector(t: Tensor) -> bool:
    """Whether a tensor varies along its last axis alone, whose size is known."""
    return t.ndim > 0 and t.spec.shape[-1] is not None and {1}.issuperset(t.spec.shape[:-1])


def _given_around(root: Tensor) -> Seed | None:
    """`root` is the square root of a vector plus ε, or its reciprocal."""
    power = _power(root)
    if power is None or not is_vector(root):
        return None
    variance, epsilon = root.inputs[0], 0.0
    if variance.op is add:
        for t, more in (variance.inputs, variance.inputs[::-1]):
            known = number(more)
            if known is not None:
                variance, epsilon = t, known
    if variance.spec.shape != root.spec.shape:
        return None
    divided = powers((root, power))
    return partial(_by_given, divided=divided, variance=variance, epsilon=epsilon)


def _by_given(end: Tensor, divided: Monomial, variance: Tensor, epsilon: float) -> Group | None:
    """The group that ends at `end`, if it is x − mean, divided by the deviation, perhaps times
    gamma, perhaps plus beta, all of which are vectors.
    """
    ((root, power),) = divided
    if end.ndim < 2 or is_vector(end) or end.spec.dtype != root.spec.dtype:
        return None
    found, _ = polynomial(end, lambda t: t if t is root else None)
    terms = {product(key, divided, -1): n for key, n in found.items() if (root, power) in key}
    rest = {key: n for key, n in found.items() if root not in dict(key)}
    by_x = [(key, t) for key in terms for t, n in key if n == 1 and t.spec == end.spec]
    if len(by_x) != 1 or terms.pop(by_x[0][0]) != 1.0 or 1 + len(terms) + len(rest) < len(found):
        return None
    whole, x = by_x[0]
    factor = product(whole, powers((x, 1)), -1)
    moved = {product(key, factor, -1): -n for key, n in terms.items()}
    if not moved:  # What contains no root was left whole.
        x, gamma = _unwrapped(x, mul)
        x, centre = _unwrapped(x, sub)
        factor, moved = product(factor, gamma), {centre: 1.0} if centre else {}
    zero, one = (full(shape=variance.spec.shape, value=n, dtype=x.spec.dtype) for n in (0, 1))
    vectors = (_vector(moved), variance, _vector({factor: 1.0}, one), _vector(rest, zero))
    operands = (x, *[t for t in vectors if t is not None])
    if len(operands) <= len(vectors):
        return None
    return Group(normalize_by, operands, {"epsilon": epsilon}, end, {}, _inside(end, operands))


def _unwrapped(x: Tensor, op: Primitive[Tensor]) -> tuple[Tensor, Monomial]:
    """The operands of `op`, if `x` is its result on a tensor of the same shape and a vector."""
    for i in (0, 1) if x.op is op and op is mul else (0,) if x.op is op else ():
        t, other = x.inputs[i], x.inputs[1 - i]
        if t.spec == x.spec and is_vector(other):
            return t, powers((other, 1))
    return x, ONE


def _vector(p: Polynomial, without: Tensor | None = None) -> Tensor | None:
    """The vector that a polynomial is, or `without` if it has no terms or is 1; else None."""
    if not p or p == {ONE: 1.0}:
        return without
    (key, n), *more = p.items()
    if more or len(key) != 1 or abs(n) != 1.0:
        return None
    ((t, power),) = key
    if power != 1 or not is_vector(t):
        return None
    if n == 1.0:
        return t
    return t.inputs[0] if t.op is neg else neg(t)


SEEDS: Seeds = {
    tanh: _gelu_around, erf: _gelu_around, sqrt: _normalize_around, pow: _normalize_around
}  # fmt: skip
SEEDS_BY_GIVEN: Seeds = {sqrt: _given_around, pow: _given_around}

set_recognition(groups_in)
