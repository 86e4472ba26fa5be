"""What a graph must give: its values in float64, each with a bound for the error of an engine.

The graph is evaluated node by node with NumPy in float64, whatever its dtypes are. No pass and no
code generation takes part. The evaluation is repeated with noise: each result that its dtype cannot
hold exactly moves by a few units of its last place, and so do the operands of sums. The spread of
an element tells how rounding errors reach it, through cancellation, comparisons and kinks. What the
documents leave to the engines (overflowing casts, numbers below the normal ones, …) is drawn at
random, so its spread is large, and so is that of everything that depends on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from backplane import engines
from backplane.core.graph import Constant, Graph, KeySource, Placeholder, Tensor, toposort
from backplane.core.primitive import OUTPUT
from backplane.core.spec import Spec, is_float
from backplane.core.variable import Variable
from fuzz.freedoms import JUMPS, POLES, Freedoms
from fuzz.noise import (
    ADDING,
    COMPOSED,
    DIGITS,
    NEVER,
    SLACK,
    TINY,
    UNIT,
    is_short,
)

NEXT_KEY = np.array([0, 0, 1, 0], "uint32")
"""What each run adds to the key of random numbers."""
NO_STATE: Mapping[Variable, int] = MappingProxyType({})

Walks = Iterable[Mapping[Tensor, Any]]
Plans = dict[Any, Any]
"""What several evaluations of a graph share: the order of its nodes, and the decompositions."""


class Expected(NamedTuple):
    """The value of one output, and how far each element may be from it; infinitely far if it is
    open whether the element is a number."""

    value: np.ndarray
    bound: np.ndarray


def expected(
    outputs: Sequence[Tensor],
    leaves: Mapping[Tensor, Any],
    state: Mapping[Variable, int] = NO_STATE,
    runs: int = 1,
    samples: int = 2,
    seed: int = 0,
) -> list[list[Expected]]:
    """What each of several runs must give, from the values of placeholders and variables before the
    first one, and the keys of random numbers. `state` says which output is the new value of a
    variable.
    """
    generators = [np.random.default_rng([seed, i]) for i in range(samples)]
    plans: Plans = {}
    with np.errstate(all="ignore"):
        exact = Evaluation(None, plans)
        noisy = [Evaluation(rng, plans, exact.walks, i) for i, rng in enumerate(generators)]
        evaluations = [exact, *noisy]
        values = [list(_evaluated(e, outputs, leaves, state, runs)) for e in evaluations]
        return [
            [
                _bounded(t.spec.dtype, found[0], found[1:])
                for t, found in zip(outputs, zip(*run, strict=True), strict=True)
            ]
            for run in zip(*values, strict=True)
        ]


def _evaluated(
    evaluation: Evaluation,
    outputs: Sequence[Tensor],
    leaves: Mapping[Tensor, Any],
    state: Mapping[Variable, int],
    runs: int,
) -> Iterator[list[Any]]:
    known, found = dict(leaves), []
    keys = [t for t in leaves if isinstance(t, KeySource)]
    for run in range(runs):
        if run == 0 or state or keys:
            found = evaluation(outputs, known)
        known |= {v: found[i] for v, i in state.items()}
        known |= {t: known[t] + NEXT_KEY for t in keys}
        yield found


def _bounded(dtype: str, value: Any, samples: Sequence[Any]) -> Expected:
    value = np.asarray(value)
    if any(np.shape(s) != value.shape for s in samples):
        raise UnstableShapeError
    if not is_float(dtype):
        same = np.all([s == value for s in samples], axis=0)
        return Expected(value, np.where(same, 0.0, np.inf))
    spread = np.zeros(value.shape)
    for s in samples:
        # Equal infinities and NaNs are no distance, unequal ones any.
        far = np.abs(s - value)
        alike = (s == value) | (np.isnan(s) & np.isnan(value))
        spread = np.maximum(spread, np.where(alike, 0.0, np.where(np.isnan(far), np.inf, far)))
    size = np.where(np.isfinite(value), np.abs(value), 0.0)
    bound = SLACK * spread + 2 * size * UNIT[dtype] + 2 * TINY[dtype]
    # What moves so far was divided by next to nothing, which may be nothing on an engine.
    return Expected(value, np.where(spread > np.maximum(size, 1.0), np.inf, bound))


class UnstableShapeError(Exception):
    """A size depends on rounding."""


class Evaluation(Freedoms):
    """Walks through a graph, with noise if there is a generator of random numbers.

    Attributes:
        walks: The values without noise, of each walk through the whole graph.
        drawn: The tensors that depend on random numbers, which are others in each evaluation.
    """

    def __init__(
        self,
        rng: np.random.Generator | None,
        plans: Plans | None = None,
        walks: Walks = (),
        number: int = 0,
    ) -> None:
        self.rng, self.number = rng, number
        # Chains of many operations, too: all of them in a part of the evaluations.
        self.keeps_halves = rng is not None and rng.random() < 0.25
        self.plans = {} if plans is None else plans
        self.drawn: set[Tensor] = set()
        self.left = iter(walks)
        self.walks: list[dict[Tensor, Any]] = []
        self.table = engines.get("numpy").table

    def __call__(
        self, outputs: Sequence[Tensor], leaves: Mapping[Tensor, Any], plan: Any = None
    ) -> list[Any]:
        """The values of `outputs`. `plan` names a graph that is evaluated more than once."""
        known: dict[Tensor, Any] = {
            t: self.flushed(_wide(v), t.spec.dtype) for t, v in leaves.items()
        }
        exact = next(self.left, {}) if plan is None else {}
        if plan is None and self.rng is None:
            self.walks.append(known)
        order = self.plans.get(plan)
        if order is None:
            order = toposort(outputs, stop=known)
            if plan is not None:
                self.plans[plan] = order
        for node in order:
            if node not in known:
                known[node] = self.value(node, [known[t] for t in node.inputs], exact)
                if (node.op and node.op.varies) or not self.drawn.isdisjoint(node.inputs):
                    self.drawn.add(node)
        return [known[t] for t in outputs]

    def value(self, node: Tensor, operands: list[Any], exact: Mapping[Tensor, Any]) -> Any:
        """The value of a node; a list if it has several results. `exact` has the values without
        noise, where they are known.
        """
        if isinstance(node, Constant):
            return self.flushed(_wide(node.value), node.spec.dtype)
        if isinstance(node, Placeholder):
            return _wide(np.asarray(node.default, node.spec.dtype))
        if isinstance(node, KeySource):
            return np.array(node.words(), "uint32")
        assert node.op is not None
        if node.op is OUTPUT:
            return operands[0][node.params["index"]]
        special = CONTROL.get(node.op.name)
        if special is not None:
            return special(self, operands, **node.params)
        name = node.op.name
        if self.rng is not None:
            operands = self.operands(name, node, operands, exact)
        found = self.computed(node, operands)
        if self.rng is not None:
            found = self.results(name, node, operands, exact, found)
        if node.op.multiple:
            return [self.settled(name, v, s.dtype) for v, s in zip(found, node.spec, strict=True)]
        times = 1.0
        if name in ("sum", "sum_to", "mean"):  # their rounding errors grow with the terms
            terms = np.size(operands[0]) // max(1, np.size(found))
            # Kernels add pairs, or one by one: then errors grow with the root of their number.
            times = max(1.0, math.log2(max(1, terms)) / 4, math.sqrt(terms) / 4)
        # A division by a number may be a product with its inverse.
        if name == "div" and not np.all(is_short(1 / np.asarray(operands[1]), node.spec.dtype)):
            name = "reciprocal"
        # A product that looks exact is rounded, or fused with a sum, if its factors were rounded.
        factors = operands if name == "mul" else ()
        return self.settled(name, found, node.spec.dtype, times, factors)

    def operands(
        self, name: str, node: Tensor, operands: list[Any], exact: Mapping[Tensor, Any]
    ) -> list[Any]:
        """What an engine may compute with in the place of the operands."""
        assert self.rng is not None
        assert node.op is not None
        if node.op.varies:  # each engine draws numbers of its own
            operands = [self.rng.integers(2**32, size=4, dtype="uint32"), *operands[1:]]
        if name in JUMPS | POLES:
            operands = self.beyond(node, operands, exact)
        if name in ADDING | COMPOSED:
            # Some kernels divide each element of a window, and add the quotients.
            adding = name in ADDING and name != "avg_pool"
            whole = adding and all(_are_few_digits(v) for v in operands)
            digits = 0 if whole else NEVER
            if name in JUMPS and self.rng.random() < 0.5:  # an exact quotient may be whole
                digits = DIGITS.get(node.spec.dtype, 0)
            # A whole exponent stays whole: the power of a negative number would be NaN.
            last = 1 if name == "pow" else len(operands)
            moving = zip(operands[:last], node.inputs[:last], strict=True)
            moved = [self.moved(v, t.spec.dtype, digits) for v, t in moving]
            operands = [*moved, *operands[last:]]
        return operands

    def results(
        self, name: str, node: Tensor, operands: list[Any], exact: Mapping[Tensor, Any], found: Any
    ) -> Any:
        """What an engine may have in the place of the result, or of several."""
        assert node.op is not None
        if name == "ctc_loss":
            # Where the loss is NaN, kernels make all slopes of the sample NaN.
            lost = np.isnan(found[0])[:, None, None] & self.chosen(np.shape(found[1]))
            found = [found[0], np.where(lost, np.nan, found[1])]
        if name == "max_pool" and is_float(node.inputs[0].spec.dtype):
            found = self.pooled(node, operands[0], found)
        if name in ("softmax", "log_softmax"):
            found = self.scored_twice(node, operands[0], found)
        if node.op.multiple:
            return found
        found = self.open(name, node, operands, found)
        if name in ADDING | COMPOSED and is_float(node.spec.dtype):
            found = self.overflowing(node, operands, found)
        if name == "mul" and is_float(node.spec.dtype):
            found = self.distributed(node, operands, exact, found)
        return found

    def computed(self, node: Tensor, operands: list[Any]) -> Any:
        """The primitive in float64."""
        op, params = node.op, _widened(node.params)
        if op.name == "cast":
            return _cast(operands[0], params["dtype"])
        entry = self.table.get(op.name)
        if entry is not None and entry.unless is None and not entry.builds:
            return entry.function(*operands, **params)
        specs = [_spec_of(v, t.spec.dtype) for v, t in zip(operands, node.inputs, strict=True)]
        if entry is None or (entry.unless is not None and entry.unless(specs, **params)):
            return self.decomposed(node, operands, specs, params)
        if entry.builds:
            return entry.function(specs, **params)(*operands)
        return entry.function(*operands, **params)

    def decomposed(
        self, node: Tensor, operands: list[Any], specs: list[Spec], params: dict[str, Any]
    ) -> Any:
        """The decomposition of the primitive in float64."""
        assert node.op is not None
        key = (node, *specs)
        if key not in self.plans:
            leaves = [Placeholder(s) for s in specs]
            result = node.op.decomposition(*leaves, **params)
            self.plans[key] = Graph(leaves, result if node.op.multiple else [result])
        graph = self.plans[key]
        found = _graph(Evaluation(None, self.plans), graph, operands)
        return found if node.op.multiple else found[0]


def _are_few_digits(value: Any) -> bool:
    """Whether all are whole numbers, whose sums are exact in all likelihood."""
    return not is_float(np.asarray(value).dtype.name) or bool((value == np.round(value)).all())


def _wide(value: Any) -> Any:
    array = np.asarray(value)
    return (
        array.astype("float64")
        if array.dtype.kind == "f" or array.dtype.name == "bfloat16"
        else array
    )


def _spec_of(value: Any, dtype: str) -> Spec:
    """The spec of an operand: sizes, whose values are NumPy's own integers, keep their dtype."""
    wide = np.asarray(value).dtype.name
    return Spec(np.shape(value), wide if is_float(wide) else dtype)


