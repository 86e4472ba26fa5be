"""Steps of optimizers in place, block by block, with copy on write (`engines.ownership`).

A lowering gives the arrays, in which the new values will be, and the calls that write them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any
from weakref import ref

import numpy as np

from backplane.core.spec import Spec
from backplane.engines.arrays.indexing import checked_rows
from backplane.engines.formulas import STEPS, Instructions, counts, formula
from backplane.engines.ownership import Ownership
from backplane.engines.table import Table, Value

TABLE = Table()

BLOCK = 1 << 15
"""Elements of a block: with those of the states and the gradient they stay in the cache. For Adam
on 400,000 float32, 4096 elements took 1.35 of the time and 65,536 the same."""

LEAST = {"gradient_update": 1 << 17, "momentum_update": 1 << 17, "adam_update": 1 << 15}
"""Elements of a variable on average from which on a step serves. On NumPy, a training step with
descent takes 0.95 of the time for 260,000, 1.15 for 30,000 and 1.3 to 2 for less; with momentum
0.90, 1.1 and 1.2 to 2.1; with Adam 0.78, 0.94 and 1.0 to 1.8. PyTensor gains more by its loops."""

Arrays = Sequence[Value]
Calls = list[tuple[Any, ...]]
Later = tuple[list[Value], Calls]
"""Arrays, and the calls after which they hold the results."""

Loop = Callable[[str, str, int], Callable[..., None] | None]
"""Gives an engine's own loop for a step, by its name, its dtype and the number of parameters, or
None: a function of numbers and flat arrays, those that it writes to first, the gradient last."""


class Known:
    """A set of arrays, by weak references and their ids: arrays cannot be hashed."""

    def __init__(self) -> None:
        self.references: dict[int, Any] = {}

    def __contains__(self, x: Value) -> bool:
        reference = self.references.get(id(x))
        return reference is not None and reference() is x

    def add(self, x: Value) -> None:
        """Add an array, until it goes."""
        # What Python calls when the array goes is C, unlike that of a `WeakValueDictionary`: a
        # signal's handler would run there, between two writes, and what it raises would be lost.
        self.references[id(x)] = ref(x, partial(self.references.pop, id(x)))

    def discard(self, x: Value) -> bool:
        """Remove an array; whether it was there."""
        return self.references.pop(id(x), None) is not None


_own = Known()
_ownership = Ownership(initial=Known(), own=_own)
_squares = Known()
"""The known squares, which hold no negative number."""


def adopted(value: Value) -> Value:
    """The value, which only a variable knows, so that the first step may take it. Arrays that are
    parts of others, or that steps could not cut into blocks, are copied by the first step.
    """
    if isinstance(value, np.ndarray):
        flags = value.flags
        if flags.owndata and flags.writeable and flags.c_contiguous:
            _ownership.initial.add(value)
    return value


def lent(value: Value) -> Value:
    """The value as others may keep it: a copy, if a step may write to it later."""
    written = _ownership.lend(value) or (isinstance(value, np.ndarray) and value.base is not None)
    return np.array(value) if written else value


def _owned(arrays: Arrays) -> list[Value]:
    """The arrays themselves where they are a step's own, or become so, else copies that are."""
    owned = []
    for x in arrays:
        if not (x in _own or _ownership.take(x)):
            x = np.array(x, order="C")
            _own.add(x)
        owned.append(x)
    return owned


def renamed(own: Value) -> Value:
    """Another array over a step's own memory: who compares identities takes it for a new value."""
    x = own.view()
    _own.add(x)
    if own in _squares:
        _squares.add(x)
    return x


def split(arrays: Arrays, kinds: int) -> list[Arrays]:
    """The operands of a step, by kind: the parameters, their states, gradients."""
    count = len(arrays) // kinds
    return [arrays[i * count : (i + 1) * count] for i in range(kinds)]


