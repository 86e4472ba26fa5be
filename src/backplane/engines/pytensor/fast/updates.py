"""Steps of optimizers as one loop over each parameter, compiled by Numba, which PyTensor requires.

NumPy goes over a block a dozen times for a step of Adam, which takes 3.5 times as long. To load
Numba and to compile a loop takes about 0.3 s. The loops compute what NumPy's calls do, operation by
operation, to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

from backplane.core.source import Source
from backplane.engines.formulas import Formula, Lines
from backplane.engines.kernels import limit

FORMS = {
    "add": "{x} + {y}", "sub": "{x} - {y}", "mul": "{x} * {y}", "div": "{x} / {y}",
    "sqrt": "sqrt({x})", "abs": "abs({x})",
    "maximum": "{x} if {x} > {y} or {x} != {x} else {y}",  # NaN is the larger one.
}  # fmt: skip


def _written(rule: Formula) -> Callable[..., None]:
    """The loop in Python, over the numbers and the arrays of a step."""
    source = Source("optimizer step", sqrt=math.sqrt)
    numbers, elements = rule.names()
    arrays = [f"a{i}" for i in range(rule.count - rule.scratch)]
    forms = {name: f"{{out}} = {form}" for name, form in FORMS.items()}
    with (
        source.block(f"def step({', '.join([*numbers.values(), *arrays])}):"),
        source.block("for i in range(a0.size):"),
    ):
        for a, x in zip(arrays, elements, strict=False):
            source.line(f"{x} = {a}[i]")
        rule.run(Lines(source, forms), numbers, elements)
        for a, x in zip(arrays[:-1], elements, strict=False):
            source.line(f"{a}[i] = {x}")
    return source.function("step")


def loop(rule: Formula, dtype: str, elements: int) -> Callable[..., None] | None:
    """A compiled loop over numbers and flat arrays; None for few elements, or without Numba."""
    return None if elements < limit("theano.updates", dtype) else _compiled(rule, dtype)


@cache
def _compiled(rule: Formula, dtype: str) -> Callable[..., None] | None:
    """The loop, compiled for these types now: a call compiles nothing and cannot fail halfway."""
    import numba

    if numba.config.DISABLE_JIT:
        return None
    number = getattr(numba.types, dtype)
    written, read = [numba.types.Array(number, 1, "C", readonly=only) for only in (False, True)]
    types = [number] * len(rule.read) + [written] * (rule.count - rule.scratch - 1) + [read]
    # NumPy's rules for division: an exception for a zero would keep the loop from being vectorized.
    return numba.njit(numba.types.void(*types), error_model="numpy")(_written(rule))
