"""Sites of optimizer steps: the new values of variables."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from functools import cache
from itertools import product
from typing import NamedTuple

from backplane.compile.fuse.algebra import Algebra, Sum, scales
from backplane.compile.fuse.numbers import NEAR, renamed, solved, tensors_in
from backplane.compile.fuse.readers import uses_of
from backplane.compile.fuse.unify import (
    ONCE,
    SCALE,
    Grouped,
    Match,
    StepPattern,
    StepUnifier,
    by_tensors,
    shape_of,
)
from backplane.core.graph import Tensor, is_scalar
from backplane.core.registry import PRIMITIVES
from backplane.engines.base import Engine
from backplane.ops import elementwise as ew
from backplane.ops.updates import average_update

FLOATS = ("float32", "float64")
ARITHMETIC = frozenset(
    [ew.add, ew.sub, ew.mul, ew.div, ew.neg, ew.pow, ew.sqrt, ew.maximum, ew.minimum, ew.abs]
)
DEPTH = 12
"""The depth, in operations, to which a step is searched."""


@cache
def patterns() -> list[StepPattern]:
    """All steps of optimizers that are declared, without and with each of their options."""
    every = []
    for op in PRIMITIVES.values():
        if op.step is not None:
            given = inspect.signature(op.infer_rule).parameters.values()
            names = [x.name for x in given if x.kind is x.KEYWORD_ONLY]
            choices = product((False, True), repeat=len(names))
            options = [dict(zip(names, values, strict=True)) for values in choices]
            every += [StepPattern(op, *op.step, params) for params in options]
    return every


class Found(NamedTuple):
    """A step: the pattern's numbers, the variables, the gradient, and the factor before it."""

    pattern: StepPattern
    numbers: tuple[Sum, ...]
    scale: Sum
    variables: tuple[Tensor, ...]
    gradient: Tensor


_Placed = tuple[StepPattern, tuple[Sum, ...], Sum, tuple[int, ...]]
"""A step whose tensors are places in a structure."""

_known: dict[Hashable, _Placed | None] = {}
"""The match found for a parameter, by the structure of its step. The steps of a network's
parameters are mostly alike, and so are those of networks."""
MOST_KNOWN = 1024


