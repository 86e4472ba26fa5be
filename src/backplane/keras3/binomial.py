"""Samples of the binomial distribution. The number of rounds does not grow with the counts."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from backplane.core.graph import Tensor, constant
from backplane.ops import control
from backplane.ops import elementwise as ew
from backplane.ops import shaping as sh
from backplane.ops.creation import scalar
from backplane.ops.indexing import gather
from backplane.ops.lift import cast_to

Uniform = Callable[[Tensor], Tensor]
"""From the number of a draw, an int32 scalar, to samples from (0, 1) in the shape of the result."""

F32 = "float32"
FIRST_PAIR = 1 << 20
"""The number of the first draw of `_by_transform`. `_by_jumps` needs far fewer."""

TAILS = np.array(
    [
        math.lgamma(k + 1) - (k + 0.5) * math.log(k + 1) + k + 1 - 0.5 * math.log(2 * math.pi)
        for k in range(10)
    ],
    F32,
)
"""The errors of Stirling's formula for the logarithm of k!, for the first k."""


def _f(x: float) -> Tensor:
    return scalar(x, F32)


def successes(uniform: Uniform, n: Tensor, p: Tensor) -> Tensor:
    """The number of successes among `n` trials of probability `p`, in float32.

    The rarer outcome is counted. Where fewer than 10 are expected, the distances between them are
    drawn, elsewhere the number itself.
    """
    common = ew.less(_f(0.5), p)
    rare = ew.minimum(ew.where(common, ew.sub(_f(1.0), p), p), _f(0.5))
    nothing = ew.mul(uniform(scalar(0, "int32")), _f(0.0))
    n, rare = ew.add(n, nothing), ew.add(rare, nothing)
    many = ew.less_equal(_f(10.0), ew.mul(n, rare))
    few = _by_jumps(uniform, ew.where(many, nothing, n), rare)
    found = ew.where(many, _by_transform(uniform, many, n, rare), few)
    return ew.where(common, ew.sub(n, found), found)


def any_of(condition: Tensor) -> Tensor:
    """Whether the condition holds for an element."""
    if not condition.ndim:
        return condition
    total = sh.sum(cast_to(condition, F32), axes=tuple(range(condition.ndim)), keepdims=False)
    return ew.less(_f(0.0), total)


def _by_jumps(uniform: Uniform, n: Tensor, p: Tensor) -> Tensor:
    """The distances between successes are geometric; they are added up until they pass `n`
    (Devroye, 1986, X.4.3).
    """
    never = ew.less_equal(p, _f(0.0))
    step = ew.where(never, _f(-1.0), ew.log1p(ew.neg(p)))

    def waiting(count: Tensor, tried: Tensor, found: Tensor) -> Tensor:
        return any_of(ew.less_equal(tried, n))

    def jump(count: Tensor, tried: Tensor, found: Tensor) -> list[Tensor]:
        distance = ew.add(ew.floor(ew.div(ew.log(uniform(count)), step)), _f(1.0))
        after = ew.add(tried, ew.where(never, ew.add(n, _f(1.0)), distance))
        hit = cast_to(ew.less_equal(after, n), F32)
        return [ew.add(count, scalar(1, "int32")), after, ew.add(found, hit)]

    start = sh.zeros_like(n)
    _, _, found = control.while_loop(waiting, jump, [scalar(1, "int32"), start, start])
    return found


def _by_transform(uniform: Uniform, wanted: Tensor, n: Tensor, p: Tensor) -> Tensor:
    """Rejection of transformed samples (Hörmann, 1993, algorithm BTRS): for p ≤ 0.5, where at least
    10 successes are expected. Nearly nine of ten proposals are accepted.
    """
    n, p = ew.where(wanted, n, _f(20.0)), ew.where(wanted, p, _f(0.5))
    spread = ew.sqrt(ew.mul(ew.mul(n, p), ew.sub(_f(1.0), p)))
    b = ew.add(ew.mul(spread, _f(2.53)), _f(1.15))
    a = ew.add(ew.add(ew.mul(b, _f(0.0248)), ew.mul(p, _f(0.01))), _f(-0.0873))
    centre = ew.add(ew.mul(n, p), _f(0.5))
    sure = ew.sub(_f(0.92), ew.div(_f(4.2), b))
    alpha = ew.mul(ew.add(ew.div(_f(5.1), b), _f(2.83)), spread)
    mode = ew.floor(ew.mul(ew.add(n, _f(1.0)), p))

    def waiting(count: Tensor, done: Tensor, found: Tensor) -> Tensor:
        return any_of(ew.logical_not(done))

    def propose(count: Tensor, done: Tensor, found: Tensor) -> list[Tensor]:
        after = ew.add(count, scalar(1, "int32"))
        u, v = ew.sub(uniform(count), _f(0.5)), uniform(after)
        edge = ew.sub(_f(0.5), ew.abs(u))
        width = ew.add(ew.div(a, ew.mul(edge, edge)), b)
        slope = ew.add(ew.div(ew.mul(a, _f(2.0)), edge), b)
        proposed = ew.floor(ew.add(ew.mul(slope, u), centre))
        k = ew.minimum(ew.maximum(proposed, _f(0.0)), n)
        at_once = ew.logical_and(ew.less_equal(_f(0.07), edge), ew.less_equal(v, sure))
        height = ew.log(ew.div(ew.mul(v, alpha), width))
        accepted = ew.logical_or(at_once, ew.less_equal(height, _log_share(k, mode, n, p)))
        accepted = ew.logical_and(accepted, ew.equal(k, proposed))
        new = ew.where(ew.logical_and(accepted, ew.logical_not(done)), k, found)
        return [ew.add(after, scalar(1, "int32")), ew.logical_or(done, accepted), new]

    start = [scalar(FIRST_PAIR, "int32"), ew.logical_not(wanted), sh.zeros_like(n)]
    _, _, found = control.while_loop(waiting, propose, start)
    return found


def _log_share(k: Tensor, mode: Tensor, n: Tensor, p: Tensor) -> Tensor:
    """The logarithm of the probability of `k`, less that of the most probable number."""
    half, one = _f(0.5), _f(1.0)
    odds = ew.div(p, ew.sub(one, p))
    rest, rest_of_mode = ew.sub(n, k), ew.sub(n, mode)
    at_mode = ew.log(ew.div(ew.add(mode, one), ew.mul(odds, ew.add(rest_of_mode, one))))
    at_k = ew.log(ew.div(ew.mul(odds, ew.add(rest, one)), ew.add(k, one)))
    between = ew.log1p(ew.div(ew.sub(k, mode), ew.add(rest, one)))
    parts = [
        ew.mul(ew.add(mode, half), at_mode),
        ew.mul(ew.add(n, one), between),
        ew.mul(ew.add(k, half), at_k),
        ew.add(_tail(mode), _tail(rest_of_mode)),
        ew.neg(ew.add(_tail(k), _tail(rest))),
    ]
    total = parts[0]
    for part in parts[1:]:
        total = ew.add(total, part)
    return total


def _tail(k: Tensor) -> Tensor:
    """The error of Stirling's formula for the logarithm of k!."""
    next_ = ew.add(k, _f(1.0))
    square = ew.mul(next_, next_)
    series = ew.sub(_f(1 / 360), ew.div(_f(1 / 1260), square))
    series = ew.div(ew.sub(_f(1 / 12), ew.div(series, square)), next_)
    known = cast_to(ew.minimum(k, _f(len(TAILS) - 1)), "int32")
    exact = gather(constant(TAILS), known, axis=0)
    return ew.where(ew.less(k, _f(len(TAILS))), exact, series)
