"""Families of element-wise primitives, whose members are declared in a line each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from backplane.core import shapes
from backplane.core.graph import Tensor
from backplane.core.primitive import Primitive, primitive
from backplane.core.spec import FLOAT, Spec, check_dtype
from backplane.core.traits import Memory, Precision, Stacked, broadcasting, like_first
from backplane.ops import shaping as sh

Op = Primitive[Tensor]
FULL, BOUNDS = Precision.FULL, Precision.BOUNDS
BinaryRule = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def stacked_broadcast(node: Tensor, operands: Sequence[Stacked]) -> Tensor:
    """The trait `stacks`: time stays in front of axes that only other operands have."""
    assert node.op is not None
    aligned = []
    for x, stacked, _ in operands:
        missing = node.ndim + 1 - x.ndim if stacked else 0
        aligned.append(sh.expand_dims(x, axes=tuple(range(1, 1 + missing))) if missing else x)
    return node.op(*aligned, **node.params)


USUAL: dict[str, Any] = {
    "elementwise": True, "memory": Memory.FRESH, "axes": broadcasting, "stacks": stacked_broadcast,
    "precision": Precision.FOLLOWS,
}  # fmt: skip
"""The traits of an element-wise primitive, unless it says otherwise."""


def elementwise_op(rule: Callable[..., Spec], name: str | None = None, **traits: Any) -> Op:
    """An element-wise primitive. It has the `USUAL` traits, except for those that are given."""
    declare: Callable[[Any], Op] = primitive(name=name, **{**USUAL, **traits})
    return declare(rule)


def unary(name: str, doc: str, accepted: frozenset[str], vjp: Any = None, **traits: Any) -> Op:
    """A primitive of one operand whose result has the operand's shape and dtype."""

    def rule(x: Spec) -> Spec:
        if x.dtype not in accepted:
            check_dtype(name, "x", x.dtype, accepted)
        return Spec(x.shape, x.dtype) if x.sparse else x

    rule.__doc__ = doc
    host = accepted is not FLOAT
    declared = elementwise_op(rule, name, axes=like_first, on_host=host, **traits)
    if vjp is not None:
        declared.vjps(vjp)
    return declared


def binary(
    name: str, doc: str, accepted: frozenset[str], result: str | None = None, **traits: Any
) -> Op:
    """A primitive of two operands of one dtype, which are broadcast; `result` may be another."""

    def rule(x: Spec, y: Spec) -> Spec:
        if x.dtype not in accepted or x.dtype != y.dtype:
            check_dtype(name, "x", x.dtype, accepted)
            raise TypeError(f"{name}: x has dtype {x.dtype} and y {y.dtype}; cast one of them")
        if x.shape == y.shape:
            if result is None and not x.sparse:
                return x
            return Spec(x.shape, result or x.dtype)
        return Spec(broadcast(name, x.shape, y.shape), result or x.dtype)

    rule.__doc__ = doc
    return elementwise_op(rule, name, on_host=accepted is not FLOAT, **traits)


def broadcast(name: str, *operands: tuple[int | None, ...]) -> tuple[int | None, ...]:
    """The shape that operands are broadcast to. Errors begin with the primitive's name."""
    try:
        return shapes.broadcast(*operands)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def to_x(rule: BinaryRule) -> BinaryRule:
    """A rule for the first of two broadcast operands: its cotangent, summed down to its shape."""
    return lambda g, z, x, y: sh.sum_to_like(rule(g, z, x, y), x, z)


def to_y(rule: BinaryRule) -> BinaryRule:
    """A rule for the second operand."""
    return lambda g, z, x, y: sh.sum_to_like(rule(g, z, x, y), y, z)
