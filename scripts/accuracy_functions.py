"""The functions of K whose accuracy `make_accuracy.py` measures, and their exact results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from mpmath import mp, mpf

from backplane import backend as K
from backplane.core.graph import Tensor

mp.dps = 50
BEYOND = mpf("1e5000")
"""Stands for infinity in exact formulas, which are limits there."""

Exact = Callable[[mpf], mpf]
Symbolic = Callable[[Tensor], Tensor]


class Function(NamedTuple):
    """A function of K of one number, its exact value and slope, and where to look at it."""

    name: str
    build: Symbolic
    value: Exact
    slope: Exact
    difficult: Sequence[float] = ()
    inside: Callable[[np.ndarray], np.ndarray] = lambda x: x == x


def inverse(x: mpf) -> mpf:
    """1 / x, which is infinite at 0."""
    return 1 / x if x else mp.inf


def logarithm(x: mpf) -> mpf:
    """The natural logarithm, with its limits."""
    if x == BEYOND:
        return mp.inf
    return mp.log(x) if x else -mp.inf


def sigmoid(x: mpf) -> mpf:
    """The logistic function."""
    return 1 / (1 + mp.exp(-x))


def softplus(x: mpf) -> mpf:
    """log(1 + exp(x))."""
    return mp.log1p(mp.exp(x))


def power(exponent: float) -> tuple[Symbolic, Exact, Exact]:
    """`K.pow` with this exponent."""
    a = mpf(exponent)

    def exact(x: mpf, a: mpf) -> mpf:
        return x**a if x or a > 0 else mp.inf

    return lambda x: K.pow(x, exponent), lambda x: exact(x, a), lambda x: a * exact(x, a - 1)


def beside(reduce: Symbolic, other: float) -> Symbolic:
    """`reduce` of rows of two numbers: the argument and `other`."""
    return lambda x: reduce(K.stack([x, K.zeros_like(x) + other], axis=1))


def crossentropy(target: float, from_logits: bool) -> Symbolic:
    """The binary cross-entropy of a known target."""
    return lambda x: K.binary_crossentropy(K.zeros_like(x) + target, x, from_logits=from_logits)


def first_class(rows: Tensor) -> Tensor:
    """The categorical cross-entropy of the first of two classes, from logits."""
    target = K.constant([[1.0, 0.0]], dtype=K.dtype(rows))
    return K.categorical_crossentropy(target, rows, from_logits=True)


ROOT_PI = mp.sqrt(mp.pi)
TURNS = [float(n * mp.pi / 4) for n in (1, 2, 3, 4, 6, 8, 100, 10**5, 10**10)]
positive = lambda x: x > 0  # noqa: E731
not_negative = lambda x: x >= 0  # noqa: E731
finite = np.isfinite


def squarable(x: np.ndarray) -> np.ndarray:
    """Where the square of x is a number."""
    found: np.ndarray = np.abs(x) < float(np.finfo(x.dtype).max) ** 0.5 / 4
    return found


NEAR_1 = [1 + s * 2.0**-n for n in (2, 4, 8, 12, 16, 20, 23, 30, 40, 52) for s in (1, -1)]
LOGITS = [s * n for n in (12, 15, 17, 18, 30, 37, 40, 87, 88, 103, 700, 745) for s in (1.0, -1)]
ZERO, ONE, HALF = mpf(0), mpf(1), mpf(1) / 2


def arithmetic() -> list[Function]:
    """Functions of that chapter."""
    limits = [88.72, 88.73, -87.3, -87.4, 709.78, 709.79, -708.3, -708.4]
    return [
        Function("abs", K.abs, abs, mp.sign),
        Function("square", K.square, lambda x: x * x, lambda x: 2 * x),
        Function("sqrt", K.sqrt, mp.sqrt, lambda x: inverse(2 * mp.sqrt(x)), inside=positive),
        Function("exp", K.exp, mp.exp, mp.exp, limits),
        Function("log", K.log, logarithm, inverse, NEAR_1, not_negative),
        Function("sin", K.sin, mp.sin, mp.cos, TURNS, finite),
        Function("cos", K.cos, mp.cos, lambda x: -mp.sin(x), TURNS, finite),
        Function("pow(x, 3)", *power(3)),
        Function("pow(x, -1)", *power(-1), inside=lambda x: x != 0),
        Function("pow(x, 0.5)", *power(0.5), inside=not_negative),
        Function("pow(x, 2.5)", *power(2.5), NEAR_1, not_negative),
        Function("pow(x, -1.75)", *power(-1.75), NEAR_1, positive),
        Function("erf", K.erf, mp.erf, lambda x: 2 / ROOT_PI * mp.exp(-x * x), [*NEAR_1, 3.9, 6.0]),
        Function(
            "erfinv", K.erfinv, mp.erfinv, lambda x: ROOT_PI / 2 * mp.exp(mp.erfinv(x) ** 2),
            [s * x for x in [*NEAR_1, 0.85] for s in (1, -1)], lambda x: abs(x) < 1,
        ),
    ]  # fmt: skip


def activations() -> list[Function]:
    """Functions of that chapter."""
    return [
        Function("relu", K.relu, lambda x: max(x, ZERO), lambda x: ONE if x > 0 else ZERO),
        Function(
            "elu", K.elu, lambda x: x if x > 0 else mp.expm1(x),
            lambda x: ONE if x > 0 else mp.exp(x), LOGITS,
        ),
        Function("sigmoid", K.sigmoid, sigmoid, lambda x: sigmoid(x) * sigmoid(-x), LOGITS),
        Function(
            "hard_sigmoid", K.hard_sigmoid, lambda x: min(max(x / 5 + HALF, ZERO), ONE),
            lambda x: ONE / 5 if abs(x) <= 2.5 else ZERO, [-2.49, -2.4, 2.49, 2.51],
        ),
        Function(
            "tanh", K.tanh, mp.tanh, lambda x: mp.sech(x) ** 2, [*LOGITS, 5.0, 9.0, 9.1, 19.1]
        ),
        Function("softplus", K.softplus, softplus, sigmoid, LOGITS),
        Function(
            "softsign", K.softsign, lambda x: x / (1 + abs(x)), lambda x: 1 / (1 + abs(x)) ** 2
        ),
        Function(
            "softmax([x, 0])[0]", beside(lambda rows: K.softmax(rows)[:, 0], 0.0), sigmoid,
            lambda x: sigmoid(x) * sigmoid(-x), LOGITS, finite,
        ),
    ]  # fmt: skip


def losses_and_reductions() -> list[Function]:
    """Functions of these chapters."""
    return [
        Function(
            "logsumexp([x, 0])", beside(lambda rows: K.logsumexp(rows, axis=1), 0.0),
            softplus, sigmoid, LOGITS, finite,
        ),
        Function(
            "binary_crossentropy(1, x, from_logits)", crossentropy(1.0, True),
            lambda x: softplus(-x), lambda x: -sigmoid(-x), LOGITS, finite,
        ),
        Function(
            "categorical_crossentropy([1, 0], [x, 0], from_logits)", beside(first_class, 0.0),
            lambda x: softplus(-x), lambda x: -sigmoid(-x), LOGITS, finite,
        ),
        Function(
            "binary_crossentropy(1, x)", crossentropy(1.0, False), lambda x: -mp.log(x),
            lambda x: -inverse(x), [1e-3, 0.1, 0.4, 0.9, 0.999, 0.99999],
            lambda x: (x > 2e-7) & (x < 1 - 2e-7),
        ),
        Function(
            "binary_crossentropy(0, x)", crossentropy(0.0, False), lambda x: -mp.log(1 - x),
            lambda x: 1 / (1 - x), [1e-3, 0.1, 0.4, 0.9, 0.999, 0.99999],
            lambda x: (x > 2e-7) & (x < 1 - 2e-7),
        ),
        Function(
            "l2_normalize([x, 1])[0]", beside(lambda rows: K.l2_normalize(rows, axis=1)[:, 0], 1.0),
            lambda x: x / mp.sqrt(1 + x * x), lambda x: (1 + x * x) ** (-3 * HALF),
            inside=squarable,
        ),
        Function(
            "mean([x, 1])", beside(lambda rows: K.mean(rows, axis=1), 1.0),
            lambda x: (x + 1) / 2, lambda x: HALF, inside=finite,
        ),
        Function(
            "var([x, 1])", beside(lambda rows: K.var(rows, axis=1), 1.0),
            lambda x: (x - 1) ** 2 / 4, lambda x: (x - 1) / 2, NEAR_1, squarable,
        ),
        Function(
            "std([x, 1])", beside(lambda rows: K.std(rows, axis=1), 1.0),
            lambda x: abs(x - 1) / 2, lambda x: mp.sign(x - 1) / 2, NEAR_1, squarable,
        ),
    ]  # fmt: skip


def points(function: Function, dtype: str) -> np.ndarray:
    """Numbers of all magnitudes and both signs, 0, infinities and the function's difficult ones."""
    limits = np.finfo(dtype)
    low, high = float(np.log10(limits.tiny)) + 1e-6, float(np.log10(limits.max)) - 1e-6
    sizes = [*np.logspace(low, high, 60), *np.logspace(-4, 2.2, 60), limits.tiny, limits.max]
    every = [0.0, np.inf, *sizes, *[s * np.nextafter(1.0, 2) for s in function.difficult]]
    with np.errstate(over="ignore"):
        signed = np.array([*every, *[-x for x in every], *function.difficult]).astype(dtype) + 0
    normal = (np.abs(signed) >= limits.tiny) | (signed == 0)
    return np.unique(signed[normal & function.inside(signed)])


def exact(formula: Exact, xs: np.ndarray) -> list[mpf]:
    """What `formula` gives for each of `xs`."""
    numbers = [mpf(float(x)) if np.isfinite(x) else mp.sign(float(x)) * BEYOND for x in xs]
    return [mpf(formula(x)) for x in numbers]


class Row(NamedTuple):
    """What is needed to judge a function in one dtype."""

    function: Function
    xs: np.ndarray
    value: list[mpf]
    slope: list[mpf]


def rows(dtype: str) -> list[Row]:
    """The functions, with their points and exact results, which all engines share."""
    found = []
    for f in [*arithmetic(), *activations(), *losses_and_reductions()]:
        xs = points(f, dtype)
        found.append(Row(f, xs, exact(f.value, xs), exact(f.slope, xs)))
    return found
