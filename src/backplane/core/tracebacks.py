"""Tracebacks that end at the user's line.

An error that leaves a K function, the call of a function or an operator carries a dozen frames of
this package and of the engine, which tell its users nothing. Whoever lets such an error out calls
`hide` first, and raises it again by a bare `raise`, which adds no frame. A call that succeeds pays
nothing for that.

    try:
        return function(*args)
    except Exception as error:
        hide(error)
        raise

With `BACKPLANE_TRACEBACK=full` in the environment, everything stays.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from backplane.core.context import is_ours

F = TypeVar("F", bound=Callable[..., Any])

SETTING = "BACKPLANE_TRACEBACK"
"""The variable of the environment that says how much tracebacks show."""

_PYTHON = re.escape(os.path.dirname(os.__file__))
_BELOW = re.compile(
    r".*[/\\]site-packages[/\\](jax|jaxlib|mlx|numpy|onnx|onnxruntime|pytensor|tensorflow|torch)[/\\]"
    rf"|{_PYTHON}[/\\](?!site-packages)|<__array_function__|<frozen|numpy[/\\]"
)
"""Files whose frames go with ours, where we have called them."""


def hide(error: BaseException) -> None:
    """Take the frames of this package out of the traceback of an error that is about to leave it,
    together with those of the libraries that it called. Frames of functions that the user gave,
    such as the step of a loop, stay.

    Nothing happens if the caller is this package itself. An `AssertionError` stays as it is: it is
    a fault of ours, and its frames are what a report of it needs.
    """
    trace = error.__traceback__
    if trace is None or isinstance(error, AssertionError) or os.environ.get(SETTING) == "full":
        return
    caller = trace.tb_frame.f_back
    if caller is not None and is_ours(caller.f_code.co_filename):
        return
    error.__traceback__ = _without_ours(trace)
    # The error of the engine's library that it was made of, which began below us.
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    below = None if cause is None else cause.__traceback__
    if cause is not None and below is not None and is_ours(below.tb_frame.f_code.co_filename):
        cause.__traceback__ = _without_ours(below)


def boundary(function: F) -> F:
    """Decorator for functions of K without another one: what they raise ends at the caller."""

    @functools.wraps(function)
    def wrapper(*args: object, **kwargs: object) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            hide(error)
            raise

    return wrapper  # type: ignore[return-value]


def _without_ours(trace: TracebackType) -> TracebackType | None:
    kept: list[TracebackType] = []
    below: bool = True
    following: TracebackType | None = trace
    while following is not None:
        file = following.tb_frame.f_code.co_filename
        below = is_ours(file) or (below and _BELOW.match(file) is not None)
        if not below:
            kept.append(following)
        following = following.tb_next
    last: TracebackType | None = None
    for one in reversed(kept):
        last = TracebackType(last, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return last
