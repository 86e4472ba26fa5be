"""Trees of tensors: the nested lists, tuples and dicts that functions take and return."""

from __future__ import annotations

from collections.abc import Callable, Mapping, ValuesView
from typing import Any


def flatten(tree: object) -> list[Any]:
    """The leaves of a tree in order. Dicts have the order of insertion."""
    if isinstance(tree, dict):
        tree = list(tree.values())
    if isinstance(tree, list | tuple):
        return [leaf for part in tree for leaf in flatten(part)]
    return [tree]


def unflatten(like: object, leaves: list[Any]) -> Any:
    """`leaves` in the structure of `like`."""
    following = iter(leaves)
    return map_leaves(lambda _: next(following), like)


def map_leaves(function: Callable[[Any], Any], tree: object, leaf: type | tuple[()] = ()) -> Any:
    """A tree with `function` applied to each leaf; objects of the class `leaf` are leaves too."""
    if isinstance(tree, leaf):
        return function(tree)
    if isinstance(tree, dict):
        return type(tree)((key, map_leaves(function, value, leaf)) for key, value in tree.items())
    if isinstance(tree, list | tuple):
        values = [map_leaves(function, value, leaf) for value in tree]
        return type(tree)(*values) if hasattr(tree, "_fields") else type(tree)(values)
    return function(tree)


def matched(like: object, tree: object, what: str) -> list[Any]:
    """The parts of `tree` that stand where `like` has its leaves, in the order of these. Dicts are
    matched by their keys. Other structures are errors that name `what`.
    """
    if isinstance(like, dict):
        if not isinstance(tree, Mapping):
            raise TypeError(f"{what} must be a dict with the keys {list(like)}, got {tree!r:.60}")
        if like.keys() != tree.keys():
            raise ValueError(f"{what} must have the keys {list(like)}, got {list(tree)}")
        parts = [(part, tree[key], f"{what}[{key!r}]") for key, part in like.items()]
    elif isinstance(like, list | tuple):
        if not isinstance(tree, list | tuple) or len(tree) != len(like):
            got = f"{len(tree)}" if isinstance(tree, list | tuple) else f"{tree!r:.60}"
            raise ValueError(f"{what} must be a list of {len(like)} values, got {got}")
        parts = [(a, b, f"{what}[{i}]") for i, (a, b) in enumerate(zip(like, tree, strict=True))]
    else:
        return [tree]
    return [leaf for part in parts for leaf in matched(*part)]


def is_nest(value: object) -> bool:
    """Whether `value` is a dict, or a list with lists or dicts in it."""
    if isinstance(value, list | tuple):
        return any(isinstance(part, list | tuple | dict) for part in value)
    return isinstance(value, dict)


def as_list(value: object) -> list[Any]:
    """A list of one or of several values."""
    return list(value) if isinstance(value, list | tuple | ValuesView) else [value]
