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
from backplane.core.spec import Spec, is_float, is_integer
from backplane.core.variable import Variable
from backplane.ops.reduction import log_softmax

UNIT = {"float64": 4e-15, "float32": 2.4e-7, "float16": 2e-3, "bfloat16": 1.6e-2}
"""The noise, relative to a value: some units in the last place."""
TINY = {"float64": 2.3e-308, "float32": 1.2e-38, "float16": 6.2e-5, "bfloat16": 1.2e-38}
"""Engines may take smaller numbers for 0."""
LARGEST = {"float64": 1.79e308, "float32": 3.4e38, "float16": 65520.0, "bfloat16": 3.38e38}
"""Larger numbers may be infinite."""
DIGITS = {"float64": 20, "float32": 14, "float16": 6, "bfloat16": 3}
"""Results with so few binary digits after the point are exact in all likelihood."""
SLACK = 16
"""An engine may be so many times as far away as the noise has moved an element."""

EXACT = frozenset(
    "max min maximum minimum neg abs sign floor round relu relu_grad where clip reshape"
    " broadcast_to transpose expand_dims squeeze concat slice slice_grad flip pad gather head"
    " dynamic_slice dynamic_slice_grad identity stop_gradient print check_windows max_pool"
    " max_pool_take pick place full eye top_k stack to_dense to_sparse repeat tile".split()
)
"""Primitives whose results are elements of their operands, or small whole numbers."""
ADDING = frozenset(
    "sum sum_to mean matmul matmul_add conv conv_bias conv_input_grad conv_kernel_grad cumsum"
    " avg_pool avg_pool_grad scatter_add".split()
)
"""Primitives with intermediate results: their operands are moved too."""
BASIC = frozenset("add sub mul mul_no_nan div sqrt cast mod floordiv".split())
"""Operations that are exact whenever their result can be held."""
COMPOSED = frozenset(
    "softmax log_softmax logsumexp prod cumprod pow mod floordiv max_pool_grad tanh_grad"
    " sigmoid_grad softmax_grad normalize_grad adam_update momentum_update gradient_update"
    " rows_update average_update".split()
)
"""The same, and even whole numbers lead to intermediate results that are rounded."""
RELATIVE_TO_ONE = frozenset("log_softmax logsumexp ctc_loss sin cos".split())
"""Functions with an error that is relative to 1: they take the logarithm of a sum of about 1, or
the remainder of a division by π."""
JUMPS = frozenset("floordiv mod floor round sign equal not_equal less less_equal".split())
"""Operations that jump between near operands."""
POLES = frozenset("div pow log".split())
"""Operations that jump where an operand is 0."""
NEVER = None
NOISE = np.random.default_rng(0).uniform(-1, 1, 1 << 20)
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
        evaluations = [exact, *[Evaluation(rng, plans, exact.walks) for rng in generators]]
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


