"""Errors name the K function and the argument.

Whoever finds a fault often knows neither: `as_tensor` got a None, and that was the `gamma` of
`K.batch_normalization`. So the outermost K function completes the message. It looks for the
argument that is to blame only after something has failed.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import re
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, TypeVar

import numpy as np

from backplane.core.context import PACKAGE
from backplane.core.graph import Tensor
from backplane.core.registry import PRIMITIVES, suggestion
from backplane.core.sparse import SparseTensor
from backplane.core.tracebacks import hide
from backplane.ops.lift import as_tensor

F = TypeVar("F", bound=Callable[..., Any])

_NUMPY = os.path.dirname(os.path.abspath(np.__file__)) + os.sep
_PACKAGES = os.path.dirname(_NUMPY[:-1]) + os.sep


EXPLAINED = (TypeError, ValueError, IndexError, RecursionError, MemoryError)
"""The errors that `explain` changes."""


def explained(function: F) -> F:
    """Decorator for K functions outside the call rule: errors name function and argument."""

    @functools.wraps(function)
    def wrapper(*args: object, **kwargs: object) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            explain(error, function, args, kwargs)
            hide(error)
            raise

    return wrapper  # type: ignore[return-value]


def explain(
    error: Exception, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> None:
    """Let the message of an error start with `K.name: `, and name the argument to blame. Errors of
    somebody else's code that K called, such as the step of a loop, stay as they are.

    Raises:
        ValueError: if Python has gone too deep, because an argument contains itself or lists in
            lists in lists.
        MemoryError: in place of one whose message does not start with `K.name: `.
    """
    if isinstance(error, RecursionError | MemoryError):
        _explain_shortage(error, function, args, kwargs)
        return
    fits = isinstance(error, EXPLAINED) and len(error.args) == 1
    if not fits or not _is_ours(error.__traceback__):
        return
    name = f"K.{function.__name__}"
    plain = getattr(error, "plain", None) or str(error)
    label = getattr(function, "label", None)
    if label is not None:  # A function of NumPy, in terms of K.
        if str(error).startswith(("K.", label)):
            return
        name = label
    if plain.startswith(f"{name} "):
        return
    inner, colon, text = plain.partition(": ")
    if not colon or not (inner in PRIMITIVES or re.fullmatch(r"K\.\w+( '.*')?", inner)):
        text = plain
    text = _of_call(text, function)
    error.plain = text  # type: ignore[attr-defined]
    error.args = (f"{name}: {_with_argument(text, _given(function, args, kwargs))}",)


def explain_operator(error: Exception, name: str, form: str) -> None:
    """Let the message of an error in an operator start with its form, such as `x + y`."""
    if len(error.args) != 1 or not _is_ours(error.__traceback__):
        return
    inner, colon, text = str(error).partition(": ")
    if colon and (inner in PRIMITIVES or inner == f"K.__{name}__"):
        error.plain = text  # type: ignore[attr-defined]
        error.args = (f"{form}: {text}",)


def _of_call(text: str, function: Callable[..., Any]) -> str:
    """`text`; if it is Python's for arguments that do not fit the parameters, it names these."""
    start = f"{function.__name__}() "
    if not text.startswith(start):
        return text
    plain = text.removeprefix(start)
    parameters = inspect.signature(function).parameters.values()
    strange = re.fullmatch(r"got an unexpected keyword argument '(\w+)'", plain)
    if strange is not None:
        named = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]
        return unknown_keywords(strange.groups(), named)
    bare = [str(p.replace(annotation=p.empty)) for p in parameters]
    return f"{plain}; the arguments are ({', '.join(bare)})"


def unknown_keywords(given: Iterable[str], known: Iterable[str]) -> str:
    """The message about keyword arguments that a function does not have."""
    known, given = list(known), list(given)
    plural = "s" * (len(given) > 1)
    named = ", ".join(f"{name!r}{suggestion(name, known)}" for name in given)
    return f"unknown keyword argument{plural} {named}; there are {', '.join(known)}"


