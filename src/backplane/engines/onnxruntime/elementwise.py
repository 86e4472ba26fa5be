"""Element-wise operations.

ONNX Runtime has no kernel for every dtype that ONNX allows. Where one is missing the operands are
cast to a wider dtype that has it: integers wrap around alike there, and halves are computed in
float32 by ONNX Runtime itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import numpy as np

from backplane.core.spec import UNSIGNED, is_float
from backplane.engines.onnxruntime.builder import Symbol, current_scope, ints, node, number
from backplane.engines.table import Table, in_wider

Function = Callable[..., Symbol]

_NODES = {
    "abs": "Abs", "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "sin": "Sin", "cos": "Cos",
    "tanh": "Tanh", "add": "Add", "mul": "Mul", "div": "Div", "equal": "Equal",
    "logical_not": "Not", "logical_and": "And", "logical_or": "Or", "bit_and": "BitwiseAnd",
    "bit_or": "BitwiseOr", "bit_xor": "BitwiseXor", "less": "Less", "less_equal": "LessOrEqual",
}  # fmt: skip
"""Primitives that are one operation of ONNX, and its name."""

TABLE = Table(
    **{name: partial(node, op) for name, op in _NODES.items()},
    cast=Symbol.cast,
    identity=lambda x: x,
    stop_gradient=lambda x: x,
    # -x; unsigned integers wrap around.
    neg=lambda x: node("Sub", number(0, x.dtype), x) if x.dtype in UNSIGNED else node("Neg", x),
    not_equal=lambda x, y: node("Not", node("Equal", x, y)),
    shift_left=lambda x, y: _shifted(x, y, "LEFT"),
)


def through(wider: dict[str, str]) -> Callable[[Function], Function]:
    """Decorator: a lowering that computes some dtypes in others and casts the result back."""
    return partial(in_wider, Symbol.cast, wider)


@TABLE.add("sign")
@through({"float16": "float32"})
def sign(x: Symbol) -> Symbol:
    """-1, 0 or 1. In float16 the kernel gives 0 for NaN. In int64 it errs as `Max` does."""
    if x.dtype != "int64":
        return node("Sign", x)
    zero = number(0, "int64")
    return node("Sub", node("Less", zero, x).cast("int64"), node("Less", x, zero).cast("int64"))


WITHOUT_16_BITS = {"int16": "int32", "uint16": "int32"}
TO_INT32 = dict.fromkeys(("uint8", "uint16", "int8", "int16"), "int32")
TO_INT64 = dict.fromkeys(("uint8", "uint16", "uint32", "uint64", "int8", "int16"), "int64")
SIGN_BIT = 1 << 63
_COMPARED = {"bool": "uint8", "uint16": "int32", "int16": "int32", "uint32": "int64"}


def comparable(x: Symbol) -> Symbol:
    """`x` in a dtype that has kernels which compare, in the same order."""
    if x.dtype == "uint64":
        return node("BitwiseXor", x, number(SIGN_BIT, "uint64")).cast("int64")
    return x.cast(_COMPARED.get(x.dtype, x.dtype))


def restored(y: Symbol, dtype: str) -> Symbol:
    """The inverse of `comparable`, for elements of what it gave."""
    if dtype == "uint64":
        return node("BitwiseXor", y.cast("uint64"), number(SIGN_BIT, "uint64"))
    return y.cast(dtype)


# --- one operand ---------------------------------------------------------------------------------


def _rounded(op: str, x: Symbol) -> Symbol:
    return node(op, x) if is_float(x.dtype) else x


TABLE.update(Table(floor=partial(_rounded, "Floor"), round=partial(_rounded, "Round")))


@TABLE.add("sigmoid")
@through({"float16": "float32"})
def sigmoid(x: Symbol) -> Symbol:
    """1 / (1 + exp(-x)).

    The library's kernel is faster, but its absolute error of 5e-8 is a sixth of the value at -15,
    and it gives exactly 0 below -18. A logarithm that follows would be infinite.
    """
    return node("Reciprocal", node("Add", number(1, x.dtype), node("Exp", node("Neg", x))))


@TABLE.add("expm1")
@through({"float16": "float32"})
def expm1(x: Symbol) -> Symbol:
    """Kahan's way: near 0, what u = exp(x) was rounded by cancels in (u - 1) / log(u)."""
    u = node("Exp", x)
    y = node("Sub", u, number(1, x.dtype))
    return _kahan(x, u, y, node("Div", node("Mul", y, x), node("Log", u)))


