"""Objects of other libraries that stand for tensors without being an engine's: who serves them.

Keras 3's symbolic tensors and its variables are such objects. A module of `interop` serves each
library: it is named here, and imported when an object of that library is first met, so that nobody
else pays for it. It has

- `serves(kind) -> bool`: whether objects of that class stand for tensors;
- `call(function, args, kwargs) -> Any`: a call of a K function with such objects among its
  arguments, `function` being the one of the K namespace;
- `value(x) -> Any`: the native value that such an object has now, while a call is traced;
- `phase() -> int | None`: the learning phase that the library is in now; None if it is in none.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

from backplane.core import registry

F = TypeVar("F", bound=Callable[..., Any])

SERVED_BY = {"keras.src.backend.common": "backplane.interop.keras3"}
"""Package of a class, or of one of its base classes → the module that serves it."""

_found: dict[type, Any] = {}


def server_of(value: object) -> Any:
    """The module that serves `value`; None for everything that is nothing special."""
    kind = type(value)
    try:
        return _found[kind]
    except KeyError:
        server = _found[kind] = _search(kind)
        return server


def _search(kind: type) -> Any:
    homes = [f"{base.__module__}." for base in kind.__mro__]
    for package, name in SERVED_BY.items():
        if any(home.startswith(f"{package}.") for home in homes):
            server = import_module(name)
            return server if server.serves(kind) else None
    return None


def _value_of(value: object) -> Any:
    server = server_of(value)
    return value if server is None else server.value(value)


registry.VALUE_OF[:] = [_value_of]


def phase() -> int | None:
    """The learning phase that a library in use is in now; None if none says."""
    for package, name in SERVED_BY.items():
        if package in sys.modules:
            found: int | None = import_module(name).phase()
            if found is not None:
                return found
    return None


def server_among(values: Any) -> Any:
    """The module that serves one of `values`, which may lie in lists, tuples and dicts."""
    for value in values:
        kind = type(value)
        if kind is list or kind is tuple:
            server = server_among(value)
        elif kind is dict:
            server = server_among(value.values())
        else:
            server = server_of(value)
        if server is not None:
            return server
    return None


def welcomes(function: F) -> F:
    """Decorator of K functions that do not follow the call rule (`_call.api`): calls with objects
    of other libraries go to the module that serves those.
    """

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        server = server_among((*args, *kwargs.values()))
        if server is None:
            return function(*args, **kwargs)
        return server.call(wrapper, args, kwargs)

    return wrapper  # type: ignore[return-value]
