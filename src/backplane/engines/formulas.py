"""Steps of optimizers as instructions that overwrite their first operand, for engines that run one
instruction after the other: on blocks of arrays, or on lists of all parameters.

Each formula says what the primitive of its name in `ops.updates` computes. It takes the
instructions, the numbers, and tensors: variables, the gradient, and memory for what is computed on
the way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

from backplane.engines.table import Value

Values = Sequence[Value]


class Instructions(ABC):
    """The instructions of an engine for blocks, or for lists of tensors."""

    @abstractmethod
    def copy(self, x: Value, y: Value) -> None:
        """X = y."""

    @abstractmethod
    def scale(self, x: Value, number: Value) -> None:
        """X *= number."""

    @abstractmethod
    def shift(self, x: Value, number: Value) -> None:
        """X += number."""

    @abstractmethod
    def add(self, x: Value, y: Value) -> None:
        """X += y."""

    @abstractmethod
    def sub(self, x: Value, y: Value) -> None:
        """X -= y."""

    @abstractmethod
    def mul(self, x: Value, y: Value) -> None:
        """X *= y."""

    @abstractmethod
    def div(self, x: Value, y: Value) -> None:
        """X /= y."""

    @abstractmethod
    def larger(self, x: Value, y: Value) -> None:
        """X = max(x, y)."""

    @abstractmethod
    def root(self, x: Value) -> None:
        """X = √max(x, 0)."""

    @abstractmethod
    def magnitude(self, x: Value) -> None:
        """X = |x|."""

    # --- several at once, for libraries that have a kernel for them -------------------------------

    def average(self, old: Value, new: Value, decay: Value) -> None:
        """Old = decay · old + (1 − decay) · new; `new` may be lost."""
        self.scale(old, decay)
        self.scale(new, 1 - decay)
        self.add(old, new)

    def squares(self, v: Value, g: Value, decay: Value, s: Value) -> None:
        """V = decay · v + (1 − decay) · g²; `s` may be lost."""
        self.copy(s, g)
        self.mul(s, g)
        self.average(v, s, decay)

    def descend(self, p: Value, x: Value, divisor: Value, rate: Value, t: Value) -> None:
        """P -= rate · x / divisor; `t` may be lost."""
        self.copy(t, x)
        self.scale(t, rate)
        self.div(t, divisor)
        self.sub(p, t)


def _moments(
    do: Instructions, beta1: Value, beta2: Value, m: Value, v: Value, g: Value, s: Value
) -> None:
    do.copy(s, g)
    do.average(m, s, beta1)
    do.squares(v, g, beta2, s)


def _divisor(do: Instructions, s: Value, epsilon: Value, inside: bool) -> None:
    """S = √s + epsilon, or √(s + epsilon)."""
    if inside:
        do.shift(s, epsilon)
    do.root(s)
    if not inside:
        do.shift(s, epsilon)


def _adamw(do: Instructions, numbers: Values, tensors: Values) -> None:
    shrink, rate, b1, b2, e = numbers
    p, m, v, g, s, t = tensors
    _moments(do, b1, b2, m, v, g, s)
    do.copy(s, v)
    _divisor(do, s, e, False)
    do.scale(p, shrink)
    do.descend(p, m, s, rate, t)


def _amsgrad(do: Instructions, numbers: Values, tensors: Values) -> None:
    rate, b1, b2, e = numbers
    p, m, v, h, g, s, t = tensors
    _moments(do, b1, b2, m, v, g, s)
    do.larger(h, v)
    do.copy(s, h)
    _divisor(do, s, e, False)
    do.descend(p, m, s, rate, t)


def _nadam(do: Instructions, numbers: Values, tensors: Values) -> None:
    ahead, rate, b1, b2, correction, e = numbers
    p, m, v, g, s, t = tensors
    _moments(do, b1, b2, m, v, g, s)
    do.copy(s, v)
    do.scale(s, correction)
    _divisor(do, s, e, False)
    do.descend(p, m, s, rate, t)
    do.descend(p, g, s, ahead, t)


def _adamax(do: Instructions, numbers: Values, tensors: Values) -> None:
    rate, b1, b2, e = numbers
    p, m, u, g, s, t = tensors
    do.copy(s, g)
    do.average(m, s, b1)
    do.copy(s, g)
    do.magnitude(s)
    do.scale(u, b2)
    do.larger(u, s)
    do.copy(s, u)
    do.shift(s, e)
    do.descend(p, m, s, rate, t)


def _adagrad(do: Instructions, numbers: Values, tensors: Values, *, inside: bool) -> None:
    rate, e = numbers
    p, a, g, s, t = tensors
    do.copy(s, g)
    do.mul(s, g)
    do.add(a, s)
    do.copy(s, a)
    _divisor(do, s, e, inside)
    do.descend(p, g, s, rate, t)


def _rmsprop(do: Instructions, numbers: Values, tensors: Values, *, inside: bool) -> None:
    rate, decay, e = numbers
    p, v, g, s, t = tensors
    do.squares(v, g, decay, s)
    do.copy(s, v)
    _divisor(do, s, e, inside)
    do.descend(p, g, s, rate, t)


def _rmsprop_momentum(do: Instructions, numbers: Values, tensors: Values, *, inside: bool) -> None:
    step, momentum, rate, decay, e = numbers
    p, m, v, g, s, t = tensors
    do.squares(v, g, decay, s)
    do.copy(s, v)
    _divisor(do, s, e, inside)
    do.scale(m, momentum)
    do.descend(m, g, s, -rate, t)
    do.copy(t, m)
    do.scale(t, step)
    do.add(p, t)


def _rmsprop_centered(do: Instructions, numbers: Values, tensors: Values, *, inside: bool) -> None:
    rate, decay, e = numbers
    p, v, a, g, s, t = tensors
    do.squares(v, g, decay, s)
    do.copy(s, g)
    do.average(a, s, decay)
    do.copy(s, v)
    do.copy(t, a)
    do.mul(t, a)
    do.sub(s, t)
    _divisor(do, s, e, inside)
    do.descend(p, g, s, rate, t)


def _adadelta(do: Instructions, numbers: Values, tensors: Values) -> None:
    rate, decay, e = numbers
    p, a, d, g, s, t = tensors
    do.squares(a, g, decay, s)
    do.copy(s, a)
    _divisor(do, s, e, True)
    do.copy(t, d)
    _divisor(do, t, e, True)
    do.mul(t, g)
    do.div(t, s)
    do.copy(s, t)
    do.mul(s, t)
    do.average(d, s, decay)
    do.scale(t, rate)
    do.sub(p, t)


class Formula(NamedTuple):
    """A formula, and how many numbers it takes and variables it replaces."""

    run: Callable[..., None]
    numbers: int
    replaces: int


SCRATCH = 2
"""How many places a formula takes for what is computed on the way."""

FORMULAS: dict[str, Formula] = {
    "adamw_update": Formula(_adamw, 5, 3),
    "amsgrad_update": Formula(_amsgrad, 4, 4),
    "nadam_update": Formula(_nadam, 6, 3),
    "adamax_update": Formula(_adamax, 4, 3),
    "adagrad_update": Formula(_adagrad, 2, 2),
    "rmsprop_update": Formula(_rmsprop, 3, 2),
    "rmsprop_momentum_update": Formula(_rmsprop_momentum, 5, 3),
    "rmsprop_centered_update": Formula(_rmsprop_centered, 3, 3),
    "adadelta_update": Formula(_adadelta, 3, 3),
}