@TABLE.add("log1p")
@through({"float16": "float32"})
def log1p(x: Symbol) -> Symbol:
    """Kahan's way, as `expm1`."""
    u = node("Add", x, number(1, x.dtype))
    y = node("Log", u)
    return _kahan(x, u, y, node("Div", node("Mul", y, x), node("Sub", u, number(1, x.dtype))))


def _kahan(x: Symbol, u: Symbol, far: Symbol, near: Symbol) -> Symbol:
    """`far`; where |x| < 1 `near`; and where u was rounded to 1 `x` itself."""
    one = number(1, x.dtype)
    y = where(node("Less", node("Abs", x), one), near, far)
    return where(node("Equal", u, one), x, y)


@TABLE.add("erf", unless=lambda specs: specs[0].dtype == "float64")
def erf(x: Symbol) -> Symbol:
    """The error function; there is no kernel for float64."""
    return node("Erf", x)


@TABLE.add("barrier")
def barrier(x: Symbol, *after: Symbol) -> Symbol:
    """A choice between `x` and `x` by the sizes of `after`, which no optimizer looks through."""
    for y in after:
        known = node("GreaterOrEqual", node("Size", y), number(0, "int64"))
        x = node("Where", known, x, x)
    return x


@TABLE.add("print")
def print_(x: Symbol, *, message: str, style: tuple[Any, ...]) -> Symbol:
    """`x`, printed when the session has run: ONNX has no operation with an effect."""
    scope = current_scope()
    if scope.parent is not None:
        raise NotImplementedError(
            "the engine 'cntk' prints after a program has run, and not inside a loop or branch"
        )
    scope.printed.append(((message, style), x))
    return x


@TABLE.add("check_numerics")
def check_numerics(x: Symbol, *, message: str) -> Symbol:
    """ONNX has no operation that refuses numbers. But an index out of range stops a session, also
    inside a loop: the index is 0 if all is well, else it says what is wrong (`bad_numbers`).
    """
    wide = x.cast("float32") if x.dtype == "float16" else x
    index = number(0, "int64")
    for bit, kind in enumerate(("IsNaN", "IsInf"), 1):
        count = node(
            "ReduceSum", node(kind, wide, dtype="bool").cast("int64"), keepdims=0, shape=()
        )
        bad = count.cast("bool").cast("int64")
        index = node("Add", index, node("Mul", bad, number(bit, "int64")))
    nothing = node("Gather", ints(0), index, axis=0, shape=())
    shape = node("Shape", x, dtype="int64", shape=(x.rank,))
    return node("Reshape", x, node("Add", shape, nothing), shape=x.shape, allowzero=1)


# --- two operands --------------------------------------------------------------------------------


@TABLE.add("sub")
def sub(x: Symbol, y: Symbol) -> Symbol:
    """The difference. A constant `y` is negated and added: ONNX Runtime joins sums."""
    if is_float(x.dtype) and y.array is None and current_scope().is_constant(y.name):
        return node("Add", x, node("Neg", y))
    return node("Sub", x, y)


@TABLE.add("minimum")
@through(WITHOUT_16_BITS)
def minimum(x: Symbol, y: Symbol) -> Symbol:
    """The smaller one; NaN if one is. Where weights are constants, and only there, ONNX Runtime
    joins the bounds of a rectifier with the convolution before.
    """
    for a, b in ((x, y), (y, x)):
        rectified: Symbol | None = current_scope().find(("rectified", a.name))
        scalar = b.array is not None and b.array.ndim == 0 and b.array >= 0
        if rectified is not None and scalar and current_scope().root.frozen:
            return node("Clip", rectified, number(0, x.dtype), b)
    return where(node("Less", x, y), x, y) if x.dtype == "int64" else node("Min", x, y)


@TABLE.add("maximum")
@through(WITHOUT_16_BITS)
def maximum(x: Symbol, y: Symbol) -> Symbol:
    """The larger one; NaN if one is. `Relu` may overwrite its operand: 0.09 ms, not 0.18.

    ONNX Runtime 1.31 has wrong extremes of int64 beyond 32 bits: of 7 and 2³¹ the larger one is 7.
    It compares them right.
    """
    if is_float(x.dtype) and y.array is not None and y.array.ndim == 0 and y.array == 0:
        y = node("Relu", x)
        current_scope().note(("rectified", y.name), x)
        return y
    return where(node("Less", x, y), y, x) if x.dtype == "int64" else node("Max", x, y)


TABLE.add("relu")(lambda x: maximum(x, number(0, x.dtype)))


