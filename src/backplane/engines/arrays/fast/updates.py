"""Steps of optimizers in place, block by block, with copy on write (`engines.ownership`).

A lowering gives the arrays, in which the new values will be, and the calls that write them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any
from weakref import ref

import numpy as np

from backplane.core.source import Source
from backplane.core.spec import Spec
from backplane.engines.arrays.indexing import checked_rows
from backplane.engines.formulas import OPTIMIZER_STEPS, Formula, Lines, counts, formula
from backplane.engines.ownership import Ownership
from backplane.engines.table import Table, Value, element_count

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

Loop = Callable[[Formula, str, int], Callable[..., None] | None]
"""Gives an engine's own loop for a step, by its formula, its dtype and the number of parameters, or
None: a function of all scalars and of flat arrays, those that it writes to first, the gradient
last."""


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


def _is_small(name: str, specs: Sequence[Spec], **params: bool) -> bool:
    """Whether the chain of operations is faster than the step."""
    numbers, replaces = counts(name)
    variables = specs[numbers : numbers + (len(specs) - numbers) // (replaces + 1)]
    total = sum(map(element_count, variables))
    return total < LEAST[name] * len(variables)


def _blocks(*kinds: Arrays, scratch: int) -> Iterator[tuple[Value, ...]]:
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


@TABLE.add("rows_update")
def rows_update(factor: Value, p: Value, *tensors: Value, loop: Loop | None = None) -> Later:
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
def rows_write(*arrays: Value, loop: Loop | None = None) -> Later:
    """`x[indices] = rows`, for each table x. The indices have been read before, so they fit."""
    count = len(arrays) // 3
    tables = _owned(arrays[:count])
    given = zip(tables, arrays[count::2], arrays[count + 1 :: 2], strict=True)
    return tables, [(x.__setitem__, indices, rows) for x, rows, indices in given]


# --- formulas -------------------------------------------------------------------------------------

FORMS = {
    "add": "add, {x}, {y}, {out}", "sub": "subtract, {x}, {y}, {out}",
    "mul": "multiply, {x}, {y}, {out}", "div": "divide, {x}, {y}, {out}",
    "sqrt": "sqrt, {x}, {out}", "abs": "absolute, {x}, {out}",
    # NumPy wants its place for the result by name.
    "maximum": "partial(maximum, out={out}), {x}, {y}",
}  # fmt: skip
"""Instructions as calls of NumPy."""


@cache
def _in_blocks(rule: Formula) -> Callable[..., Calls]:
    """The function that makes the calls of a step, from blocks and numbers. It is written as text:
    to go through the instructions for each block takes as long as a tenth of the calls.
    """
    source = Source("optimizer step", partial=partial)
    for function in (np.add, np.subtract, np.multiply, np.divide, np.sqrt, np.abs, np.maximum):
        source.define(function, function.__name__)
    calls = {name: f"made.append(({form}))" for name, form in FORMS.items()}
    numbers, places = rule.names()
    with source.block(f"def calls(blocks, {', '.join(numbers.values())}):"):
        source.line("made = []")
        with source.block(f"for {', '.join(places)} in blocks:"):
            rule.run(Lines(source, calls), numbers, places)
        source.line("return made")
    return source.function("calls")


def _by_formula(name: str) -> Callable[..., Later]:
    """The lowering of a step. With beta2 between 0 and 1, one of Adam makes no negative squares, of
    which K's root would be 0.
    """

    def update(*operands: Value, loop: Loop | None = None, **params: bool) -> Later:
        count, replaces = counts(name)
        numbers = [float(x) for x in operands[:count]]
        *kinds, gs = split(operands[count:], replaces + 1)
        adam = name == "adam_update"
        usual = adam and 0 <= numbers[2] <= 1
        usual = usual and all(x in _squares or bool((x >= 0).all()) for x in kinds[2])
        ones = tuple([i for i, x in enumerate(numbers) if x == 1])
        rule = formula(name, tuple(params.items()), ones=ones, positive=usual)
        dtype, elements = kinds[0][0].dtype, sum([p.size for p in kinds[0]])
        scalars = [np.asarray(x, dtype) for x in rule.known(numbers).values()]
        # A loop begins with the second step, whose arrays are a step's own: once is not worth it.
        whole = all(x in _own for arrays in kinds for x in arrays)
        function = loop(rule, dtype.name, elements) if loop and whole else None
        own = [_owned(arrays) for arrays in kinds]
        for v in own[2] if adam else ():
            (_squares.add if usual else _squares.discard)(v)
        news = [x for arrays in own for x in arrays]
        if function is None:
            blocks = _blocks(*own, gs, scratch=rule.scratch)
            return news, _in_blocks(rule)(blocks, *scalars)
        given = [x[()] for x in scalars]
        rows = zip(*own, gs, strict=True)
        return news, [(function, *given, *[x.ravel() for x in row]) for row in rows]

    return update


LARGE = Table()
"""Lowerings that pay where a program could not write to its variables otherwise. NumPy's chains of
operations take 0.3 to 0.5 of the time for small parameters, and as long for large ones."""

for _name in OPTIMIZER_STEPS:
    if _name in LEAST:
        TABLE.add(_name, unless=partial(_is_small, _name))(_by_formula(_name))
    else:
        LARGE.add(_name)(_by_formula(_name))
