"""Primitives by name and engines by name: where `ops`, `compile`, `backend` and engines meet."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from backplane.core.primitive import Primitive

HOMES: dict[str, str] = {}
"""Name of a primitive → the module that declares it. `ops` fills it when it is imported."""


class _Primitives(dict[str, "Primitive[Any]"]):
    """Primitives by name. The module that declares one is imported when it is first asked for."""

    def __missing__(self, name: str) -> Primitive[Any]:
        import_module(HOMES[name])
        if name not in self:
            raise KeyError(name)
        return self[name]


PRIMITIVES = _Primitives()
"""Every primitive that has been declared; indexing gives the others of `HOMES` too."""


def primitive(name: str) -> Primitive[Any]:
    """The primitive of that name; KeyError names the closest ones."""
    try:
        return PRIMITIVES[name]
    except KeyError:
        import difflib

        known = {**HOMES, **PRIMITIVES}
        close = ", ".join(difflib.get_close_matches(name, known)) or "nothing similar"
        raise KeyError(f"no primitive is called {name!r}; there is {close}") from None


ENGINE_OF: list[Callable[[object], Any]] = []
"""One function, put here by `engines`: the engine that owns a native value, or None."""


def engine_of(value: object) -> Any:
    """The engine whose tensor `value` is, or None for anything else. Imports no library."""
    return ENGINE_OF[0](value) if ENGINE_OF else None


VALUE_OF: list[Callable[[object], Any]] = []
"""One function, put here by `backend`: the native value that an object of another library, such as
a variable of Keras 3, stands for; other objects themselves."""


def value_of(value: object) -> Any:
    """The native value that an object of another library stands for; all else is returned."""
    return VALUE_OF[0](value) if VALUE_OF else value