def _explain_shortage(
    error: Exception, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> None:
    if isinstance(error, MemoryError):
        if _is_ours(error.__traceback__, running=True) and not str(error).startswith("K."):
            text = str(error) or "too little memory"
            raise MemoryError(f"K.{function.__name__}: {text}") from error
        return
    for name, value in _given(function, args, kwargs).items():
        if (reason := _depth(value)) is not None:
            raise ValueError(f"K.{function.__name__}: {name}: got a list {reason}") from None


def holds_itself(what: str) -> ValueError:
    """The error for a list that is among its own items."""
    return ValueError(f"{what}: got a list that contains itself")


MOST_LISTS = 100


def _depth(value: object) -> str | None:
    waiting: list[tuple[Any, tuple[int, ...]]] = [(value, ())]
    while waiting:
        value, around = waiting.pop()
        if isinstance(value, list | tuple | dict):
            if id(value) in around:
                return "that contains itself"
            if len(around) >= MOST_LISTS:
                return f"inside of {MOST_LISTS} others"
            items = value.values() if isinstance(value, dict) else value
            waiting += [(item, (*around, id(value))) for item in items]
    return None


def _is_ours(trace: TracebackType | None, running: bool = False) -> bool:
    """Whether an error comes from our code, or from NumPy below it, and has not passed through a
    user's. An emitted program counts as our code if `running`. Context managers that serve as
    decorators put a function of `contextlib` in between.
    """
    names = []
    while trace is not None:
        names.append(trace.tb_frame.f_code.co_filename)
        trace = trace.tb_next
    between = contextlib.__file__
    libraries = (PACKAGE, _PACKAGES, "<backplane ", "<__array_function__", "numpy/", between)
    last = (PACKAGE, _NUMPY, "numpy/", *(["<backplane "] if running else []))
    return names[-1].startswith(last) and all(n.startswith(libraries) for n in names)


def _given(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments by the names of the parameters; empty if they do not fit."""
    try:
        return dict(inspect.signature(function).bind(*args, **kwargs).arguments)
    except TypeError:
        return {}


def _with_argument(text: str, given: Mapping[str, Any]) -> str:
    """`text`, with the name of the argument to blame if it is not there."""
    for name, value in given.items():
        if any(_fails_with(text, test, item) for item in _items(value) for test in _tests(item)):
            return f"{name}: {text}"
    if any(_is_named(name, text) for name in given):
        return text
    quoted = [
        name for name, value in given.items()
        if re.search(rf"\b(got|not) {re.escape(_short(value))}(?!\w)", text)
    ]  # fmt: skip
    if len(quoted) == 1:
        return f"{quoted[0]}: {text}"
    return f"{text} ({_listed(given)})" if given else text


def _is_named(name: str, text: str) -> bool:
    # A name such as `a` is a word of prose too.
    end = r"(?=:| must| has)" if name in ("a", "value", "name") else r"\b"
    return re.search(rf"(?<!['\w]){name}{end}", text) is not None


def _items(value: object) -> Iterator[Any]:
    yield value
    if isinstance(value, list | tuple):
        yield from value


def _tests(value: object) -> tuple[Callable[[Any], Any], ...]:
    """The tests that K makes of an argument, which never ask for a foreign tensor's truth."""
    if isinstance(value, SparseTensor):
        return ()  # `as_tensor` calls `K.to_dense`, whose error may be the one to explain.
    return (as_tensor, bool) if isinstance(value, Tensor | np.ndarray) else (as_tensor,)


def _fails_with(text: str, test: Callable[[Any], Any], value: object) -> bool:
    try:
        test(value)
    except (TypeError, ValueError) as error:
        return str(error) == text
    return False


def described(value: object) -> str:
    """A value as errors show it: a tensor (maybe of an array), a list of so many, or itself."""
    if isinstance(value, list | tuple | dict):
        return f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, Tensor | np.ndarray):
        kind = "a tensor" if isinstance(value, Tensor) else "an array"
        return f"{kind} of shape {tuple(value.shape)} and dtype {value.dtype}"
    return _short(value)


def call_given(
    function: Callable[..., Any], args: tuple[Any, ...], what: str, parameters: str
) -> Any:
    """Call the user's function `what`. TypeError, with `parameters`, if it cannot be called so."""
    if not callable(function):
        raise TypeError(f"{what} must be a function of {parameters}, got {described(function)}")
    try:
        return function(*args)
    except TypeError as error:
        trace = error.__traceback__
        if trace is None or trace.tb_next is not None:  # It was called, and has failed inside.
            raise
        raise TypeError(f"{what} is called with {parameters}: {error}") from None


def returned(value: object, what: str, place: str = "") -> Tensor:
    """The result of the user's function `what`, as a tensor. TypeError if it is none."""
    try:
        return as_tensor(value)
    except TypeError:
        where = f" {place}" if place else ""
        raise TypeError(f"{what} must return a tensor{where}, got {described(value)}") from None


class _Short(reprlib.Repr):
    """A short form of an argument, and of the items of a list, for readers."""

    def __init__(self) -> None:
        super().__init__()
        self.maxother = self.maxstring = 60
        self.maxlist = self.maxtuple = self.maxdict = 3

    def repr1(self, x: Any, level: int) -> str:
        if isinstance(x, Tensor | np.ndarray):
            return f"<shape {tuple(x.shape)}, dtype {x.dtype}>"
        return super().repr1(x, level)

    def repr_function(self, x: Any, level: int) -> str:
        return f"<function {x.__qualname__}>"


_short = _Short().repr

MOST_TEXT = 240
"""Characters of all arguments together."""


def _listed(given: Mapping[str, Any]) -> str:
    """All arguments. Those that do not fit are named by their types."""
    texts = {name: _short(value) for name, value in given.items()}
    for name in sorted(texts, key=lambda name: -len(texts[name])):
        if sum(map(len, texts.values())) > MOST_TEXT:
            texts[name] = f"<{type(given[name]).__name__}>"
    return ", ".join(f"{name} = {text}" for name, text in texts.items())
