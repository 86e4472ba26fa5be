"""Sums of probabilities held as logarithms."""

from __future__ import annotations

from collections.abc import Sequence

from backplane.backend._axes import apply
from backplane.core.graph import Tensor

__all__ = ["IMPOSSIBLE", "column", "log_sum", "row"]

IMPOSSIBLE = -1e30
"""Log-probability of what cannot be. Being finite it makes no NaN of any derivative, and it is so
small that a sum of probabilities does not change by it."""


def log_sum(terms: Sequence[Tensor]) -> Tensor:
    """log(exp(a) + exp(b) + …) of finite terms. The largest is taken out first; the result does not
    depend on which number is taken out, hence no derivative does.
    """
    largest = terms[0]
    for t in terms[1:]:
        largest = apply("maximum", largest, t)
    largest = apply("stop_gradient", largest)
    total = apply("exp", terms[0] - largest)
    for t in terms[1:]:
        total = total + apply("exp", t - largest)
    return apply("log", total) + largest


def row(x: Tensor) -> Tensor:
    """`x` with a new first axis."""
    return apply("expand_dims", x, axes=(0,))


def column(x: Tensor) -> Tensor:
    """`x` with a new second axis."""
    return apply("expand_dims", x, axes=(1,))
