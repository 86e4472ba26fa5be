"""Steps of optimizers as one loop over each parameter, compiled by Numba, which PyTensor requires.

NumPy goes over a block a dozen times for a step of Adam, which takes 3.5 times as long. To load
Numba and to compile a loop takes about 0.3 s. The loops compute what NumPy's calls do, operation by
operation, to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

from backplane.engines.kernels import limit
from backplane.engines.table import Value


def _gradient(a: Value, p: Value, g: Value) -> None:
    for i in range(p.size):
        p[i] += g[i] * a


def _momentum(decay: Value, a: Value, b: Value, p: Value, m: Value, g: Value) -> None:
    for i in range(p.size):
        m[i] = m[i] * decay + g[i] * a
        p[i] += m[i] * b


def _nesterov(decay: Value, a: Value, b: Value, p: Value, m: Value, g: Value) -> None:
    for i in range(p.size):
        s = g[i] * a
        m[i] = m[i] * decay + s
        p[i] = (p[i] + s) + m[i] * b


def _adam(
    a: Value, b1: Value, c1: Value, b2: Value, c2: Value, e: Value,
    p: Value, m: Value, v: Value, g: Value,
) -> None:  # fmt: skip
    for i in range(p.size):
        m[i] = m[i] * b1 + g[i] * c1
        v[i] = v[i] * b2 + g[i] * g[i] * c2
        p[i] -= m[i] / (math.sqrt(v[i]) + e) * a


_LOOPS: dict[str, tuple[Callable[..., None], int, int]] = {
    "gradient": (_gradient, 1, 1),
    "momentum": (_momentum, 3, 2),
    "nesterov": (_nesterov, 3, 2),
    "adam": (_adam, 6, 3),
}
"""Name → a loop, how many numbers it takes, and how many arrays it writes to."""


def loop(name: str, dtype: str, elements: int) -> Callable[..., None] | None:
    """A compiled loop over numbers and flat arrays; None for few elements, or without Numba."""
    return None if elements < limit("theano.updates", dtype) else _compiled(name, dtype)


@cache
def _compiled(name: str, dtype: str) -> Callable[..., None] | None:
    """The loop, compiled for these types now: a call compiles nothing and cannot fail halfway."""
    import numba

    if numba.config.DISABLE_JIT:
        return None
    function, numbers, arrays = _LOOPS[name]
    number = getattr(numba.types, dtype)
    written, read = [numba.types.Array(number, 1, "C", readonly=only) for only in (False, True)]
    signature = numba.types.void(*[number] * numbers, *[written] * arrays, read)
    # NumPy's rules for division: an exception for a zero would keep the loop from being vectorized.
    return numba.njit(signature, error_model="numpy")(function)
