"""Lets a call fail at each of its steps in turn, and says what state that left."""

from __future__ import annotations

import dis
import os
import signal
import sys
from _thread import RLock
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import backplane
from backplane.core import atomic
from backplane.core.atomic import deferred_signals
from interrupting import Interrupt

PACKAGE = os.path.dirname(backplane.__file__) + os.sep


class EngineError(RuntimeError):
    """What an engine's library raises."""


def is_ours(frame: Any) -> bool:
    """Whether Backplane's code runs there, also the text that it has written."""
    return frame is not None and frame.f_code.co_filename.startswith((PACKAGE, "<backplane"))


class Injector:
    """Does something at the n-th step of Backplane's code within a block.

    A step is a line ("line"), the end of a call of a function written in C ("return"), the
    beginning of a call that leaves Backplane ("call"), or the beginning of a function written in
    Python ("begin"): Backplane's own, and what Backplane calls. Python runs handlers of signals
    after "return" and at "begin", and nowhere else but in loops.
    """

    def __init__(self, kind: str, number: int, act: Callable[[], None]) -> None:
        self.kind, self.left, self.act = kind, number, act
        self.place = ""

    @property
    def reached(self) -> bool:
        return self.left <= 0

    def _step(self, frame: Any) -> None:
        self.left -= 1
        if self.left == 0 and self.kind == "line" and _leaves_with(frame):
            self.left = 1  # in the next line
        if self.left == 0:
            self.place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
            self.act()

    def _trace(self, frame: Any, event: str, _: Any) -> Any:
        if not is_ours(frame):
            return None
        if event == "line":
            self._step(frame)
        return self._trace

    def _profile(self, frame: Any, event: str, function: Any) -> None:
        if self.kind == "return":
            if event == "c_return" and is_ours(frame):
                self._step(frame)
        elif self.kind == "begin":
            if event == "call" and (is_ours(frame) or is_ours(frame.f_back)):
                self._step(frame)
        elif _cannot_fail(frame, function):
            return
        elif event == "c_call":
            if is_ours(frame):
                self._step(frame)
        elif event == "call" and is_ours(frame.f_back) and not is_ours(frame):
            self._step(frame)

    @contextmanager
    def armed(self) -> Iterator[None]:
        """The block in which the steps are counted."""
        before = sys.gettrace()
        if self.kind == "line":
            sys.settrace(self._trace)
        else:
            sys.setprofile(self._profile)
        try:
            yield
        finally:
            sys.setprofile(None)
            sys.settrace(before)


def _leaves_with(frame: Any) -> bool:
    """Whether a `with` is about to be left. Python sees no signal between the block and `__exit__`,
    but it tells a tracer of a line there. An error of the tracer would keep the lock for ever.
    """
    rest = (i for i in dis.get_instructions(frame.f_code) if i.offset >= frame.f_lasti)
    left = (i for i in rest if i.opname != "SWAP")  # A value that is returned goes below.
    found = [i for i in islice(left, 3) if i.opname == "LOAD_CONST" and i.argval is None]
    return len(found) == 3


def _cannot_fail(frame: Any, function: Any) -> bool:
    """Whether this gives back a lock, or sets handlers of signals: neither needs memory."""
    codes = {f.__code__ for f in vars(deferred_signals).values() if hasattr(f, "__code__")}
    return frame.f_code in codes or isinstance(getattr(function, "__self__", None), RLock)


def locks_held() -> list[str]:
    """The locks of variables that somebody holds."""
    locks = {"_joining": atomic._joining, "converting": atomic.converting}
    locks |= {f"domain {d.serial}": d.lock for d in atomic._domains}
    return [name for name, lock in locks.items() if "unlocked" not in repr(lock)]


def raising(error: type[BaseException]) -> Callable[..., None]:
    """A function that raises `error`, whatever it is called with."""

    def act(*_: Any) -> None:
        raise error("injected")

    return act


def sending(number: int) -> Callable[[], None]:
    """A function that sends this signal to the process."""
    return lambda: signal.raise_signal(number)


FAULTS: dict[str, tuple[str, Callable[[], None], type[BaseException]]] = {
    "SIGINT in each line": ("line", sending(signal.SIGINT), KeyboardInterrupt),
    "SIGTERM in each line": ("line", sending(signal.SIGTERM), Interrupt),
    "SIGINT after each call into C": ("return", sending(signal.SIGINT), KeyboardInterrupt),
    "SIGTERM after each call into C": ("return", sending(signal.SIGTERM), Interrupt),
    "MemoryError of each call": ("call", raising(MemoryError), MemoryError),
    "an error of each call": ("call", raising(EngineError), EngineError),
}
"""Name → kind of step, what happens there, and what must come out."""
