"""Lowerings: element by element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from backplane.core.numbers import complaint, show
from backplane.core.spec import Spec, bits, is_float
from backplane.engines.mlx import wide
from backplane.engines.mlx.values import MLX, to_numpy
from backplane.engines.table import Lowering, Table, Value, check_windows

TABLE = Table.like_numpy(
    mx,
    floor=mx.floor,
    round=mx.round,
    where=mx.where,
    stop_gradient=mx.stop_gradient,
    barrier=lambda x, *after: mx.depends([x], list(after))[0],
    check_windows=check_windows,
    # A maximum, of which 0 wins a tie on MLX's tape: the slope at 0 is 0.
    relu=lambda x: mx.maximum(x, 0),
    relu_grad=lambda g, y: masked(g, y > 0),
)


def _by_width(name: str, narrow: Lowering, for_float64: Lowering) -> None:
    """Register a function that MLX computes in float32 whatever its operand."""

    def build(specs: Sequence[Spec]) -> Lowering:
        return for_float64 if specs[0].dtype == "float64" else narrow

    TABLE.build(name)(build)


_by_width("exp", mx.exp, wide.exp)
_by_width("sin", mx.sin, wide.sin)
_by_width("cos", mx.cos, wide.cos)
_by_width("sigmoid", mx.sigmoid, wide.sigmoid)
TABLE.add("atan2", unless=wide.is_wide)(mx.arctan2)
TABLE.add("erfinv", unless=wide.is_wide)(mx.erfinv)
# `mx.erf` has no digits near 0 (it is 0 at 1e-8, and 4e-4 off at 1e-4): decomposed.


@TABLE.add("softplus", unless=wide.is_wide)
def softplus(x: Value) -> Value:
    """`mx.logaddexp`, which is stable."""
    return mx.logaddexp(x, 0)


@TABLE.build("sign")
def sign(specs: Sequence[Spec]) -> Lowering:
    """`mx.sign`, except that NaN stays NaN, where `mx.sign` gives 0."""
    if is_float(specs[0].dtype):
        return lambda x: mx.where(mx.isnan(x), x, mx.sign(x))
    return mx.sign


# --- masks ----------------------------------------------------------------------------------------

LARGE = 16384
"""The number of elements from which on a mask is applied to the bits of the elements."""

BITS = {1: mx.int8, 2: mx.int16, 4: mx.int32, 8: mx.int64}


def masked(x: Value, condition: Value) -> Value:
    """`x` where the condition holds, else 0, whatever `x` is there.

    `mx.where` is not vectorized on a processor: for a million elements it takes four times as long
    as the three operations on bits.
    """
    if x.size < LARGE:
        return mx.where(condition, x, mx.zeros((), x.dtype))
    return _masked_bits(x, condition)


@mx.custom_function
def _masked_bits(x: Value, condition: Value) -> Value:
    kind = BITS[x.dtype.size]
    return (x.view(kind) & -condition.astype(kind)).view(x.dtype)


@_masked_bits.vjp
def _(operands: tuple[Value, Value], g: Value, y: Value) -> tuple[Value, Value]:
    """MLX's tape does not look through bits."""
    _, condition = operands
    return masked(g, condition), mx.zeros_like(condition)


# --- division of integers -------------------------------------------------------------------------


def _quotient(name: str, of_floats: Lowering, of_ints: Lowering) -> None:
    """Register a division. In MLX, a division of integers by 0, or of the least integer by -1, ends
    the process. So the divisor is replaced by 1 there, and the result by NumPy's.
    """

    def build(specs: Sequence[Spec]) -> Lowering:
        spec = specs[0]
        if is_float(spec.dtype):
            return of_floats
        signed = not spec.dtype.startswith("u")

        def lowering(x: Value, y: Value) -> Value:
            unsafe = (y == 0) | (y == -1) if signed else y == 0
            quotient = of_ints(x, mx.where(unsafe, mx.ones_like(y), y))
            zeros = mx.zeros_like(quotient)
            if name == "mod":
                return mx.where(unsafe, zeros, quotient)
            return mx.where(y == 0, zeros, mx.where(unsafe, -x, quotient) if signed else quotient)

        return lowering

    TABLE.build(name)(build)


def _floor_divide(x: Value, y: Value) -> Value:
    """The quotient without the remainder: 1 // 0.1 is 9, although 1 / 0.1 is rounded to 10."""
    whole = mx.round((x - mx.remainder(x, y)) / y)
    below = mx.minimum(mx.sign(x) * mx.sign(y), 0) + 0 * x  # NaN if x is infinite
    return mx.where(y == 0, x / y, mx.where(mx.isinf(y), below, whole))


_quotient("floordiv", _floor_divide, mx.floor_divide)
_quotient("mod", mx.remainder, mx.remainder)


# --- the rest -------------------------------------------------------------------------------------


@TABLE.build("cast")
def cast(specs: Sequence[Spec], *, dtype: str) -> Lowering:
    """`array.astype`."""
    target = MLX[dtype]
    return lambda x: x.astype(target)


@TABLE.build("bitcast")
def bitcast(specs: Sequence[Spec], *, dtype: str) -> Lowering:
    """`array.view`, which multiplies or divides the size of the last axis."""
    old, new, target = bits(specs[0].dtype), bits(dtype), MLX[dtype]
    if old == new:
        return lambda x: x.view(target) if x.ndim else x[None].view(target)[0]
    if old > new:
        return lambda x: x[..., None].view(target)
    return lambda x: mx.squeeze(x.view(target), -1)


@TABLE.add("identity")
def identity(x: Value) -> Value:
    """Another object for the same value: `x[0] = 1` changes the object in Python's hands."""
    return mx.reshape(x, x.shape)


@TABLE.add("print")
def print_(x: Value, *, message: str, style: tuple[Any, ...]) -> Value:
    """Print when the program runs. `mx.compile` does not allow that."""
    show(to_numpy(x), message, style)
    return identity(x)


@TABLE.add("check_numerics")
def check_numerics(x: Value, *, message: str) -> Value:
    """Look at `x` when the program runs. `mx.compile` does not allow that."""
    has_nan, has_inf = mx.any(mx.isnan(x)).item(), mx.any(mx.isinf(x)).item()
    if has_nan or has_inf:
        raise complaint(message, has_nan, has_inf)
    return identity(x)