@TABLE.add("pow")
@through(TO_INT64)
def pow_(x: Symbol, y: Symbol) -> Symbol:
    """`x` to the power of `y`. Integers go through float64, but for small known powers."""
    if not is_float(x.dtype) and y.array is not None and y.array.ndim == 0 and 0 < y.array < 5:
        return reduce(partial(node, "Mul"), [x] * int(y.array))
    return node("Pow", x, y)


@TABLE.add("mod")
def mod(x: Symbol, y: Symbol) -> Symbol:
    """The remainder with the sign of `y`."""
    if is_float(x.dtype):
        rest, moved = _float_rest(x, y)
        return where(moved, node("Add", rest, y), rest)
    divisor, fine = _divisor(y)
    rest = node("Mod", x, divisor)
    return rest if fine is None else where(fine, rest, number(0, x.dtype))


@TABLE.add("floordiv")
def floordiv(x: Symbol, y: Symbol) -> Symbol:
    """The quotient that goes with `mod`."""
    if is_float(x.dtype):
        return _float_floordiv(x, y)
    divisor, fine = _divisor(y)
    quotient = node("Div", x, divisor)
    if x.dtype not in UNSIGNED:
        # It is cut toward 0: one less where the signs differ and something remains.
        zero = number(0, x.dtype)
        negative = [node("Less", v, zero) for v in (x, divisor)]
        exact = node("Equal", node("Mod", x, divisor), zero)
        moved = node("And", node("Xor", *negative), node("Not", exact))
        quotient = node("Sub", quotient, moved.cast(x.dtype))
    if fine is None:
        return quotient
    zero = number(0, x.dtype)
    if x.dtype not in UNSIGNED:
        minus = node("Equal", y, number(-1, x.dtype))
        zero = where(minus, node("Sub", zero, x), zero)
    return where(fine, quotient, zero)


def _divisor(y: Symbol) -> tuple[Symbol, Symbol | None]:
    """`y` without the divisors that may crash the process, and where `y` is none of them, or None
    if it never is one. These divisors are 0, and -1, because the least number divided by -1 does
    not exist.
    """
    if y.array is not None and not np.isin(y.array, (0, -1)).any():
        return y, None
    bad = node("Equal", y, number(0, y.dtype))
    if y.dtype not in UNSIGNED:
        bad = node("Or", bad, node("Equal", y, number(-1, y.dtype)))
    fine = node("Not", bad)
    return where(fine, y, number(1, y.dtype)), fine


def _float_rest(x: Symbol, y: Symbol) -> tuple[Symbol, Symbol]:
    """The remainder with the sign of `x`, and a mask of where that differs from the sign of `y`."""
    zero = number(0, x.dtype)
    rest = node("Mod", x, y, fmod=1)
    negative = [node("Less", v, zero) for v in (rest, y)]
    some = node("Not", node("Equal", rest, zero))
    return rest, node("And", node("Xor", *negative), some)


def _float_floordiv(x: Symbol, y: Symbol) -> Symbol:
    rest, moved = _float_rest(x, y)
    whole = node("Round", node("Div", node("Sub", x, rest), y))
    whole = node("Sub", whole, moved.cast(x.dtype))
    by_zero = node("Equal", y, number(0, x.dtype))
    return where(by_zero, node("Div", x, y), whole)


@TABLE.add("where")
def where(c: Symbol, x: Symbol, y: Symbol) -> Symbol:
    """`x` where `c`, else `y`."""
    if x.dtype == "bool":
        return node("Or", node("And", c, x), node("And", node("Not", c), y))
    dtype = x.dtype
    wide = {"int16": "int32", "uint16": "int32", "uint64": "int64"}.get(dtype, dtype)
    return node("Where", c, x.cast(wide), y.cast(wide)).cast(dtype)


# --- shifts: ONNX has them for unsigned integers only --------------------------------------------


def _shifted(x: Symbol, y: Symbol, direction: str) -> Symbol:
    wide = "uint64" if x.dtype in ("int64", "uint64") else "uint32"
    return node("BitShift", x.cast(wide), y.cast(wide), direction=direction).cast(x.dtype)


@TABLE.add("shift_right")
def shift_right(x: Symbol, y: Symbol) -> Symbol:
    """`x` shifted by `y` bits to the right; the sign is kept."""
    if x.dtype in UNSIGNED:
        return _shifted(x, y, "RIGHT")
    # The bits of a negative number are those of a number that is not, inverted.
    mask = node("Sub", number(0, x.dtype), node("Less", x, number(0, x.dtype)).cast(x.dtype))
    return node("BitwiseXor", _shifted(node("BitwiseXor", x, mask), y, "RIGHT"), mask)
