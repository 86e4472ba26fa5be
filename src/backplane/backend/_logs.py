"""Sums of probabilities held as logarithms."""

from __future__ import annotations

from collections.abc import Sequence

from backplane.core.graph import Tensor
from backplane.ops.effects import stop_gradient
from backplane.ops.elementwise import exp, log, maximum
from backplane.ops.shaping import expand_dims

IMPOSSIBLE = -1e30
"""Log-probability of what cannot be. Being finite it makes no NaN of any derivative, and it is so
small that a sum of probabilities does not change by it."""


def log_sum(terms: Sequence[Tensor]) -> Tensor:
    """log(exp(a) + exp(b) + …) of finite terms. The largest is taken out first; the result does not
    depend on which number is taken out, hence no derivative does.
    """
    largest = terms[0]
    for t in terms[1:]:
        largest = maximum(largest, t)
    largest = stop_gradient(largest)
    total = exp(terms[0] - largest)
    for t in terms[1:]:
        total = total + exp(t - largest)
    return log(total) + largest


def row(x: Tensor) -> Tensor:
    """`x` with a new first axis."""
    return expand_dims(x, axes=(0,))


def column(x: Tensor) -> Tensor:
    """`x` with a new second axis."""
    return expand_dims(x, axes=(1,))
