"""The surroundings of a graph that is being built, in one context variable: threads and asyncio
tasks never see each other's.

This module also gives tensors their names, and records the line of the user's code that built each
of them. Recording is cheap; the line is spelled out when something fails.

`uncollected` concerns the whole process: Python's cycle collector has no context.
"""

from __future__ import annotations

import gc
import linecache
import os
import sys
import warnings
from _thread import allocate_lock  # `threading` imports much more than this.
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from itertools import chain, islice
from operator import attrgetter, call, is_
from types import CodeType, FrameType
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class Where(NamedTuple):
    """A line of the user's code, and what surrounded it when it built a tensor."""

    filename: str
    line: int
    function: str
    scopes: tuple[str, ...] = ()
    """The name scopes, outermost first."""
    callers: tuple[tuple[CodeType, int], ...] = ()
    """The user's calls that led to the line, innermost first: each function, and how far it was.
    Those in Python's own modules and in installed packages are left out."""
    code: CodeType | None = None
    """The code that was executed."""
    at: int = -1
    """The instruction in it."""
    gradient: bool = False
    """Whether the tensor was built for a gradient. The line is then that of the forward tensor."""

    def __str__(self) -> str:
        text = self.text
        place = f"{self.filename}:{self.line} in {self.function}"
        return f"{place}: {text}" if text else place

    def of_gradient(self) -> Where:
        """The same line, for tensors of a gradient."""
        # `_replace` takes twice as long, and every node of a gradient asks.
        return self if self.gradient else Where(*self[:-1], gradient=True)

    @property
    def text(self) -> str:
        """The text of the line; empty if the file cannot be read."""
        return linecache.getline(self.filename, self.line).strip()

    @property
    def expression(self) -> str:
        """The part of the line that built the tensor, such as `x + y`; empty if nobody knows."""
        if self.code is None:
            return ""
        position = next(islice(self.code.co_positions(), self.at // 2, None), (None,) * 4)
        first, last, start, end = position
        if first is None or last is None or start is None or end is None:
            return ""
        lines = [linecache.getline(self.filename, n).encode() for n in range(first, last + 1)]
        lines[-1] = lines[-1][:end]
        lines[0] = lines[0][start:]
        return b"".join(lines).decode(errors="replace")

    def chain(self) -> list[Where]:
        """The line, then the lines of the calls that led to it, innermost first."""
        calls = [
            Where(code.co_filename, _line_at(code, at), code.co_name) for code, at in self.callers
        ]
        return [self, *calls]


NOTHING: Mapping[Any, Any] = {}


class Context:
    """The settings that hold for the code that runs now. A context never changes, and `but` makes
    another one. The exception is a loop in a block of its own (`changed`), which may move on the
    block's `line` and `masked`.

    Attributes:
        device: The engine on the device that the innermost `K.device` chose; None outside of any.
        engine: The engine that the innermost `K.engine` chose; None outside of any.
        mode: How calls without symbolic tensors behave: what the innermost `K.eager` or
            `K.symbolic` says, or None outside of both.
        scopes: The name scopes, outermost first.
        updated: From a variable to the tensor that nodes read in its place, because
            `K.control_dependencies` says that an update comes first.
        line: The line of the user's code that new tensors belong to, if it is not the one being
            executed.
        masked: Whether the gradient that is being built passes through a branch of a switch, so
            that cotangents are 0 where the branch was not chosen.
        bound: The values of tensors while a function of an engine's library runs (`core.native`).
        step: Whether a step function of a loop runs. Meanwhile tensors lack the attributes that
            classic Keras takes for signs of a layer's output (`Tensor._keras_shape`).
        watcher: Who runs functions in place of their programs: what `K.debug` has put here.
        phase: A list with the learning phase of the innermost `K.learning_phase_scope`, which
            `K.set_learning_phase` writes to; None outside of any.
        policy: How `K.function` changes the graphs that it is given: what the innermost
            `K.mixed_precision` says, or None outside of any.
        mesh: A tuple with the mesh that the innermost `with K.set_mesh(…)` chose, which may be
            None. None outside of any (`core.mesh`).
    """

    # Read at each call of K and for each node: slots take half the time of a named tuple's fields.
    __slots__ = (
        "bound", "device", "engine", "line", "masked", "mesh", "mode", "phase", "policy", "scopes",
        "step", "updated", "watcher",
    )  # fmt: skip

    def __init__(
        self,
        bound: Any = None,
        device: Any = None,
        engine: Any = None,
        line: Where | None = None,
        masked: bool = False,
        mesh: tuple[Any] | None = None,
        mode: str | None = None,
        phase: list[int] | None = None,
        policy: Any = None,
        scopes: tuple[str, ...] = (),
        step: bool = False,
        updated: Mapping[Any, Any] = NOTHING,
        watcher: Any = None,
    ) -> None:
        self.bound = bound
        self.device = device
        self.engine = engine
        self.line = line
        self.masked = masked
        self.mesh = mesh
        self.mode = mode
        self.phase = phase
        self.policy = policy
        self.scopes = scopes
        self.step = step
        self.updated = updated
        self.watcher = watcher

    def but(self, **fields: object) -> Context:
        """The same context with other values of some fields."""
        other = Context(*_fields(self))
        for name, value in fields.items():
            setattr(other, name, value)
        return other


_fields = attrgetter(*Context.__slots__)
"""All fields of a context, in the order of its arguments."""

_OUTSIDE = Context()
_context: ContextVar[Context] = ContextVar("backplane", default=_OUTSIDE)

current = _context.get
"""Returns the present `Context`."""


@contextmanager
def changed(**fields: object) -> Iterator[Context]:
    """Context manager: inside, these fields of the context have these values."""
    before = current()
    inside = before.but(**fields)
    # To set, and to read and reset, are one call into C each: what the handler of a signal raises
    # comes before or after it, and leaves nothing set. `reset` undoes a change as if it had never
    # been: beside a variable that is set, NumPy sets its own one for 0.06 µs more at each call.
    tokens: list[Token[Context]] = []
    values: list[Any] = []
    enter = map(_context.set, (inside,))
    leave = chain(map(call, (current,)), map(_context.reset, tokens))
    try:
        tokens.extend(enter)
        yield inside
    finally:
        # `suppress` is written in Python: an interrupt could come where it begins.
        try:  # noqa: SIM105
            values.extend(leave)
        except ValueError:  # The block was entered in another task.
            pass
        # Set back only these fields: other blocks may end in another order than they began. Where
        # none is open, resetting has done it.
        if values[0] is not inside or len(values) == 1:
            after = values[0].but(**{name: getattr(before, name) for name in fields})
            if not all(map(is_, _fields(current()), _fields(after))):
                _context.set(after)


@contextmanager
def assigned(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Context manager: inside, `variable` has this value. It is for the variables of other modules
    what `changed` is for the context: no interrupt leaves it set.
    """
    tokens: list[Token[T]] = []
    enter, leave = map(variable.set, (value,)), map(variable.reset, tokens)
    try:
        tokens.extend(enter)
        yield
    finally:
        any(leave)


WATCHING: list[None] = []
"""One entry for each block with a watcher that is open in any thread. Only while there is one does
anybody ask for `Context.watcher`."""


def watcher() -> Any:
    """The watcher of the code that runs here; None if nobody watches."""
    return current().watcher if WATCHING else None


# --- modes ----------------------------------------------------------------------------------------

DEFAULT_MODE = ["auto"]
"""The mode outside of `K.eager` and `K.symbolic`."""


def mode() -> str:
    """The mode of calls without symbolic tensors: "auto", "symbolic" or "eager" (`K.eager`)."""
    return current().mode or DEFAULT_MODE[0]


def set_default_mode(name: str) -> Callable[[], None]:
    """Make `name` the mode outside of `K.eager` and `K.symbolic`; the result undoes it."""
    before, DEFAULT_MODE[0] = DEFAULT_MODE[0], name

    def undo() -> None:
        DEFAULT_MODE[0] = before

    return undo


# --- lines of the user's code ---------------------------------------------------------------------

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LIBRARY = (os.path.dirname(os.__file__) + os.sep, "<frozen ")
OURS, INSTALLED, USERS = 1, 2, 3
_origins: dict[str, int] = {contextmanager.__code__.co_filename: OURS}
"""The owner of the code in each file. Python's own modules and installed packages are `INSTALLED`.
`contextlib` counts as ours: it stands between a function of ours and the caller of that, where a
context manager decorates it."""


MOST_CALLERS = 16
"""The largest number of the user's calls that are recorded for a line."""


def user_line() -> Where | None:
    """The user's line that is being executed, to which new tensors belong, or the context's."""
    context = current()
    if context.line is not None:
        return context.line
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        # By its file, not by the code itself: code that PyTorch's compiler wrote has no hash.
        code = frame.f_code
        if (_origins.get(code.co_filename) or _origin(code.co_filename)) != OURS:
            callers = _callers(frame.f_back)
            line, at = frame.f_lineno, frame.f_lasti
            return Where(code.co_filename, line, code.co_name, context.scopes, callers, code, at)
        frame = frame.f_back
    return None


_warned: dict[Any, Any] = {}


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn in the name of the user's line, even if other libraries stand in between."""
    where = user_line()
    if where is None:
        warnings.warn(text, category, stacklevel=2)
        return
    file, line = where.filename, where.line
    if _origin(file) == INSTALLED and where.callers:
        code, at = where.callers[0]
        file, line = code.co_filename, _line_at(code, at)
    warnings.warn_explicit(text, category, file, line, registry=_warned)


def _origin(filename: str) -> int:
    """The owner of the code in a file: `OURS`, `INSTALLED` or `USERS`."""
    origin = _origins.get(filename)
    if origin is None:
        ours = filename.startswith((PACKAGE, "<backplane "))
        installed = filename.startswith(_LIBRARY) or f"{os.sep}site-packages{os.sep}" in filename
        origin = _origins[filename] = OURS if ours else INSTALLED if installed else USERS
    return origin


def is_ours(filename: str) -> bool:
    """Whether a file belongs to this package."""
    return (_origins.get(filename) or _origin(filename)) == OURS


def _callers(frame: FrameType | None) -> tuple[tuple[CodeType, int], ...]:
    """The user's calls from `frame` outwards. Their lines are looked up when somebody asks."""
    callers: list[tuple[CodeType, int]] = []
    known = _origins.get
    while frame is not None and len(callers) < MOST_CALLERS:
        code = frame.f_code
        if (known(code.co_filename) or _origin(code.co_filename)) == USERS:
            callers.append((code, frame.f_lasti))
        frame = frame.f_back
    return tuple(callers)


def _line_at(code: CodeType, at: int) -> int:
    """The line of a function that the instruction `at` belongs to."""
    lines = [line for start, end, line in code.co_lines() if start <= at < end and line is not None]
    return lines[0] if lines else code.co_firstlineno


# --- names ----------------------------------------------------------------------------------------

_uids: defaultdict[str, int] = defaultdict(int)
_used: defaultdict[str, int] = defaultdict(int)
_counting = allocate_lock()


def get_uid(prefix: str = "") -> int:
    """The next whole number for `prefix`, counting from 1."""
    with _counting:
        _uids[prefix] += 1
        return _uids[prefix]


def reset_uids() -> None:
    """Start every counter of `get_uid` again."""
    with _counting:
        _uids.clear()


def scoped_name(name: str) -> str:
    """`name` inside the current scopes. TypeError if it is no string."""
    if not isinstance(name, str):
        raise TypeError(f"name must be a string, got {name!r}")
    return "/".join([*current().scopes, name])


def unique_name(name: str) -> str:
    """`name` inside the current scopes, followed by `_1`, `_2`, … if it was given out before."""
    full = scoped_name(name)
    with _counting:
        count = _used[full]
        _used[full] += 1
    return full if count == 0 else f"{full}_{count}"


def reset_names() -> None:
    """Forget which names have been given out."""
    with _counting:
        _used.clear()


@contextmanager
def name_scope(name: str) -> Iterator[str]:
    """Context manager: names that are given out inside start with `name/`."""
    scopes = (*current().scopes, name)
    with changed(scopes=scopes):
        yield "/".join(scopes) + "/"


# --- Python's cycle collector ---------------------------------------------------------------------


@contextmanager
def uncollected() -> Iterator[None]:
    """Context manager: switch off Python's cycle collector. While many objects are made that all
    stay, it goes through them again and again, and finds nothing. That took a third of the time of
    compiling 1000 layers in a process that had loaded PyTorch, and a tenth of importing a library.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def make_old() -> None:
    """Move all objects to the oldest generation of Python's cycle collector at once, because they
    will stay. Otherwise its next collections, of young objects, go through all that a library has
    made.
    """
    if not gc.get_freeze_count():  # What somebody has frozen stays frozen.
        gc.freeze()
        gc.unfreeze()
