"""Names: counters for unique identifiers and the stack of name scopes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

_uids: defaultdict[str, int] = defaultdict(int)
_used: defaultdict[str, int] = defaultdict(int)
_scopes: list[str] = []


def get_uid(prefix: str = "") -> int:
    """The next integer for `prefix`, counting from 1."""
    _uids[prefix] += 1
    return _uids[prefix]


def reset_uids() -> None:
    """Start every counter of `get_uid` again."""
    _uids.clear()


def unique(name: str) -> str:
    """`name` inside the current scopes, with `_1`, `_2`, … appended when it was given out
    before.
    """
    full = "/".join([*_scopes, name])
    count = _used[full]
    _used[full] += 1
    return full if count == 0 else f"{full}_{count}"


def reset_names() -> None:
    """Forget which names were given out."""
    _used.clear()


@contextmanager
def scope(name: str) -> Iterator[str]:
    """Names given out inside start with `name/`."""
    _scopes.append(name)
    try:
        yield "/".join(_scopes) + "/"
    finally:
        _scopes.pop()
