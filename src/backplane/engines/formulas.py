"""Steps of optimizers as instructions that overwrite tensors, for engines that run one instruction
after the other: on blocks of arrays, or on lists of all parameters.

They are made of the decomposition of the step's primitive, which is traced once. Each new value
goes into the memory of its variable, once all that reads the old value has been computed. What is
computed on the way takes memory of its own.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from backplane.core.graph import Constant, Placeholder, Tensor, toposort
from backplane.core.primitive import Primitive
from backplane.core.registry import PRIMITIVES
from backplane.core.source import Source
from backplane.core.spec import Spec
from backplane.engines.table import Value

OPTIMIZER_STEPS = (
    "gradient_update", "momentum_update", "adam_update", "adamw_update", "amsgrad_update",
    "nadam_update", "adamax_update", "adagrad_update", "rmsprop_update", "rmsprop_momentum_update",
    "rmsprop_centered_update", "adadelta_update",
)  # fmt: skip
"""The steps that engines compute so, unless they have kernels of their own."""

EITHER_ORDER = frozenset(["add", "mul", "maximum"])
"""Primitives whose operands may stand in either order."""
SCALARS: dict[str, Callable[..., Value]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv,
    "neg": operator.neg, "cast": lambda x: x,
}  # fmt: skip
"""The primitives as functions of numbers."""


def counts(name: str) -> tuple[int, int]:
    """The number of scalars that a step takes, and of variables that it replaces."""
    step = PRIMITIVES[name].step
    assert step is not None
    return step


class Instructions(ABC):
    """The operations of an engine on blocks, or on lists of tensors."""

    @abstractmethod
    def plain(self, name: str, out: Value, x: Value, y: Value | None) -> None:
        """Out = the primitive of that name of x and y. y may be a number, and out be x or y."""

    def copy(self, out: Value, x: Value) -> None:
        """Out = x."""
        raise NotImplementedError

    def added(self, quotient: bool, out: Value, x: Value, y: Value | None, factor: Value) -> None:
        """Out += factor · x · y, or factor · x / y. A `y` of None is 1."""
        raise NotImplementedError


class Lines(Instructions):
    """Instructions as lines of text, by forms over `{out}`, `{x}` and `{y}`."""

    def __init__(self, source: Source, forms: Mapping[str, str]) -> None:
        self.source = source
        self.forms = forms

    def plain(self, name: str, out: Value, x: Value, y: Value | None) -> None:
        """One line."""
        self.source.line(self.forms[name].format(out=out, x=x, y=y))


class _Plain(NamedTuple):
    """A primitive of slots, or of a slot and a number."""

    name: str
    out: int
    x: int
    y: int | Tensor | None


class _Added(NamedTuple):
    """A product or a quotient, times a number, that is added to what is at a slot."""

    quotient: bool
    out: int
    x: int
    y: int | None
    factor: Tensor | None
    sign: int


def _is_zero(t: Tensor) -> bool:
    return isinstance(t, Constant) and t.value == 0


class _Term(NamedTuple):
    """A term of a sum: a product or a quotient, times a number."""

    quotient: bool
    x: Tensor
    y: Tensor | None
    factor: Tensor | None


class Formula:
    """The instructions of a step with these parameters, and how much memory they need besides.

    If `fuses`, products and quotients are added by one instruction. `ones` are the positions of
    numbers that are 1: nothing is multiplied by them. If `positive`, no root is of a negative
    number.
    """

    def __init__(
        self,
        op: Primitive[Any],
        params: Mapping[str, bool],
        fuses: bool,
        ones: Sequence[int],
        positive: bool,
    ) -> None:
        assert op.step is not None
        assert op.decomposition is not None
        numbers, replaces = op.step
        self.fuses = fuses
        self.numbers: list[Tensor] = [Placeholder(Spec((), "float64")) for _ in range(numbers)]
        self.ones = {self.numbers[i] for i in ones}
        self.positive = positive
        tensors = [Placeholder(Spec((2,), "float64")) for _ in range(replaces + 1)]
        ends: list[Tensor] = op.decomposition(*self.numbers, *tensors, **params)
        self.slot: dict[Tensor, int] = {t: i for i, t in enumerate(tensors)}
        self.free, self.count = list[int](), len(tensors)
        self.instructions: list[_Plain | _Added] = []
        order = toposort(ends)
        self.uses = Counter([x for t in order for x in t.inputs])
        for t in order:
            if t in ends:
                self._into(t, ends.index(t))
                del self.slot[tensors[ends.index(t)]]
                self.slot[t] = ends.index(t)
            elif t.ndim and t.op is not None and self.uses[t] > 1:
                self.slot[t] = self._computed(t)
        self.scalars = [t for t in order if not t.ndim and t not in self.numbers]
        named = [i.factor if isinstance(i, _Added) else i.y for i in self.instructions]
        self.read = list(dict.fromkeys([t for t in named if isinstance(t, Tensor)]))
        """The scalars that instructions read."""
        self.scratch = self.count - len(tensors)

    def known(self, numbers: Sequence[Value]) -> dict[Tensor, Value]:
        """The scalars that instructions read, from the numbers that the step takes."""
        known: dict[Tensor, Value] = dict(zip(self.numbers, numbers, strict=True))
        for t in self.scalars:
            if isinstance(t, Constant):
                known[t] = t.value.item()
            else:
                assert t.op is not None
                known[t] = SCALARS[t.op.name](*[known[x] for x in t.inputs])
        return {t: known[t] for t in self.read}

    def names(self) -> tuple[dict[Tensor, str], list[str]]:
        """Names of the scalars that instructions read, and of all tensors, for texts."""
        numbers = {t: f"n{i}" for i, t in enumerate(self.read)}
        return numbers, [f"x{i}" for i in range(self.count)]

    def run(
        self, do: Instructions, known: Mapping[Tensor, Value], tensors: Sequence[Value]
    ) -> None:
        """Hand the instructions to an engine. `tensors`: variables, gradient, scratch."""
        for i in self.instructions:
            if isinstance(i, _Added):
                y = None if i.y is None else tensors[i.y]
                factor = i.sign if i.factor is None else known[i.factor] * i.sign
                do.added(i.quotient, tensors[i.out], tensors[i.x], y, factor)
            elif i.name:
                y = known[i.y] if isinstance(i.y, Tensor) else None if i.y is None else tensors[i.y]
                do.plain(i.name, tensors[i.out], tensors[i.x], y)
            else:
                do.copy(tensors[i.out], tensors[i.x])

    # --- writing ----------------------------------------------------------------------------------

    def _computed(self, t: Tensor) -> int:
        """The slot of the value of `t`, which is computed first if need be."""
        if t in self.slot:
            return self.slot[t]
        if self.free:
            out = self.free.pop()
        else:
            out, self.count = self.count, self.count + 1
        self._into(t, out)
        return out

    def _reads(self, t: Tensor, slot: int) -> bool:
        """Whether `t` is to be computed from what is at a slot."""
        if t in self.slot:
            return self.slot[t] == slot
        return any(self._reads(x, slot) for x in t.inputs)

    def _done(self, t: Tensor, slot: int) -> None:
        """Memory that only `t` has taken may be taken by others."""
        if t not in self.slot:
            self.free.append(slot)

    def _into(self, t: Tensor, out: int) -> None:
        """Compute `t`, in place of what is there."""
        assert t.op is not None
        name, (x, *more) = t.op.name, map(self._shortened, t.inputs)
        y = more[0] if more else None
        if y is not None and not x.ndim:
            x, y = y, x
        if y is None or not y.ndim:
            self._plain(name, out, x, y)
            return
        if name in EITHER_ORDER and self._reads(y, out):
            x, y = y, x
        if self.fuses and name in ("add", "sub") and self._fused(name, out, x, y):
            return
        if not self.fuses and self.slot.get(x, out) != out and y not in self.slot:
            self._into(y, out)
            pair = self.slot[x], out
            pair = pair[::-1] if name in EITHER_ORDER else pair
            self.instructions.append(_Plain(name, out, *pair))
            return
        other = self._computed(y)
        assert other != out, "an old value is read after it has been overwritten"
        self._plain(name, out, x, other)
        self._done(y, other)

    def _shortened(self, t: Tensor) -> Tensor:
        """`t` without a product with 1, or a maximum with 0 that changes nothing."""
        if t.op is None or t in self.slot or len(t.inputs) < 2:
            return t
        x, y = t.inputs
        if t.op.name == "maximum" and self.positive and _is_zero(y):
            return x
        number = x.inputs[0] if x.op is not None and x.op.name == "cast" else x
        return y if t.op.name == "mul" and number in self.ones else t

    def _plain(self, name: str, out: int, x: Tensor, y: int | Tensor | None) -> None:
        if x in self.slot:
            source = self.slot[x]
        else:
            self._into(x, out)
            source = out
        self.instructions.append(_Plain(name, out, source, y))

    def _fused(self, name: str, out: int, x: Tensor, y: Tensor) -> bool:
        """Add a product or a quotient, if `y` is one that nobody else reads."""
        term = self._term(y)
        if term is None:
            return False
        parts = [t for t in (term.x, term.y) if t is not None]
        slots = [self._computed(t) for t in parts]
        assert out not in slots, "an old value is read after it has been overwritten"
        if x not in self.slot:
            self._into(x, out)
        elif self.slot[x] != out:
            self.instructions.append(_Plain("", out, self.slot[x], None))
        second = slots[1] if len(slots) > 1 else None
        sign = -1 if name == "sub" else 1
        added = _Added(term.quotient, out, slots[0], second, term.factor, sign)
        self.instructions.append(added)
        for t, slot in dict(zip(parts, slots, strict=True)).items():
            self._done(t, slot)
        return True

    def _term(self, t: Tensor) -> _Term | None:
        """The term that `t` is, if that is a product or a quotient that has no slot."""
        if t in self.slot or t.op is None or t.op.name not in ("mul", "div"):
            return None
        x, y = t.inputs
        quotient = t.op.name == "div"
        if not x.ndim:
            inner = self._product(y)
            whole = inner is not None and inner[0].ndim
            return _Term(quotient, *inner, x) if inner and whole else _Term(quotient, y, None, x)
        inner = self._product(x) if quotient else None
        if inner is not None and not inner[0].ndim:
            return _Term(quotient, inner[1], y, inner[0])
        return _Term(quotient, x, y, None)

    def _product(self, t: Tensor) -> tuple[Tensor, Tensor] | None:
        """The factors of `t`, if it is a product that has no slot."""
        if t in self.slot or t.op is None or t.op.name != "mul":
            return None
        return t.inputs[0], t.inputs[1]


@cache
def formula(
    name: str,
    params: tuple[tuple[str, bool], ...],
    fuses: bool = False,
    ones: tuple[int, ...] = (),
    positive: bool = False,
) -> Formula:
    """The instructions of a step."""
    return Formula(PRIMITIVES[name], dict(params), fuses, ones, positive)
