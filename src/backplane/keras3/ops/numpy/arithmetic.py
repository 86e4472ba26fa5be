"""Arithmetic of two operands, and powers."""

from __future__ import annotations

import math
from typing import Any

from backplane.core.graph import Tensor
from backplane.core.spec import INTEGER, check_dtype
from backplane.keras3.call import op
from backplane.keras3.operands import tensor_of
from backplane.keras3.ops.numpy.operands import (
    Function,
    alike,
    common_type,
    float_of,
    floats,
    integers_or_floats,
    is_floating,
    like,
)
from backplane.ops import elementary as el
from backplane.ops import elementwise as ew
from backplane.ops import operators
from backplane.ops.control import while_loop
from backplane.ops.lift import cast_to
from backplane.ops.reduction import any as any_of
from backplane.ops.shaping import broadcast_like, zeros_like

__all__ = [
    "abs", "absolute", "add", "divide", "divide_no_nan", "fabs", "floor_divide", "fmax", "fmin",
    "fmod", "gcd", "heaviside", "hypot", "lcm", "ldexp", "logaddexp", "logaddexp2", "maximum",
    "minimum", "mod", "multiply", "negative", "power", "reciprocal", "sign", "square", "subtract",
    "true_divide",
]  # fmt: skip


def _or_bools(x1: Any, x2: Any, numbers: Function, bools: Function) -> Tensor:
    """The result of one function on numbers, and of another one on bools."""
    a, b = alike(x1, x2)
    return bools(a, b) if a.spec.dtype == "bool" else numbers(a, b)


@op
def add(x1: Any, x2: Any) -> Tensor:
    """The sum of two tensors; of bools, whether one of them is true."""
    return _or_bools(x1, x2, ew.add, ew.logical_or)


@op
def subtract(x1: Any, x2: Any) -> Tensor:
    """The difference of two tensors."""
    a, b = alike(x1, x2)
    return ew.sub(a, b)


@op
def multiply(x1: Any, x2: Any) -> Tensor:
    """The product of two tensors, element by element; of bools, whether both are true."""
    return _or_bools(x1, x2, ew.mul, ew.logical_and)


@op
def divide(x1: Any, x2: Any) -> Tensor:
    """The quotient of two tensors, as floats."""
    a, b = floats(x1, x2)
    return ew.div(a, b)


@op
def true_divide(x1: Any, x2: Any) -> Tensor:
    """The quotient of two tensors, as floats."""
    return divide(x1, x2)


@op
def divide_no_nan(x1: Any, x2: Any) -> Tensor:
    """The quotient of two tensors, but 0 where the divisor is 0."""
    a, b = floats(x1, x2)
    none = ew.equal(b, ew.zero(b))
    return ew.where(none, ew.zero(a), ew.div(a, ew.where(none, ew.one(b), b)))


@op
def floor_divide(x1: Any, x2: Any) -> Tensor:
    """The quotient of two tensors, rounded toward minus infinity."""
    a, b = _numbers(x1, x2)
    return _divided(ew.floordiv, a, b)


def _numbers(x1: Any, x2: Any) -> list[Tensor]:
    return [integers_or_floats(t) for t in alike(x1, x2)]


def _divided(division: Function, a: Tensor, b: Tensor) -> Tensor:
    """A division of numbers. Of integers by 0 it is 0, as in NumPy: some libraries refuse that, and
    others give anything.
    """
    if is_floating(a):
        return division(a, b)
    none = ew.equal(b, ew.zero(b))
    return ew.where(none, ew.zero(a), division(a, ew.where(none, ew.one(b), b)))


@op
def mod(x1: Any, x2: Any) -> Tensor:
    """The remainder of `floor_divide`; it has the sign of the divisor."""
    a, b = _numbers(x1, x2)
    return _divided(ew.mod, a, b)


@op
def fmod(x1: Any, x2: Any) -> Tensor:
    """The remainder of a division that rounds toward 0; it has the sign of the dividend."""
    a, b = _numbers(x1, x2)
    return ew.mul(ew.sign(a), _divided(ew.mod, absolute(a), absolute(b)))


@op
def power(x1: Any, x2: Any) -> Tensor:
    """The first tensor to the power of the second one."""
    a, b = alike(x1, x2)
    if a.spec.dtype == "bool":
        a, b = (cast_to(t, "int32") for t in (a, b))
    return operators.power(a, b, "power")


@op
def square(x: Any) -> Tensor:
    """The square of each element."""
    x = integers_or_floats(x)
    return ew.mul(x, x)


@op
def reciprocal(x: Any) -> Tensor:
    """The quotient of 1 and each element, as floats."""
    x = float_of(x)
    return ew.div(ew.one(x), x)


@op
def negative(x: Any) -> Tensor:
    """Each element with the other sign."""
    return ew.neg(tensor_of(x))


@op
def absolute(x: Any) -> Tensor:
    """Each element without its sign."""
    x = tensor_of(x)
    unsigned = x.spec.dtype == "bool" or x.spec.dtype.startswith("u")
    return x if unsigned else ew.abs(x)


@op
def abs(x: Any) -> Tensor:
    """Each element without its sign."""
    return absolute(x)