class Finder:
    """Reads steps out of the new values of variables. `state` tells which `outputs` those are."""

    def __init__(
        self, outputs: Sequence[Tensor], state: Mapping[Tensor, int], engine: Engine
    ) -> None:
        self.outputs = outputs
        self.new = {v: outputs[i] for v, i in state.items()}
        self.variable = {outputs[i]: v for v, i in state.items()}
        self.patterns = [p for p in patterns() if p.op.name in engine.table]
        self.structures: dict[Tensor, tuple[Hashable, list[Tensor]]] = {}

    def steps(self) -> list[Found]:
        """All steps that are found. No variable belongs to two of them."""
        steps: list[Found] = []
        used: set[Tensor] = set()
        alike = Counter([v.spec for v in self.new])

        def take(v: Tensor, choice: list[StepPattern]) -> None:
            # A step's variables have one shape and dtype.
            fits = alike[v.spec] >= min([len(p.variables) for p in choice])
            step = self._step(v, choice) if fits and v not in used and self._is_float(v) else None
            if step is not None and used.isdisjoint(step.variables):
                steps.append(step)
                used.update(step.variables)

        read: set[Tensor] = set()
        for v in self.new if len(self.new) > 1 else ():
            read.update(t for t in self._structure(v)[1][1:] if t in self.variable)
        # Parameters come first, whose new values are read by no other variable's.
        last = [*self.new][::-1]
        order = [v for group in (False, True) for v in last if (self.new[v] in read) == group]
        # Steps that read states come before others: those of the states alone look like these.
        alone = [p for p in self.patterns if len(p.variables) == 1 and p.op is not average_update]
        for choice in ([p for p in self.patterns if len(p.variables) > 1], alone):
            for v in order if choice else ():
                take(v, choice)
        averages = [p for p in self.patterns if p.op is average_update]
        rest = [v for v in self.new if v not in used and self._is_float(v)]
        if rest and averages:
            uses = uses_of(self.outputs)
            for v in rest:
                if uses[self.new[v]] == 1:
                    take(v, averages)
        return steps

    def _is_float(self, v: Tensor) -> bool:
        spec, new = v.spec, self.new[v]
        fits = spec.dtype in FLOATS and len(spec.shape) > 0 and not spec.sparse
        return fits and new.spec == spec and new.op in ARITHMETIC

    def _step(self, v: Tensor, choice: list[StepPattern]) -> Found | None:
        """The step that ends in the new value of `v`, if it is one of these patterns."""
        structure, nodes = self._structure(v)
        key = structure, frozenset(choice)
        try:  # Another thread may empty the table at any time.
            known = _known[key]
        except KeyError:
            step, known = self._found(v, choice), None
            if step is not None:
                position = {t: i for i, t in enumerate(nodes)}
                ends = [*map(self.new.__getitem__, step.variables), step.gradient]
                given = *step.numbers, step.scale
                if not position.keys() >= {*ends, *[t for n in given for t in tensors_in(n)]}:
                    return step  # Some tensors are farther away than the structure tells.
                *own, factor = [renamed(n, position) for n in given]
                known = step.pattern, tuple(own), factor, tuple([position[t] for t in ends])
            if len(_known) >= MOST_KNOWN:
                _known.clear()
            _known[key] = known
        if known is None:
            return None
        pattern, numbers, scale, places = known
        news = [nodes[i] for i in places]
        return Found(
            pattern,
            tuple([renamed(number, nodes) for number in numbers]),
            renamed(scale, nodes),
            tuple([self.variable[t] for t in news[:-1]]),
            news[-1],
        )

    def _structure(self, v: Tensor) -> tuple[Hashable, list[Tensor]]:
        """A key that is equal for steps with the same form and numbers, and the tensors in it in
        their order.
        """
        if v in self.structures:
            return self.structures[v]
        position, depths = {self.new[v]: 0}, [0]
        nodes, key = [self.new[v]], list[Hashable]()
        for i, t in enumerate(nodes):  # It grows meanwhile.
            if is_scalar(t):
                key.append((t.spec.dtype, t.value.tobytes()))
                continue
            looked_into = scales(t) if not t.ndim else t.op in ARITHMETIC and depths[i] < 2 * DEPTH
            operands = t.inputs if looked_into else ()
            owner = self.variable.get(t) if t.ndim else None
            other = self.new.get(t) if t.spec == v.spec else None
            for x in (*operands, owner, other):
                if x is not None and x not in position:
                    position[x] = len(nodes)
                    nodes.append(x)
                    depths.append(depths[i] + 1)
            old = position[owner] if owner is not None else -1 if t in self.new else -2
            kind = t.op if operands else None
            key.append((kind, old, t.ndim > 0, t.spec == v.spec, *[position[x] for x in operands]))
        self.structures[v] = (v.spec.dtype, *key), nodes
        return self.structures[v]

    def _found(self, v: Tensor, choice: list[StepPattern]) -> Found | None:
        own = frozenset([(v, 1)])
        forms = [self._form(v)]
        if v in self.new[v].inputs and forms[0].get(own) != ONCE:
            # With a penalty on weights the gradient contains v, so it stays whole.
            forms.append(self._form(v, shallow=True))
        if choice[0].op is average_update:
            forms = [
                form for form in [*forms, self._form(v, shallow=True)] if form.get(own) != ONCE
            ]
        elif len(choice[0].variables) > 1:
            forms.append(self._form(v, wide=True))
        for form in forms:
            for pattern in choice:
                step = self._unified(pattern, v, form)
                if step is not None:
                    choice.remove(pattern)
                    choice.insert(0, pattern)
                    return step
        return None

    # --- normal forms -----------------------------------------------------------------------------

    def _form(self, v: Tensor, *, shallow: bool = False, wide: bool = False) -> Grouped:
        new = self.new[v]
        stops = {x for t in new.inputs if t is not v for x in _cores(t)} if shallow else set()
        return by_tensors(self._normal(new, None, stops, wide=wide))

    def _normal(
        self,
        t: Tensor,
        gradient: Tensor | None,
        stops: Collection[Tensor | None] = (),
        *,
        wide: bool = False,
    ) -> Sum:
        """The normal form of a tensor. Before the gradient is known, only that is looked into which
        contains the variable's old value, the new value of another, or, if `wide`, its old value.
        """
        stops = {*stops, gradient}
        near: dict[Tensor, None] = {}  # operations before their operands
        level = [t]
        for _ in range(DEPTH):
            level = [x for x in level if x.op in ARITHMETIC and x not in near and x not in stops]
            level = [x for x in level if x is t or x not in self.variable]
            near.update(dict.fromkeys(level))
            level = [y for x in level for y in x.inputs if y.ndim]
        scaled = {x for x in near if scales(x)}
        # Of numbers only factors are told apart, so that they can be written as tensors again.
        opened = near if gradient is not None else self._containing(t, near, wide)
        return Algebra(opens=lambda x: scales(x) if not x.ndim else x in opened or x in scaled)(t)

    def _containing(self, t: Tensor, near: dict[Tensor, None], wide: bool) -> set[Tensor]:
        """The operations that end in `t` and read its old value, or values of others."""
        own = self.variable.get(t)
        containing: set[Tensor] = set()

        def tells(x: Tensor) -> bool:
            reads_new = x in self.variable and x is not t
            return x in containing or x is own or reads_new or (wide and x in self.new)

        before = -1
        while before < len(containing):  # An operand may stand before an operation, and behind it.
            before = len(containing)
            containing.update(
                [x for x in reversed(near) if x not in containing and any(map(tells, x.inputs))]
            )
        return containing

    def _unified(self, pattern: StepPattern, p: Tensor, form: Grouped) -> Found | None:
        """The step of this pattern, if the new value of `p` is one."""
        if shape_of(form) != pattern.kinds:
            return None
        start = Match({pattern.variables[0]: p, pattern.results[0]: self.new[p]})
        for match in StepUnifier(pattern, self.variable, self._normal).results(start, form):
            step = self._made(pattern, match)
            if step is not None:
                return step
        return None

    def _made(self, pattern: StepPattern, match: Match) -> Found | None:
        variables = tuple([match.bound[v] for v in pattern.variables])
        gradient, spec = match.bound.get(pattern.gradient), variables[0].spec
        if gradient is None or gradient.spec != spec:
            return None
        if not all(v.spec == spec and self._is_float(v) for v in variables):
            return None
        known = solved(match.equations, NEAR[spec.dtype], {SCALE: ONCE})
        if known is None and pattern.op is not average_update:
            known = solved(match.equations, NEAR[spec.dtype], {})
        if known is None or not all(x in known for x in pattern.numbers):
            return None
        numbers = tuple([known[x] for x in pattern.numbers])
        return Found(pattern, numbers, known[SCALE], variables, gradient)


def _cores(t: Tensor) -> Iterator[Tensor]:
    """The tensors of which `t` is a multiple."""
    while t.op is not None and t.ndim and scales(t):
        t = next(x for x in t.inputs if x.ndim)
    yield t
