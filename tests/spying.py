"""Calls that a test has noted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any


@dataclass
class Call:
    """A call, and what it returned; None if it raised."""

    args: tuple[Any, ...]
    result: Any = None


Spy = Callable[[ModuleType, str], list[Call]]
"""Gives the calls of a function of a module from then on."""
