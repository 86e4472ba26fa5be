"""Watchers of settings: they record which are asked for, to know what depends on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")

_watching: list[dict[Callable[[], Any], Any]] = []


def noted(read: Callable[[], T]) -> T:
    """The result of `read`, a setting, told to everyone who watches (`watched`).

    Example:
        >>> from backplane import config
        >>> with config.watched() as seen:
        ...     phase = config.noted(lambda: 1)
        >>> list(seen.values())
        [1]
    """
    value = read()
    for seen in _watching:
        seen[read] = value
    return value


@contextmanager
def watched() -> Iterator[dict[Callable[[], Any], Any]]:
    """Context manager: a dict of the settings that are asked for inside, reader → value.

    What was built inside may be used again as long as the readers return the same values. Other
    threads' questions may be among them.

    Example:
        >>> from backplane import config
        >>> with config.watched() as seen:
        ...     fuzz = config.epsilon()
        >>> list(seen.values())
        [1e-07]
    """
    seen: dict[Callable[[], Any], Any] = {}
    _watching.append(seen)
    try:
        yield seen
    finally:
        _watching[:] = [other for other in _watching if other is not seen]
