"""Nested lists, tuples and dicts of tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def flatten(nest: Any) -> list[Any]:
    """The leaves of a nest in order; dicts by insertion."""
    if isinstance(nest, dict):
        return [leaf for value in nest.values() for leaf in flatten(value)]
    if isinstance(nest, list | tuple):
        return [leaf for value in nest for leaf in flatten(value)]
    return [nest]


def pack(like: Any, leaves: list[Any]) -> Any:
    """`leaves` in the structure of `like`."""
    return _pack(like, iter(leaves))


def _pack(like: Any, leaves: Iterator[Any]) -> Any:
    if isinstance(like, dict):
        return type(like)((key, _pack(value, leaves)) for key, value in like.items())
    if isinstance(like, tuple) and hasattr(like, "_fields"):
        return type(like)(*[_pack(value, leaves) for value in like])
    if isinstance(like, list | tuple):
        return type(like)(_pack(value, leaves) for value in like)
    return next(leaves)
