"""The angle of a point, from which the inverse functions of trigonometry follow."""

from __future__ import annotations

import math
from functools import partial

from backplane.core.graph import Tensor
from backplane.core.spec import FLOAT
from backplane.ops import elementwise as ew
from backplane.ops import shaping as sh
from backplane.ops.creation import like
from backplane.ops.elementwise_families import FULL, binary

atan2 = binary(
    "atan2",
    "The angle in radians, from −π to π, between the positive x-axis and the point (x, y); the "
    "first operand is y. Signs of zeros count.",
    FLOAT,
    precision=FULL,
)


def _slope(part: Tensor, y: Tensor, x: Tensor, g: Tensor) -> Tensor:
    """`part` / (x² + y²) · g, where squares do not overflow."""
    larger = ew.maximum(ew.abs(x), ew.abs(y))
    a, b = ew.div(x, larger), ew.div(y, larger)
    square = ew.mul(ew.add(ew.mul(a, a), ew.mul(b, b)), larger)
    return ew.mul_no_nan(ew.div(ew.div(part, larger), square), g)


atan2.vjps(
    lambda g, z, y, x: sh.sum_to_like(_slope(x, y, x, g), y, z),
    lambda g, z, y, x: sh.sum_to_like(ew.neg(_slope(y, y, x, g)), x, z),
)


def _is_negative(x: Tensor) -> Tensor:
    """Whether the sign is minus, that of a zero too."""
    below_zero = ew.less(ew.div(ew.one(x), x), ew.zero(x))
    return ew.logical_or(
        ew.less(x, ew.zero(x)), ew.logical_and(ew.equal(x, ew.zero(x)), below_zero)
    )


@partial(ew.in_single, atan2)
def _(y: Tensor, x: Tensor) -> Tensor:
    """The arc tangent of a quotient t from 0 to 1, by a rational approximation on |t| ≤ 0.66. A
    larger t is turned by 45 degrees before.

    Exact to 2e-16 in float64. Source: the coefficients of `atan` in S. L. Moshier's Cephes library,
    atan.c (https://www.netlib.org/cephes/).
    """
    number = partial(like, x=x)
    a, b = ew.abs(y), ew.abs(x)
    low, high = ew.minimum(a, b), ew.maximum(a, b)
    same = ew.equal(low, high)  # Two zeros or infinities have no quotient.
    quotient = ew.div(low, ew.where(ew.equal(high, ew.zero(high)), number(1), high))
    t = ew.where(same, ew.where(ew.equal(high, ew.zero(high)), high, number(1)), quotient)
    turned = ew.less(number(0.66), t)
    t = ew.where(turned, ew.div(ew.sub(t, number(1)), ew.add(t, number(1))), t)
    z = ew.mul(t, t)
    top = ew.polynomial(
        z, -8.750608600031904122785e-1, -1.615753718733365076637e1, -7.500855792314704667340e1,
        -1.228866684490136173410e2, -6.485021904942025371773e1,
    )  # fmt: skip
    bottom = ew.polynomial(
        z, 1.0, 2.485846490142306297962e1, 1.650270098316988542046e2, 4.328810604912902668951e2,
        4.853903996359136964868e2, 1.945506571482613964425e2,
    )  # fmt: skip
    angle = ew.add(t, ew.mul(t, ew.mul(z, ew.div(top, bottom))))
    angle = ew.where(turned, ew.add(number(math.pi / 4), angle), angle)
    angle = ew.where(ew.less(b, a), ew.sub(number(math.pi / 2), angle), angle)
    angle = ew.where(_is_negative(x), ew.sub(number(math.pi), angle), angle)
    return ew.where(_is_negative(y), ew.neg(angle), angle)
