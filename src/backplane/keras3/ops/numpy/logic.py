"""Comparisons, truth, and what kind of number an element is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

from backplane.core.graph import Tensor
from backplane.keras3.call import op
from backplane.keras3.operands import tensor_of
from backplane.keras3.ops.numpy.operands import (
    Function,
    alike,
    cast_all,
    common_type,
    compared,
    flat,
    floats,
    is_floating,
    like,
    reduced,
    tensors,
    truth,
)
from backplane.ops import elementary as el
from backplane.ops import elementwise as ew
from backplane.ops import reduction as red
from backplane.ops.lift import cast_to
from backplane.ops.shaping import expand_dims, full_like

__all__ = [
    "all", "allclose", "any", "equal", "greater", "greater_equal", "isclose", "isfinite", "isin",
    "isinf", "isnan", "isneginf", "isposinf", "isreal", "less", "less_equal", "logical_and",
    "logical_not", "logical_or", "logical_xor", "not_equal", "select",
]  # fmt: skip


# --- comparisons ----------------------------------------------------------------------------------


@op(exact=True)
def equal(x1: Any, x2: Any) -> Tensor:
    """Whether two elements are equal."""
    return ew.equal(*compared(x1, x2))


@op(exact=True)
def not_equal(x1: Any, x2: Any) -> Tensor:
    """Whether two elements differ."""
    return ew.not_equal(*compared(x1, x2))


def _ordered(x1: Any, x2: Any) -> list[Tensor]:
    """Two operands that have an order: bools become 0 and 1."""
    operands = compared(x1, x2)
    bools = operands[0].spec.dtype == "bool"
    return [cast_to(t, "int32") for t in operands] if bools else operands


@op(exact=True)
def less(x1: Any, x2: Any) -> Tensor:
    """Whether the first of two elements is smaller."""
    return ew.less(*_ordered(x1, x2))


@op(exact=True)
def less_equal(x1: Any, x2: Any) -> Tensor:
    """Whether the first of two elements is smaller, or they are equal."""
    return ew.less_equal(*_ordered(x1, x2))


@op(exact=True)
def greater(x1: Any, x2: Any) -> Tensor:
    """Whether the first of two elements is larger."""
    return less(x2, x1)


@op(exact=True)
def greater_equal(x1: Any, x2: Any) -> Tensor:
    """Whether the first of two elements is larger, or they are equal."""
    return less_equal(x2, x1)


@op
def isclose(
    x1: Any, x2: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    """Whether two elements differ by `atol` + `rtol` · |x2| at most."""
    a, b = floats(x1, x2)
    same = ew.equal(a, b)
    infinite = ew.logical_or(el.is_infinite(a), el.is_infinite(b))
    bound = ew.add(like(atol, a), ew.mul(like(rtol, a), ew.abs(b)))
    near = ew.less_equal(ew.abs(ew.sub(a, b)), bound)
    found = ew.logical_or(same, ew.logical_and(near, ew.logical_not(infinite)))
    if not equal_nan:
        return found
    return ew.logical_or(found, ew.logical_and(el.is_nan(a), el.is_nan(b)))


@op
def allclose(
    x1: Any, x2: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    """Whether all elements are close, as `isclose` says."""
    return all(isclose(x1, x2, rtol, atol, equal_nan))


@op(exact=True)
def isin(x1: Any, x2: Any, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Whether each element of the first tensor is anywhere in the second one; if `invert`, whether
    it is not.
    """
    a, b = compared(x1, x2)
    # One axis more, along which the elements of the second one lie.
    hits = ew.equal(expand_dims(a, axes=(a.ndim,)), flat(b))
    found = red.any(hits, axes=(a.ndim,), keepdims=False)
    return ew.logical_not(found) if invert else found


# --- truth ----------------------------------------------------------------------------------------


@op
def logical_and(x1: Any, x2: Any) -> Tensor:
    """Whether both elements are true."""
    return ew.logical_and(truth(x1), truth(x2))


@op
def logical_or(x1: Any, x2: Any) -> Tensor:
    """Whether at least one of two elements is true."""
    return ew.logical_or(truth(x1), truth(x2))


@op
def logical_xor(x1: Any, x2: Any) -> Tensor:
    """Whether exactly one of two elements is true."""
    return ew.not_equal(truth(x1), truth(x2))


@op
def logical_not(x: Any) -> Tensor:
    """Whether an element is false."""
    return ew.logical_not(truth(x))


@op
def any(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Whether any element along `axis` is true."""
    return reduced(red.any, truth(x), axis, keepdims)


@op
def all(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Whether all elements along `axis` are true."""
    return reduced(red.all, truth(x), axis, keepdims)


# --- kinds of numbers -----------------------------------------------------------------------------


def _kind(x: Any, test: Function, of_integers: bool = False) -> Tensor:
    """The result of a test of floats; all integers have the same one."""
    x = tensor_of(x)
    return test(x) if is_floating(x) else full_like(x, of_integers, "bool")


@op
def isnan(x: Any) -> Tensor:
    """Whether an element is no number."""
    return _kind(x, el.is_nan)


@op
def isinf(x: Any) -> Tensor:
    """Whether an element is infinite."""
    return _kind(x, el.is_infinite)


@op
def isposinf(x: Any) -> Tensor:
    """Whether an element is plus infinity."""
    return _kind(x, lambda x: ew.equal(x, like(math.inf, x)))


@op
def isneginf(x: Any) -> Tensor:
    """Whether an element is minus infinity."""
    return _kind(x, lambda x: ew.equal(x, like(-math.inf, x)))


@op
def isfinite(x: Any) -> Tensor:
    """Whether an element is a number and not infinite."""
    return _kind(x, el.is_finite, of_integers=True)


@op
def isreal(x: Any) -> Tensor:
    """Whether an element has no imaginary part: all are real."""
    return full_like(tensor_of(x), True, "bool")


# --- choice ---------------------------------------------------------------------------------------


def chosen(condition: Any, x1: Any, x2: Any) -> Tensor:
    """The element of the first tensor where the condition holds, or else of the second one."""
    return ew.where(truth(condition), *alike(x1, x2))


@op
def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Tensor:
    """For each element that choice whose condition is the first one that holds.

    Raises:
        ValueError: if there are no conditions, or not as many choices.
    """
    if len(condlist) != len(choicelist) or not condlist:
        raise ValueError(
            "select: condlist and choicelist must have the same length, at least 1, got "
            f"{len(condlist)} and {len(choicelist)}"
        )
    given = tensors(default, *choicelist)
    default, *choices = cast_all(common_type(*given), *given)
    pairs = list(zip(condlist, choices, strict=True))
    return reduce(lambda rest, pair: ew.where(truth(pair[0]), pair[1], rest), pairs[::-1], default)