def _widened(params: Mapping[str, Any]) -> dict[str, Any]:
    wide = dict(params)
    if is_float(wide.get("dtype", "")):
        wide["dtype"] = "float64"
    return wide


def _cast(value: Any, dtype: str) -> Any:
    return np.asarray(value).astype(dtype)


def _graph(evaluation: Evaluation, graph: Graph, values: Sequence[Any]) -> list[Any]:
    return evaluation(graph.outputs, dict(zip(graph.inputs, values, strict=True)), plan=graph)


def _scan(
    evaluation: Evaluation, operands: list[Any], *, body: Graph, carry: int, xs: int, reverse: bool,
    length: int | None,
) -> list[Any]:  # fmt: skip
    state, sequences, constants = (
        operands[:carry],
        operands[carry : carry + xs],
        operands[carry + xs :],
    )
    steps = np.shape(sequences[0])[0] if xs else length
    if not steps:
        # One step on zeros tells the shapes.
        rows_of_zeros = [np.zeros(np.shape(s)[1:], np.asarray(s).dtype) for s in sequences]
        found = _graph(evaluation, body, [*state, *rows_of_zeros, *constants])
        stacks = [np.zeros((0, *np.shape(y)), np.asarray(y).dtype) for y in found[carry:]]
        return [*state, *stacks]
    rows: list[Any] = [None] * steps
    for i in reversed(range(steps)) if reverse else range(steps):
        found = _graph(evaluation, body, [*state, *[s[i] for s in sequences], *constants])
        state, rows[i] = found[:carry], found[carry:]
    return [*state, *[np.stack(column) for column in zip(*rows, strict=True)]]


def _cond(evaluation: Evaluation, operands: list[Any], *, then: Graph, orelse: Graph) -> list[Any]:
    return _graph(evaluation, then if operands[0] else orelse, operands[1:])


def _while(
    evaluation: Evaluation, operands: list[Any], *, test: Graph, body: Graph, carry: int
) -> list[Any]:
    state, constants = operands[:carry], operands[carry:]
    while _graph(evaluation, test, [*state, *constants])[0]:
        state = _graph(evaluation, body, [*state, *constants])
    return state


CONTROL: dict[str, Callable[..., list[Any]]] = {"scan": _scan, "cond": _cond, "while_loop": _while}
