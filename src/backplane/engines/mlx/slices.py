"""Slices of MLX's arrays whose bounds are MLX's arrays."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

_own = mx.array.__getitem__


def take_arrays() -> None:
    """Let bounds of slices be integers in arrays, which MLX (0.32) refuses, unlike others."""
    mx.array.__getitem__ = _getitem


def _getitem(self: Any, index: Any) -> Any:
    try:
        return _own(self, index)
    except ValueError:
        parts = index if isinstance(index, tuple) else (index,)
        known = tuple(map(_of_numbers, parts))
        if all(new is old for new, old in zip(known, parts, strict=True)):
            raise
    return _own(self, known if isinstance(index, tuple) else known[0])


def _of_numbers(part: Any) -> Any:
    """A slice with Python's integers for bounds; the part itself if no bound is an array."""
    if not isinstance(part, slice):
        return part
    bounds = part.start, part.stop, part.step
    if not any(isinstance(bound, mx.array) for bound in bounds):
        return part
    return slice(*(b.item() if isinstance(b, mx.array) and not b.ndim else b for b in bounds))