def _is_small(name: str, numbers: int, kinds: int) -> Callable[..., bool]:
    """Whether the chain of operations is faster than the step, which has so many numbers before
    its arrays, and so many arrays for each variable.
    """

    def small(specs: Sequence[Spec], **params: bool) -> bool:
        variables = specs[numbers : numbers + (len(specs) - numbers) // kinds]
        total = sum(math.prod([n or 0 for n in spec.shape]) for spec in variables)
        return total < LEAST[name] * len(variables)

    return small


def _no_loop(name: str, dtype: str, elements: int) -> None:
    return None


def _whole(loop: Loop, name: str, numbers: Arrays, *kinds: Arrays) -> Calls | None:
    """The calls of the engine's loop, if there is one: it begins with the second step, whose arrays
    are a step's own. What runs once is not worth it.
    """
    ps, written = kinds[0], [x for arrays in kinds[:-1] for x in arrays]
    if not all(x in _own for x in written):
        return None
    function = loop(name, ps[0].dtype.name, sum([p.size for p in ps]))
    if function is None:
        return None
    scalars = [x[()] for x in numbers]
    return [(function, *scalars, *[x.ravel() for x in row]) for row in zip(*kinds, strict=True)]


def _blocks(*kinds: Arrays, scratch: int = 1) -> Iterator[tuple[Value, ...]]:
    """For each parameter and each block of it, its parts and so many of scratch."""
    largest = max([x.size for x in kinds[0]])
    more = [np.empty(min(BLOCK, largest), kinds[0][0].dtype) for _ in range(scratch)]
    for arrays in zip(*kinds, strict=True):
        rows = [x.reshape(-1) for x in arrays]
        size = rows[0].size
        if size <= BLOCK:
            yield (*rows, *[x[:size] for x in more])
            continue
        for i in range(0, size, BLOCK):
            part = min(BLOCK, size - i)
            yield (*[x[i : i + BLOCK] for x in rows], *[x[:part] for x in more])


@TABLE.add("gradient_update", unless=_is_small("gradient_update", 1, 2))
def gradient_update(factor: Value, *arrays: Value, loop: Loop = _no_loop) -> Later:
    """The step `p += factor · g`."""
    ps, gs = split(arrays, 2)
    a = np.asarray(factor, ps[0].dtype)
    calls = _whole(loop, "gradient", [a], ps, gs)
    ps = _owned(ps)
    if calls is None:
        calls = []
        for p, g, s in _blocks(ps, gs):
            calls += [(np.multiply, g, a, s), (np.add, p, s, p)]
    return ps, calls


@TABLE.add("rows_update")
def rows_update(factor: Value, p: Value, *tensors: Value, loop: Loop = _no_loop) -> Later:
    """`p[indices] += factor · g`, for each pair of g and indices."""
    a = np.asarray(factor, p.dtype)
    (own,) = _owned([p])
    flat, (size, *rest) = own.reshape(-1), p.shape
    width = math.prod(rest)
    calls: Calls = []
    for g, indices in zip(*split(tensors, 2), strict=True):
        rows = checked_rows(indices, size)
        places = (rows * width)[:, None] + np.arange(width)
        calls.append((np.add.at, flat, places.reshape(-1), (g * a).reshape(-1)))
    return [own], calls


@TABLE.add("rows_write")
def rows_write(*arrays: Value, loop: Loop = _no_loop) -> Later:
    """`x[indices] = rows`, for each table x. The indices have been read before, so they fit."""
    count = len(arrays) // 3
    tables = _owned(arrays[:count])
    given = zip(tables, arrays[count::2], arrays[count + 1 :: 2], strict=True)
    return tables, [(x.__setitem__, indices, rows) for x, rows, indices in given]


@TABLE.add("momentum_update", unless=_is_small("momentum_update", 3, 3))
def momentum_update(
    momentum: Value, gain: Value, step: Value, *arrays: Value, nesterov: bool, loop: Loop = _no_loop
) -> Later:
    """The steps `m = momentum · m + gain · g` and `p += step · m`."""
    ps, ms, gs = split(arrays, 3)
    numbers = [np.asarray(x, ps[0].dtype) for x in (momentum, gain, step)]
    calls = _whole(loop, "nesterov" if nesterov else "momentum", numbers, ps, ms, gs)
    ps, ms = _owned(ps), _owned(ms)
    if calls is None:
        calls = _momentum_in_blocks(numbers, ps, ms, gs, nesterov)
    return [*ps, *ms], calls


def _momentum_in_blocks(
    numbers: Arrays, ps: Arrays, ms: Arrays, gs: Arrays, nesterov: bool
) -> Calls:
    decay, a, b = numbers
    calls: Calls = []
    for p, m, g, s in _blocks(ps, ms, gs):
        calls += [(np.multiply, m, decay, m), (np.multiply, g, a, s), (np.add, m, s, m)]
        if nesterov:
            calls.append((np.add, p, s, p))
        if b == 1:
            calls.append((np.add, p, m, p))
        else:
            calls += [(np.multiply, m, b, s), (np.add, p, s, p)]
    return calls


@TABLE.add("adam_update", unless=_is_small("adam_update", 4, 4))
def adam_update(
    rate: Value, beta1: Value, beta2: Value, epsilon: Value, *arrays: Value, loop: Loop = _no_loop
) -> Later:
    """The steps `m = beta1 · m + (1 − beta1) · g`, `v = beta2 · v + (1 − beta2) · g²` and `p −=
    rate · m / (√v + ε)`.

    The root of a negative number is 0 in K. With beta2 between 0 and 1, a step makes no negative
    numbers.
    """
    ps, ms, vs, gs = split(arrays, 4)
    usual = 0 <= beta2 <= 1 and all(v in _squares or bool((v >= 0).all()) for v in vs)
    numbers = [
        np.asarray(x, ps[0].dtype) for x in (rate, beta1, 1 - beta1, beta2, 1 - beta2, epsilon)
    ]
    calls = _whole(loop, "adam", numbers, ps, ms, vs, gs) if usual else None
    ps, ms, vs = _owned(ps), _owned(ms), _owned(vs)
    for v in vs:
        if usual:
            _squares.add(v)
        else:
            _squares.discard(v)
    if calls is None:
        calls = _adam_in_blocks(numbers, ps, ms, vs, gs, usual)
    return [*ps, *ms, *vs], calls


def _adam_in_blocks(
    numbers: Arrays, ps: Arrays, ms: Arrays, vs: Arrays, gs: Arrays, usual: bool
) -> Calls:
    a, b1, c1, b2, c2, e = numbers
    zero = np.zeros((), ps[0].dtype)
    calls: Calls = []
    for p, m, v, g, s in _blocks(ps, ms, vs, gs):
        calls += [
            (np.multiply, m, b1, m), (np.multiply, g, c1, s), (np.add, m, s, m),
            (np.multiply, v, b2, v), (np.multiply, g, g, s), (np.multiply, s, c2, s),
            (np.add, v, s, v),
        ]  # fmt: skip
        if not usual:
            calls.append((partial(np.maximum, v, zero, out=s),))
        calls.append((np.sqrt, v if usual else s, s))
        calls += [
            (np.add, s, e, s), (np.divide, m, s, s), (np.multiply, s, a, s), (np.subtract, p, s, p)
        ]  # fmt: skip
    return calls


# --- formulas -------------------------------------------------------------------------------------


class _Blockwise(Instructions):
    """Instructions for blocks of arrays, as calls."""

    def __init__(self, dtype: Any) -> None:
        self.calls: Calls = []
        self.dtype = dtype

    def plain(self, name: str, out: Value, x: Value, y: Value | None) -> None:
        others = [] if y is None else [np.asarray(y, self.dtype)]
        function = UFUNCS[name]
        if function is np.maximum:  # NumPy wants its place for the result by name.
            self.calls.append((partial(function, out=out), x, *others))
        else:
            self.calls.append((function, x, *others, out))


UFUNCS = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "maximum": np.maximum,
    "sqrt": np.sqrt, "abs": np.abs,
}  # fmt: skip


def _by_formula(name: str) -> Callable[..., Later]:
    def update(*operands: Value, loop: Loop = _no_loop, **params: bool) -> Later:
        count, replaces = counts(name)
        rule = formula(name, tuple(params.items()), False)
        numbers = operands[:count]
        *kinds, gs = split(operands[count:], replaces + 1)
        own = [_owned(arrays) for arrays in kinds]
        do = _Blockwise(own[0][0].dtype)
        for block in _blocks(*own, gs, scratch=rule.scratch):
            rule.run(do, numbers, block)
        return [x for arrays in own for x in arrays], do.calls

    return update


LARGE = Table()
"""Lowerings that pay where a program could not write to its variables otherwise. NumPy's chains of
operations take 0.3 to 0.5 of the time for small parameters, and as long for large ones."""

for _name in STEPS:
    LARGE.add(_name)(_by_formula(_name))
