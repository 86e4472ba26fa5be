"""The function that `torch.compile` sees in the place of a K function.

Its tracer, Dynamo, reads the bytecode of what it compiles. It cannot follow the call rule, which is
made of caches and context variables, but it can follow the emitted program of a call. So every K
function carries an attribute by which PyTorch finds another function to trace in its place. The
work of finding the program is marked as a function whose result is a constant. Both marks are plain
attributes: PyTorch's own decorators would import PyTorch, and its compiler, for everybody.

A module of `interop`, imported when the first K function is traced, does the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import CodeType
from typing import Any

FUNCTIONS: dict[str, Callable[..., Any]] = {}
"""The K functions as they are written, without the call rule."""

CALL_RULE: set[CodeType] = set()
"""The code that applies the call rule."""

TRACED_BY = "backplane.interop.dynamo"
"""The module with what the compiler traces, imported when it traces the first K function."""

_tracer: list[Any] = []


def visible(function: Callable[..., Any], wrapper: Callable[..., Any]) -> None:
    """Let PyTorch's compiler trace the program of a call of `function` in place of `wrapper`."""
    name = f"{function.__module__}.{function.__name__}"
    FUNCTIONS[name] = function
    CALL_RULE.add(wrapper.__code__)

    def traced(*args: object, **kwargs: object) -> Any:
        _load()
        return _tracer[0].call(name, args, kwargs)

    wrapper.__dict__ = _Own(wrapper.__dict__, _torchdynamo_inline=traced)


class _Own(dict[str, Any]):
    """Attributes that `functools.wraps` does not copy: a user's wrapper is no K function."""

    def keys(self) -> Any:
        """No names, so that nothing is copied."""
        return ().__iter__()

    __iter__ = keys


def _load() -> None:
    if not _tracer:
        _tracer.append(import_module(TRACED_BY))


def constant(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator for functions that PyTorch's compiler runs in place of tracing them."""
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


constant(_load)
