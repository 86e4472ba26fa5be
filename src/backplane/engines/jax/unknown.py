"""Shapes with symbolic sizes, with which `jax.export` and Keras 3 trace.

Lowerings expect sizes to be ints. If one fails for a symbolic size, it is run with two different
numbers in its place. The shapes of both runs tell the shapes of the results, and mostly nobody asks
for more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export

from backplane.engines.base import Function
from backplane.engines.table import Shape, Value

TRIED = (240, 480)
"""Many numbers divide them, as a size may have to be divisible."""


def is_size(value: object) -> bool:
    """Whether `value` is a symbolic size (`jax.export.symbolic_shape` makes them)."""
    return type(value).__name__ == "_DimExpr"


def sizes(value: Value) -> Shape:
    """The shape of a traced value, None for symbolic sizes."""
    return tuple([None if is_size(n) else n for n in value.shape])


def variables(inputs: Sequence[Value]) -> set[str]:
    """The names in the symbolic sizes of values, and in values that are sizes."""
    found: set[str] = set()
    for value in inputs:
        for size in (value,) if is_size(value) else np.shape(value):
            if is_size(size):
                found |= size._get_vars()
    return found


def inferred(function: Function, inputs: Sequence[Value], names: set[str]) -> tuple[Value, ...]:
    """Zeros of the shapes that `function` gives for inputs with symbolic sizes.

    A size that grows in proportion to a single name becomes an expression of that name. Any other
    size that differs between the two numbers becomes a new unknown.
    """
    found = [_results(function, inputs, dict.fromkeys(names, n)) for n in TRIED]
    variable = _variable(inputs, names)
    return tuple([_zeros(a, b, variable) for a, b in zip(*found, strict=True)])


def _results(function: Function, inputs: Sequence[Value], numbers: dict[str, int]) -> Any:
    """The shapes and dtypes of the results with numbers for names."""

    def number(size: Any) -> Any:
        return int(size._evaluate(numbers)) if is_size(size) else size

    given = [
        number(x) if is_size(x) else jax.ShapeDtypeStruct([number(n) for n in x.shape], x.dtype)
        for x in inputs
    ]
    traced = [x for x in given if not isinstance(x, int)]

    def run(*values: Value) -> tuple[Value, ...]:
        waiting = iter(values)
        return function(*[x if isinstance(x, int) else next(waiting) for x in given])

    return jax.eval_shape(run, *traced)


def _variable(inputs: Sequence[Value], names: set[str]) -> Any:
    """The symbolic size that is the one name itself; None if there are several."""
    if len(names) > 1:
        return None
    sizes = [n for x in inputs for n in ((x,) if is_size(x) else np.shape(x)) if is_size(n)]
    return export.symbolic_shape(*names, scope=sizes[0].scope)[0]


def _zeros(first: Any, second: Any, variable: Any) -> Value:
    shape = [_size(a, b, variable) for a, b in zip(first.shape, second.shape, strict=True)]
    return jnp.zeros(tuple(shape), first.dtype)


def _size(first: int, second: int, variable: Any) -> Any:
    if first == second:
        return first
    factor, rest = divmod(second - first, TRIED[1] - TRIED[0])
    if rest or variable is None:
        return export.symbolic_shape(f"unknown_{first}_{second}")[0]
    return factor * variable + (first - factor * TRIED[0])
