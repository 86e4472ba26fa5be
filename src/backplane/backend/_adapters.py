"""Objects of other libraries that stand for tensors without being an engine's own.

Keras 3's symbolic tensors and variables are such objects. Each library has an adapter, a module of
`interop` that `ADAPTERS` names. It is imported when the first object of the library turns up, so
nobody else pays for it. An adapter has

- `adapts(kind) -> bool`: whether objects of that class stand for tensors;
- `call(function, args, kwargs) -> Any`: calls the K function `function` of the K namespace, which
  has such objects among its arguments;
- `value(x) -> Any`: the native value that such an object has now, while a call is traced;
- `phase() -> int | None`: the learning phase of the library at the moment; None if it has none.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, TypeVar

from backplane import engines
from backplane.backend._errors import explain
from backplane.core.hooks import HOOKS
from backplane.core.tracebacks import hide

F = TypeVar("F", bound=Callable[..., Any])

ADAPTERS = {
    "keras.src.backend.common": "backplane.interop.keras3",
    "torch.fx.proxy": "backplane.interop.fx",
}
"""Package of a class, or of one of its base classes → its adapter."""

_found: dict[type, Any] = {}


def adapter_of(value: object) -> Any:
    """The adapter of `value`; None if it needs none."""
    kind = type(value)
    try:
        return _found[kind]
    except KeyError:
        adapter = _found[kind] = _search(kind)
        return adapter


def _search(kind: type) -> Any:
    homes = [f"{base.__module__}." for base in kind.__mro__]
    for package, name in ADAPTERS.items():
        if any(home.startswith(f"{package}.") for home in homes):
            adapter = import_module(name)
            return adapter if adapter.adapts(kind) else None
    return None


def _value_of(value: object) -> Any:
    adapter = adapter_of(value)
    return HOOKS["lifted"](value) if adapter is None else adapter.value(value)


HOOKS["value_of"] = _value_of


def meet() -> None:
    """Import the adapters, and load the engines, of libraries that are loaded already."""
    engines.meet()
    _of_loaded()


def _of_loaded() -> list[Any]:
    """The adapters of libraries that are loaded."""
    return [import_module(name) for package, name in ADAPTERS.items() if package in sys.modules]


def phase() -> int | None:
    """The learning phase of a library in use at the moment; None if no library has one."""
    phases = (adapter.phase() for adapter in _of_loaded())
    return next((phase for phase in phases if phase is not None), None)


def adapter_among(values: Iterable[Any]) -> Any:
    """The adapter of one of `values`, which may lie in lists, tuples and dicts."""
    for value in values:
        kind = type(value)
        if kind is list or kind is tuple:
            adapter = adapter_among(value)
        elif kind is dict:
            adapter = adapter_among(value.values())
        else:
            adapter = adapter_of(value)
        if adapter is not None:
            return adapter
    return None


def adaptable(function: F) -> F:
    """Decorator for K functions outside the call rule: foreign objects go to their adapter."""

    @functools.wraps(function)
    def wrapper(*args: object, **kwargs: object) -> Any:
        try:
            adapter = adapter_among((*args, *kwargs.values()))
            if adapter is None:
                return function(*args, **kwargs)
        except Exception as error:
            explain(error, function, args, kwargs)
            hide(error)
            raise
        return adapter.call(wrapper, args, kwargs)

    return wrapper  # type: ignore[return-value]