class Evaluation:
    """Walks through a graph, with noise if there is a generator of random numbers.

    Attributes:
        walks: The values without noise, of each walk through the whole graph.
        drawn: The tensors that depend on random numbers, which are others in each evaluation.
    """

    def __init__(
        self, rng: np.random.Generator | None, plans: Plans | None = None, walks: Walks = ()
    ) -> None:
        self.rng = rng
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
        if self.rng is not None and node.op.varies:  # each engine draws numbers of its own
            operands = [self.rng.integers(2**32, size=4, dtype="uint32"), *operands[1:]]
        if self.rng is not None and name == "max_pool" and self.rng.random() < 0.5:
            # Some engines pass over NaN, or begin with the lowest number.
            lowest = self.rng.choice([-np.inf, -LARGEST[node.inputs[0].spec.dtype]])
            operands = [np.where(np.isnan(x) | np.isneginf(x), lowest, x) for x in operands]
        if self.rng is not None and name in JUMPS | POLES:
            operands = self.beyond(node, operands, exact)
        if self.rng is not None and name in ADDING | COMPOSED:
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
        found = self.computed(node, operands)
        if name == "ctc_loss" and self.rng is not None:
            # Where the loss is NaN, kernels make all slopes of the sample NaN.
            lost = np.isnan(found[0])[:, None, None] & self.chosen(np.shape(found[1]))
            found = [found[0], np.where(lost, np.nan, found[1])]
        if name in ("softmax", "log_softmax") and self.rng is not None:
            found = self.scored_twice(node, operands[0], found)
        if node.op.multiple:
            return [self.settled(name, v, s.dtype) for v, s in zip(found, node.spec, strict=True)]
        if self.rng is not None:
            found = self.open(name, node, operands, found)
            if name in ADDING | COMPOSED and is_float(node.spec.dtype):
                found = self.overflowing(node, operands, found)
            if name == "mul" and is_float(node.spec.dtype):
                found = self.distributed(node, operands, exact, found)
        times = 1.0
        if name in ("sum", "sum_to", "mean"):  # their rounding errors grow with the terms
            terms = np.size(operands[0]) // max(1, np.size(found))
            times = max(1.0, math.log2(max(1, terms)) / 4)
        # A division by a number may be a product with its inverse.
        if name == "div" and not np.all(_short(1 / np.asarray(operands[1]), node.spec.dtype)):
            name = "reciprocal"
        return self.settled(name, found, node.spec.dtype, times)

    def beyond(self, node: Tensor, operands: list[Any], exact: Mapping[Tensor, Any]) -> list[Any]:
        """Operands that an engine may have behind a jump: they are up to `SLACK` times as far from
        the exact ones as noise has moved them. One that may thereby be 0 is 0 now and then.
        """
        assert node.op is not None
        moved = dict(zip(node.inputs, operands, strict=True))
        for t, value in moved.items():
            near = exact.get(t)
            if near is None or np.shape(near) != np.shape(value) or not is_float(t.spec.dtype):
                continue
            far = np.nan_to_num(value - near, posinf=0.0, neginf=0.0) * SLACK
            jumps = node.op.name in JUMPS and self.rng.random() < 0.75
            other = near + far * self.noise(far.shape) if jumps else value
            vanishing = (np.abs(far) >= np.abs(near)) & (self.noise(far.shape) < 0)
            vanishing &= t not in self.drawn  # Another number was drawn, and is no rounding error.
            moved[t] = np.where(far == 0, value, np.where(vanishing, 0.0, other))
        found = [moved[t] for t in node.inputs]
        if node.op.name != "mod":
            return found
        # Between jumps the remainder follows its operands: there they keep the noise they have.
        jumps = np.floor(found[0] / found[1]) != np.floor(operands[0] / operands[1])
        return [np.where(jumps, new, old) for new, old in zip(found, operands, strict=True)]

    def overflowing(self, node: Tensor, operands: list[Any], found: Any) -> Any:
        """`found`, with random elements where an intermediate result may be too large."""
        most = LARGEST[node.spec.dtype]
        wide = [v for v in operands if np.asarray(v).dtype.kind == "f"]
        assert self.rng is not None
        assert node.op is not None
        kinds = self.rng.permutation([np.nan, np.inf, 0.0])[: self.rng.integers(1, 4)]
        if node.op.name.startswith(("conv", "matmul")) and not all(
            np.isfinite(v).all() for v in wide
        ):
            return self.rng.choice(kinds, np.shape(found))  # infinity · 0
        if node.op.name in ("prod", "cumprod"):
            free = _depends_on_order(wide[0], math.log(most), **node.params)
            kinds = [*kinds, -np.inf]
            return np.where(free, self.rng.choice(kinds, np.shape(found)), found)
        if all(np.max(np.abs(v), initial=0.0, where=np.isfinite(v)) < most**0.25 for v in wide):
            return found
        # ONNX Runtime may leave out the conversion to float16 between two operations in float32.
        if node.spec.dtype == "float16" and self.rng.random() < 0.5:
            return found
        sizes = [np.abs(v) if np.asarray(v).dtype.kind == "f" else v for v in operands]
        large = ~(np.abs(self.computed(node, sizes)) < most / 4)
        return np.where(large, self.rng.choice(kinds, np.shape(found)), found)

    def distributed(
        self, node: Tensor, operands: list[Any], exact: Mapping[Tensor, Any], found: Any
    ) -> Any:
        """`found`, with random elements where the products with both terms of a difference
        overflow: kernels for normalization compute `x * scale + (bias - mean * scale)`.
        """
        for t, scale in zip(node.inputs, reversed(operands), strict=True):
            terms = t.inputs if t.op is not None and t.op.name == "sub" else ()
            large: Any = False
            for term in terms:
                product = np.abs(np.asarray(exact.get(term, 0.0)) * np.asarray(scale))
                large = large | (product > LARGEST[node.spec.dtype])
            if np.any(large):
                kinds = self.chosen(np.shape(found)), self.chosen(np.shape(found))
                lost = np.where(kinds[0], np.nan, np.where(kinds[1], np.inf, -np.inf))
                found = np.where(large & self.chosen(np.shape(found)), lost, found)
        return found

    def scored_twice(self, node: Tensor, scores: Any, found: Any) -> Any:
        """`found`, as if computed scores were other ones where they are exponentiated than where
        the largest is looked for: XLA computes them twice, and may round them differently.
        """
        if node.inputs[0].op is None:
            return found
        sizes = np.nan_to_num(np.abs(scores), posinf=0.0)
        most = np.max(sizes, axis=node.params["axis"], keepdims=True, initial=0.0)
        apart = self.noise(np.shape(found)) * UNIT[node.spec.dtype] * most
        moved = found + apart if node.op is log_softmax else found * (1 + apart)
        # The exponential of such a difference may be infinite.
        lost = (most * UNIT[node.spec.dtype] > 1) & self.chosen(np.shape(found))
        return np.where(lost, np.nan, moved)

    def flushed(self, value: Any, dtype: str) -> Any:
        """`value`, where numbers below the normal ones may be 0."""
        if self.rng is None or not is_float(dtype):
            return value
        small = (np.abs(value) < TINY[dtype]) & (value != 0)
        if not small.any():
            return value
        return np.where(small & (self.noise(np.shape(value)) < 0), 0.0 * value, value)

    def noise(self, shape: tuple[int, ...]) -> np.ndarray:
        """Numbers between -1 and 1: a part of a long list, because drawing them takes longer than
        all the rest.
        """
        assert self.rng is not None
        count = math.prod(shape)
        start = int(self.rng.integers(max(1, len(NOISE) - count)))
        part = NOISE[start : start + count]
        return (part if len(part) == count else np.resize(NOISE, count)).reshape(shape)

    def chosen(self, shape: tuple[int, ...]) -> np.ndarray:
        """Where an engine makes use of a freedom: everywhere, or at random elements."""
        assert self.rng is not None
        return self.noise(shape) < self.rng.choice([0.0, 1.0])

    def computed(self, node: Tensor, operands: list[Any]) -> Any:
        """The primitive in float64."""
        op, params = node.op, _widened(node.params)
        if op.name == "cast":
            return _cast(operands[0], params["dtype"])
        entry = self.table.get(op.name)
        if entry is not None and entry.unless is None and not entry.builds:
            return entry.function(*operands, **params)
        specs = [Spec(np.shape(v), np.asarray(v).dtype.name) for v in operands]
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

    def settled(self, name: str, value: Any, dtype: str, times: float = 1.0) -> Any:
        """A result as its dtype holds it: too large numbers are infinite, and rounding is noise,
        so many times as large as that of one operation.
        """
        if not is_float(dtype):
            return value
        value = np.asarray(value, "float64")
        if dtype != "float64":
            large = np.abs(value) > LARGEST[dtype]
            # Compilers may keep more than 16 bits, and fuse a product with a sum: of all elements.
            if self.rng is not None and (dtype == "float16" or name == "mul"):
                large &= ~self.chosen(value.shape)
            value = np.where(large, np.sign(value) * np.inf, value)
        if self.rng is None:
            return value
        zero = value == 0
        if zero.any():  # engines differ in the sign of zeros
            value = np.where(zero & (self.noise(value.shape) < 0), -value, value)
        if name in EXACT:
            return value
        if name == "exp":  # Kernels that scale by a power of 2 may overflow too early.
            large = (value > LARGEST[dtype] / 2) & ~self.chosen(value.shape)
            value = np.where(large, np.inf, value)
        if name in RELATIVE_TO_ONE:
            value = value + self.noise(value.shape) * UNIT[dtype]
        # Kernels for normalization subtract a mean that is scaled already.
        adding = name in ADDING and name != "mean"
        digits = 0 if adding else DIGITS[dtype] if name in BASIC else NEVER
        return self.moved(value, dtype, digits, times)

    def moved(self, value: Any, dtype: str, digits: int | None, times: float = 1.0) -> Any:
        """`value` with noise, but for numbers that need no more than `digits` binary digits after
        the point, and few before it.
        """
        if not is_float(dtype) or self.rng is None:
            return value
        value = np.asarray(value, "float64")
        noise = self.noise(value.shape) * UNIT[dtype] * times
        moved = value * (1 + noise)
        # Numbers of 16 bits are often equal, or whole, where more precise ones are not.
        if dtype == "float16" and self.rng.random() < 0.5:
            moved = moved.astype("float16").astype("float64")
        if digits is not NEVER:
            moved = np.where(_short(value, dtype, digits), value, moved)
        size = np.abs(value)
        if not (size > LARGEST[dtype] / 2).any():
            return self.flushed(moved, dtype)
        edge = np.abs(size / LARGEST[dtype] - 1) < 0.01
        return np.where(edge & (noise > 0), np.sign(value) * np.inf, self.flushed(moved, dtype))

    def open(self, name: str, node: Tensor, operands: list[Any], found: Any) -> Any:
        """`found`, with random elements where the documents leave the result to the engine."""
        first = np.asarray(operands[0]) if operands else None
        free: Any = None
        if name == "cast" and is_integer(node.spec.dtype) and first.dtype.kind == "f":
            info = np.iinfo(node.spec.dtype)
            free = ~((first > float(info.min) - 1) & (first < float(info.max)))
        elif name == "cast" and node.spec.dtype == "bool" and first.dtype.kind == "f":
            # What is 0 but for roundings, such as slopes of a sum of probabilities, is 0 or not.
            tiny = np.abs(first) < 8 * UNIT[node.inputs[0].spec.dtype]
            return np.where(tiny & (self.noise(np.shape(found)) < 0), False, found)
        elif name in ("floordiv", "mod") and is_integer(node.spec.dtype):
            free = np.asarray(operands[1]) == 0
        elif name == "pow" and is_integer(node.spec.dtype):
            exact = np.power(np.asarray(operands[0], "float64"), operands[1])
            info = np.iinfo(node.spec.dtype)
            free = (np.asarray(operands[1]) < 0) | (exact > info.max) | (exact < info.min)
        elif name == "mod":  # PyTorch's kernel gives NaN where the quotient overflows
            over = np.abs(first) / LARGEST[node.spec.dtype] > np.abs(operands[1])
            return np.where(over & (self.noise(np.shape(found)) < 0), np.nan, found)
        elif name == "div":  # XLA may multiply by the reciprocal, and take a denormal one for 0
            over = np.abs(operands[1]) > 1 / TINY[node.spec.dtype]
            return np.where(over & (self.noise(np.shape(found)) < 0), 0.0 * found, found)
        elif name == "pow":
            # A large exponent may be a whole number on an engine, and is then no root.
            whole = np.abs(operands[1]) * UNIT[node.spec.dtype] > 0.1
            # Some take pow(x, 0.5) for the root of x, also where x is −∞.
            whole = whole | np.isneginf(first)
            free = np.isnan(found) & (first < 0) & whole & (self.noise(np.shape(found)) < 0)
            return np.where(free, np.abs(first) ** np.asarray(operands[1]), found)
        elif name in ("equal", "not_equal", "less", "less_equal") and first.dtype.kind == "f":
            # Numbers that differ by rounding may be equal on an engine.
            second = np.asarray(operands[1])
            size = np.maximum(np.abs(first), np.abs(second)) * 4 * UNIT[node.inputs[0].spec.dtype]
            free = (first != second) & (np.abs(first - second) <= size)
            return found ^ (free & (self.noise(np.shape(free)) < 0))
        elif name == "sub" and node.spec.dtype == "float16":
            # ONNX Runtime may read one operand before it is rounded to 16 bits, the other after.
            size = np.maximum(np.abs(first), np.abs(operands[1]))
            if any(x.op is not None and x.op.name not in EXACT for x in node.inputs):
                near = (np.abs(found) <= UNIT["float16"] * size) & np.isfinite(size)
                return found + np.where(near, size * self.noise(np.shape(size)) / 2**13, 0.0)
        elif name == "relu_grad":  # The result of which it is the gradient is no number.
            free = np.isnan(operands[1]) & (self.noise(np.shape(found)) < 0)
            return np.where(free, first, found)
        elif name == "mul":  # XLA chooses by a bool that was cast, and so passes over NaN.
            masks = [x.op is not None and x.op.name == "cast" and x.inputs[0].spec.dtype == "bool"
                     for x in node.inputs]  # fmt: skip
            free = np.isnan(found) & self.chosen(np.shape(found))
            for mask, x in zip(masks, operands, strict=True):
                if mask:
                    found = np.where(free & (np.asarray(x) == 0), 0.0, found)
            return found
        elif name in ("argmax", "argmin") and first.dtype.kind == "f":
            free = np.isnan(first).any(axis=node.params["axis"])
        if free is None or not np.any(free):
            return found
        info = np.iinfo(node.spec.dtype)
        drawn = self.rng.integers(
            info.min // 2, info.max // 2, np.shape(found), dtype="int64" if info.min else "uint64"
        ).astype(node.spec.dtype)
        special = self.rng.choice(np.array([0, info.min, info.max], node.spec.dtype), drawn.shape)
        drawn = np.where(self.noise(drawn.shape) < 0, drawn, special)
        if name in ("argmax", "argmin"):
            drawn = abs(drawn) % max(1, first.shape[node.params["axis"]])
        return np.where(free, drawn, found)


def _depends_on_order(
    x: Any,
    most: float,
    *,
    axes: Any = (),
    axis: int = 0,
    keepdims: bool = True,
    reverse: bool = False,
) -> Any:
    """Where a product overflows or vanishes if the elements are multiplied in some order."""
    sizes = np.nan_to_num(np.log(np.clip(np.abs(x), 1e-320, 1e300)))
    up, down = (
        np.sum(part, axis=axes or axis, keepdims=keepdims)
        for part in (np.maximum(sizes, 0), np.minimum(sizes, 0))
    )
    return ((up > 0.9 * most) & (down < 0)) | ((down < -0.9 * most) & (up > 0))


def _short(value: np.ndarray, dtype: str, digits: int | None = None) -> np.ndarray:
    """Which numbers need no more than so many binary digits after the point, and few before it."""
    if not is_float(dtype):
        return np.ones(value.shape, bool)
    scaled = value * 2.0 ** (DIGITS[dtype] if digits is None else digits)
    return (scaled == np.round(scaled)) & (np.abs(scaled) < 2.0 ** DIGITS[dtype] * 4)


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
