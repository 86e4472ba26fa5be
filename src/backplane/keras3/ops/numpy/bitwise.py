"""Functions of the bits of whole numbers."""

from __future__ import annotations

from typing import Any

from backplane.core.graph import Tensor
from backplane.core.spec import bits
from backplane.keras3.call import op
from backplane.keras3.operands import tensor_of
from backplane.keras3.ops.numpy.operands import Function, alike, cast_all, common_type
from backplane.ops import elementary as el
from backplane.ops import elementwise as ew
from backplane.ops import operators
from backplane.ops.lift import cast_to

__all__ = [
    "bitwise_and", "bitwise_invert", "bitwise_left_shift", "bitwise_not", "bitwise_or",
    "bitwise_right_shift", "bitwise_xor", "left_shift", "right_shift",
]  # fmt: skip


def _of_two(x: Any, y: Any, numbers: Function, bools: Function) -> Tensor:
    a, b = tensor_of(x), tensor_of(y)
    dtype = common_type(a, b)
    # Keras narrows 64 bits to 32. Narrowed operands make XLA's compiler for processors crash, and
    # the low bits of the result are the same if it is narrowed itself.
    wider = max((a.spec.dtype, b.spec.dtype, dtype), key=bits)
    a, b = cast_all(wider if bits(wider) > bits(dtype) else dtype, a, b)
    return cast_to(bools(a, b) if dtype == "bool" else numbers(a, b), dtype)


@op
def bitwise_and(x: Any, y: Any) -> Tensor:
    """The bits that are set in both operands."""
    return _of_two(x, y, ew.bit_and, ew.logical_and)


@op
def bitwise_or(x: Any, y: Any) -> Tensor:
    """The bits that are set in at least one operand."""
    return _of_two(x, y, ew.bit_or, ew.logical_or)


@op
def bitwise_xor(x: Any, y: Any) -> Tensor:
    """The bits that are set in exactly one operand."""
    return _of_two(x, y, ew.bit_xor, ew.not_equal)


@op
def bitwise_not(x: Any) -> Tensor:
    """The bits that are not set; of bools, whether they are false."""
    return operators.invert(tensor_of(x))


@op
def bitwise_invert(x: Any) -> Tensor:
    """The bits that are not set; of bools, whether they are false."""
    return bitwise_not(x)


def _shifted(shift: ew.Op, x: Any, y: Any) -> Tensor:
    """`x` moved by `y` places. A Python number does not widen `x`, and bools become int32."""
    a, b = alike(tensor_of(x), y)
    if a.spec.dtype == "bool":
        a, b = (cast_to(t, "int32") for t in (a, b))
    return el.shifted(shift, a, b)


@op
def bitwise_left_shift(x: Any, y: Any) -> Tensor:
    """The bits of `x`, moved up by `y` places."""
    return _shifted(ew.shift_left, x, y)


@op
def left_shift(x: Any, y: Any) -> Tensor:
    """The bits of `x`, moved up by `y` places."""
    return _shifted(ew.shift_left, x, y)


@op
def bitwise_right_shift(x: Any, y: Any) -> Tensor:
    """The bits of `x`, moved down by `y` places; a negative number stays negative."""
    return _shifted(ew.shift_right, x, y)


@op
def right_shift(x: Any, y: Any) -> Tensor:
    """The bits of `x`, moved down by `y` places; a negative number stays negative."""
    return _shifted(ew.shift_right, x, y)
