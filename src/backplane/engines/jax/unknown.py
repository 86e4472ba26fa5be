"""Shapes with symbolic sizes, with which `jax.export` and Keras 3 trace.

Lowerings expect sizes to be ints. If one fails for a symbolic size, it is run with three different
numbers in its place. The shapes of these runs tell the shapes of the results, and mostly nobody
asks for more.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export

from backplane.core.atomic import deferred_signals
from backplane.engines.programs import Function
from backplane.engines.table import Shape, Value

UNIT = 240
"""Many numbers divide it, as a size may have to be divisible."""

MOST_FACTOR = 1 << 15
"""JAX computes in 32 bits what a product of sizes is for given numbers."""

MOST_AXES = 16
"""Longer vectors of integers are no shapes."""


def is_size(value: object) -> bool:
    """Whether `value` is a symbolic size (`jax.export.symbolic_shape` makes them)."""
    return type(value).__name__ == "_DimExpr"


def sizes(value: Value) -> Shape:
    """The shape of a traced value, None for symbolic sizes."""
    return tuple([None if is_size(n) else n for n in value.shape])


def variables(inputs: Sequence[Value]) -> set[str]:
    """The names in the symbolic sizes of values, and in values that are sizes."""
    names: set[str] = set()
    for value in inputs:
        for size in (value,) if is_size(value) else np.shape(value):
            if is_size(size):
                names |= size._get_vars()
    return names


def may_be_sizes(x: Value) -> bool:
    """Whether an array, or something like one, may be a shape or one of its sizes."""
    kind = getattr(x.dtype, "kind", None)  # The dtype of a random key has none.
    return bool(kind == "i" and x.ndim < 2 and x.size <= MOST_AXES)


class _Trials:
    """Numbers for the names in symbolic sizes, and what sizes they make of those of the inputs."""

    def __init__(self, inputs: Sequence[Value], names: set[str]) -> None:
        # No line leads from the numbers of one name, or of a product of two, to those of another.
        multiples = [(name, (k + 1, k + 2, 2 * k + 3)) for k, name in enumerate(sorted(names))]
        self.numbers = [{name: UNIT * n[trial] for name, n in multiples} for trial in range(3)]
        shapes = [(x,) if is_size(x) else np.shape(x) for x in inputs]
        sizes = list(dict.fromkeys(n for shape in shapes for n in shape if is_size(n)))
        self._scope = sizes[0].scope
        known = [(size, [_number(size, n) for n in self.numbers]) for size in sizes]
        small = [size for size, values in known if max(values) < MOST_FACTOR]
        sizes = [x * y for i, x in enumerate(small) for y in small[i:]]
        self._known = known + [(size, [_number(size, n) for n in self.numbers]) for size in sizes]

    def size(self, values: Sequence[int]) -> Any:
        """The size with these values: a number, or in proportion to inputs; None without one."""
        first, second, third = values
        if first == second == third:
            return first
        for size, (a, b, c) in self._known:
            if a == b:
                continue
            slope = (second - first) // (b - a)
            if slope * (b - a) == second - first and slope * (c - a) == third - first:
                return slope * size + (first - slope * a)
        return None

    def unknown(self, values: Sequence[int]) -> Any:
        """A new size."""
        name = "_".join(map(str, ("unknown", *values)))
        return export.symbolic_shape(name, scope=self._scope)[0]


def computed(function: Function, inputs: Sequence[Value]) -> tuple[Value, ...] | None:
    """Results of `function` for symbolic sizes, and arrays with values, that may be sizes. They are
    NumPy arrays of numbers and sizes.

    None if there is something else among the inputs or the results.
    """
    names = variables(inputs)
    others = [x for x in inputs if not is_size(x)]
    if not names or any(isinstance(x, jax.core.Tracer) or not may_be_sizes(x) for x in others):
        return None
    trials = _Trials(inputs, names)

    def results(trial: int) -> Any:
        return function(*[_number(x, trials.numbers[trial]) for x in inputs])

    if not all(map(may_be_sizes, jax.eval_shape(partial(results, 0)))):
        return None
    with deferred_signals(), jax.ensure_compile_time_eval():
        outcomes = [list(map(np.asarray, results(trial))) for trial in range(3)]
    sizes = [_as_sizes(values, trials) for values in zip(*outcomes, strict=True)]
    return None if any(n is None for n in sizes) else tuple(sizes)


def _number(size: Any, numbers: dict[str, int]) -> Any:
    return int(size._evaluate(numbers)) if is_size(size) else size


def _as_sizes(values: Sequence[np.ndarray], trials: _Trials) -> Value | None:
    if any(x.shape != values[0].shape for x in values):
        return None
    if all((x == values[0]).all() for x in values):
        return values[0]
    sizes = np.empty(values[0].shape, object)
    for place in np.ndindex(sizes.shape):
        sizes[place] = trials.size([int(x[place]) for x in values])
    return None if None in sizes.flat else sizes if sizes.ndim else sizes[()]


def inferred(function: Function, inputs: Sequence[Value], names: set[str]) -> tuple[Value, ...]:
    """Zeros of the shapes that `function` gives for inputs with symbolic sizes. A size that does
    not follow from those of the inputs is a new one.
    """
    trials = _Trials(inputs, names)
    outcomes = [_results(function, inputs, numbers) for numbers in trials.numbers]
    return tuple([_zeros(results, trials) for results in zip(*outcomes, strict=True)])


def _results(function: Function, inputs: Sequence[Value], numbers: dict[str, int]) -> Any:
    """The shapes and dtypes of the results with numbers for names."""
    given = [
        _number(x, numbers)
        if is_size(x)
        else jax.ShapeDtypeStruct([_number(n, numbers) for n in x.shape], x.dtype)
        for x in inputs
    ]
    traced = [x for x in given if not isinstance(x, int)]

    def run(*values: Value) -> tuple[Value, ...]:
        waiting = iter(values)
        return function(*[x if isinstance(x, int) else next(waiting) for x in given])

    return jax.eval_shape(run, *traced)


def _zeros(results: Sequence[Any], trials: _Trials) -> Value:
    shape = []
    for sizes in zip(*[x.shape for x in results], strict=True):
        size = trials.size(sizes)
        shape.append(trials.unknown(sizes) if size is None else size)
    return jnp.zeros(tuple(shape), results[0].dtype)
