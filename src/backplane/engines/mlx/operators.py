"""Operators of MLX's arrays that leave operands to the operators of other classes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import mlx.core as mx

NAMES = [
    f"__{prefix}{name}__"
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or")
    for prefix in ("", "i")
] + [f"__{name}__" for name in ("lt", "le", "gt", "ge", "eq", "ne")]

_kinds: list[type] = []


def yield_to(kind: type) -> None:
    """Let `array + x` ask `x.__radd__` if `x` is of this class, and so on for all operators.

    MLX (0.32) does not ask: it refuses operands that it does not know, and takes those that have a
    `__float__` for complex numbers. The price is 0.14 µs for each operator.
    """
    if not _kinds:
        for name in NAMES:
            if own := getattr(mx.array, name, None):
                setattr(mx.array, name, _yielding(own))
    if kind not in _kinds:
        _kinds.append(kind)


def _yielding(own: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    @functools.wraps(own)
    def operator(self: Any, other: Any) -> Any:
        for kind in _kinds:
            if isinstance(other, kind):
                return NotImplemented
        return own(self, other)

    return operator