@op
def fabs(x: Any) -> Tensor:
    """Each element without its sign, as floats."""
    return ew.abs(float_of(x))


@op
def sign(x: Any) -> Tensor:
    """The sign of each element: -1, 0 or 1."""
    x = tensor_of(x)
    return x if x.spec.dtype == "bool" else ew.sign(x)


@op
def maximum(x1: Any, x2: Any) -> Tensor:
    """The larger of two elements; NaN if one of them is NaN."""
    return _or_bools(x1, x2, ew.maximum, ew.logical_or)


@op
def minimum(x1: Any, x2: Any) -> Tensor:
    """The smaller of two elements; NaN if one of them is NaN."""
    return _or_bools(x1, x2, ew.minimum, ew.logical_and)


def _numbers_first(chosen: Function) -> Function:
    """`chosen`, but a number beats a NaN."""

    def function(a: Tensor, b: Tensor) -> Tensor:
        if not is_floating(a):
            return chosen(a, b)
        return ew.where(el.is_nan(a), b, ew.where(el.is_nan(b), a, chosen(a, b)))

    return function


@op
def fmax(x1: Any, x2: Any) -> Tensor:
    """The larger of two elements; if one is NaN, the other one."""
    return _or_bools(x1, x2, _numbers_first(ew.maximum), ew.logical_or)


@op
def fmin(x1: Any, x2: Any) -> Tensor:
    """The smaller of two elements; if one is NaN, the other one."""
    return _or_bools(x1, x2, _numbers_first(ew.minimum), ew.logical_and)


@op
def heaviside(x1: Any, x2: Any) -> Tensor:
    """The step function: 0 for negative numbers, 1 for positive ones, the second operand at 0."""
    a, b = floats(x1, x2)
    step = ew.where(ew.less(ew.zero(a), a), ew.one(a), ew.where(el.is_nan(a), a, ew.zero(a)))
    return ew.where(ew.equal(a, ew.zero(a)), b, step)


@op
def hypot(x1: Any, x2: Any) -> Tensor:
    """The length of the vector that has two elements as its components, without overflow."""
    return el.hypot(*floats(x1, x2))


@op
def logaddexp(x1: Any, x2: Any) -> Tensor:
    """log(exp(x1) + exp(x2)), without overflow."""
    return el.log_of_sum(math.e, *floats(x1, x2))


@op
def logaddexp2(x1: Any, x2: Any) -> Tensor:
    """The binary logarithm of 2 ** x1 + 2 ** x2, without overflow."""
    return el.log_of_sum(2.0, *floats(x1, x2))


@op
def ldexp(x1: Any, x2: Any) -> Tensor:
    """x1 · 2 ** x2 for integers x2.

    Raises:
        TypeError: if `x2` does not hold integers.
    """
    a, b = (tensor_of(x) for x in (x1, x2))
    if b.spec.dtype not in INTEGER:
        raise TypeError(
            f"ldexp exponent must be an integer type. Received: x2 dtype={b.spec.dtype}"
        )
    dtype = common_type(a, b, also=[float])
    # In two steps: 2 ** x2 alone may be infinite, or 0, where the result is not.
    half = ew.shift_right(b, like(1, b))
    first, second = (cast_to(n, dtype) for n in (half, ew.sub(b, half)))
    two = like(2, first)
    return ew.mul(ew.mul(cast_to(a, dtype), ew.pow(two, first)), ew.pow(two, second))


# --- whole numbers --------------------------------------------------------------------------------


def _whole(name: str, x1: Any, x2: Any) -> list[Tensor]:
    """Two integer operands of one shape, without signs."""
    a, b = alike(x1, x2)
    if a.spec.dtype == "bool":
        a, b = (cast_to(t, "int32") for t in (a, b))
    check_dtype(name, "x1 and x2", a.spec.dtype, INTEGER)
    whole = ew.add(a, b)
    return [broadcast_like(absolute(t), whole) for t in (a, b)]


def _divisor(a: Tensor, b: Tensor) -> Tensor:
    """The greatest common divisor, by Euclid's algorithm."""

    def left(a: Tensor, b: Tensor) -> Tensor:
        rest = ew.not_equal(b, ew.zero(b))
        return any_of(rest, axes=tuple(range(rest.ndim)), keepdims=False) if rest.ndim else rest

    def step(a: Tensor, b: Tensor) -> list[Tensor]:
        done = ew.equal(b, ew.zero(b))
        remainder = ew.mod(a, ew.where(done, ew.one(b), b))
        return [ew.where(done, a, b), ew.where(done, zeros_like(b), remainder)]

    return while_loop(left, step, [a, b])[0]


@op
def gcd(x1: Any, x2: Any) -> Tensor:
    """The greatest common divisor of two integers."""
    return _divisor(*_whole("gcd", x1, x2))


@op
def lcm(x1: Any, x2: Any) -> Tensor:
    """The least common multiple of two integers; 0 if one of them is 0."""
    a, b = _whole("lcm", x1, x2)
    divisor = _divisor(a, b)
    return ew.mul(ew.floordiv(a, ew.maximum(divisor, ew.one(divisor))), b)
