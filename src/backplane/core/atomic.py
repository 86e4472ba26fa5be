"""Writes that happen as a whole or not at all, whatever interrupts them and whoever runs beside.

Three things can come between two writes to variables: an exception, a signal whose handler raises,
and another thread. `at_once` writes in one call into C, where Python neither runs handlers nor, but
for functions that let go of its lock, other threads. A `Domain` has the lock that serializes calls
which write to the same variables, and `deferred_signals` is for engines that write to variables
before a call of theirs returns.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import os
from _thread import RLock, get_ident
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from itertools import count, starmap
from operator import call
from typing import Any, Protocol, TypeVar
from weakref import WeakSet, ref

Calls = Sequence[tuple[Any, ...]]
"""Functions with their arguments."""

T = TypeVar("T")


def at_once(calls: Calls) -> None:
    """Call functions in C that cannot fail, with no interrupt between the first and the last."""
    deque(starmap(call, calls), maxlen=0)


# --- threads --------------------------------------------------------------------------------------

_serials = count()
_joining = RLock()
"""A thread may take it again, as the locks of domains."""


converting = RLock()
"""Held while a variable's own array becomes a value of an engine, which may keep its memory: no
other thread is to make a second value of it."""


class _Free:
    """A context manager that does nothing, by functions in C: `with` takes 40 ns."""

    __enter__ = __exit__ = staticmethod("".format)


FREE: AbstractContextManager[Any] = _Free()  # type: ignore[assignment]


class Domain:
    """Variables that were first met in one function, and the lock of the calls that write to them.

    A function with updates takes the locks of all domains of its variables, in the order in which
    they were made, so that calls wait for each other and never in a circle. A thread may take a
    lock again: a finalizer or a handler of a signal may call a function.

    Other functions take no lock, which would cost a tenth of a small call. Where values are only
    replaced, they have a whole state from the moment when they took it. Where somebody writes over
    the variables' memory, they look whether the version is still the same at their end, and run
    once more under the locks if it is not.
    """

    __slots__ = ("__weakref__", "count", "guard", "lock", "serial", "version")

    def __init__(self) -> None:
        self.serial = next(_serials)
        self.lock = RLock()
        self.guard: AbstractContextManager[Any] = FREE
        """The lock, once a function writes over the variables' memory: held for single reads."""
        self.count = 0
        self.version: int | None = 0
        """Equal to `count`, but None while somebody writes over the variables' memory."""
        _domains.add(self)


_domains: WeakSet[Domain] = WeakSet()


class InDomain(Protocol):
    """A variable."""

    domain: Domain | None


def domains_of(variables: Iterable[InDomain]) -> list[Domain]:
    """The domains of variables, in the order of their locks."""
    domains = {d for v in variables if (d := v.domain) is not None}
    return sorted(domains, key=lambda d: d.serial)


def join(variables: Sequence[InDomain]) -> list[Domain]:
    """The domains of variables, after those that had none have got one of their own."""
    with _joining:
        made = Domain() if any(v.domain is None for v in variables) else None
        for v in variables:
            if v.domain is None:  # A handler that ran meanwhile may have made one.
                v.domain = made
    return domains_of(variables)


def under(
    locks: Sequence[AbstractContextManager[Any]], function: Callable[..., T], *args: object
) -> T:
    """`function(*args)` while all locks are held. Only a `with` is sure to give a lock back."""
    if not locks:
        return function(*args)
    a, b, c, d = [*locks[:4], *[FREE] * (4 - len(locks[:4]))]
    with a, b, c, d:
        return under(locks[4:], function, *args)


def alone(variables: Sequence[InDomain], write: Callable[..., Any], *args: object) -> None:
    """`write(*args)` while nobody else writes to the variables, whose domains may come late."""

    def attempt() -> bool:
        if domains_of(variables) != domains:  # Somebody was quicker.
            return False
        write(*args)
        return True

    while True:
        domains = domains_of(variables)
        locks: list[AbstractContextManager[Any]] = [d.lock for d in domains]
        if any(v.domain is None for v in variables):
            locks.append(_joining)
        if under(locks, attempt):
            return


def again(call: Callable[[Any], T], domains: Sequence[Domain]) -> Callable[[Any], T]:
    """The second run of a function without updates, when somebody has written meanwhile: the same
    call once more, while it holds the locks. It refers to `call` weakly, which refers to it.
    """
    living = ref(call)

    def locked(inputs: object) -> T:
        for d in domains:
            d.version = d.count  # It is None where a write was interrupted before its end.
        function = living()
        assert function is not None
        return function(inputs)

    return lambda inputs: under([d.lock for d in domains], locked, inputs)


PATIENCE = 10.0
"""Seconds that a fork waits for each lock. Whoever holds it so long may wait for the fork."""

_held: dict[int, list[Any]] = {}
"""By thread: the locks that it holds while it forks."""


def _before_fork() -> None:
    """Wait for calls that write over variables' memory, of which a child would inherit a half."""
    held = _held[get_ident()] = []
    if _joining.acquire(timeout=PATIENCE):
        held.append(_joining)
        writing = [d for d in _domains if d.guard is d.lock]
        locks = [d.lock for d in sorted(writing, key=lambda d: d.serial)]
        held.extend(lock for lock in locks if lock.acquire(timeout=PATIENCE))


def _after_fork() -> None:
    for lock in _held.pop(get_ident()):
        lock.release()


def _after_fork_in_child() -> None:
    """In a forked child nobody else is left who could give a lock back."""
    _held.clear()
    for lock in (_joining, converting, *[d.lock for d in _domains]):
        lock._at_fork_reinit()  # type: ignore[attr-defined]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child
    )


# --- signals --------------------------------------------------------------------------------------

NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGALRM", "SIGUSR1", "SIGUSR2")
_NUMBERS = [getattr(_signal, name) for name in NAMES if hasattr(_signal, name)]
"""Signals whose handlers people let raise."""


class deferred_signals:  # noqa: N801 - used like a function
    """Context manager: Python's handlers of signals are called at its end only.

    It takes 2 µs; with the functions of `signal`, which make enumerations, it would take 13. Python
    runs handlers in the main thread; in others there is nothing to do.
    """

    def __enter__(self) -> None:
        from threading import main_thread  # Here: few programs need it.

        self.handlers: dict[int, Any] = {}
        self.caught: list[tuple[int, Any]] = []
        if get_ident() != main_thread().ident:
            return
        try:
            for number in _NUMBERS:
                handler = _signal.getsignal(number)
                if callable(handler):
                    self.handlers[number] = handler
                    _signal.signal(number, self._catch)
        except BaseException:
            self._restore()
            raise

    def _catch(self, *given: Any) -> None:
        self.caught.append(given)

    def _restore(self) -> None:
        for number, handler in self.handlers.items():
            _signal.signal(number, handler)

    def __exit__(self, *exception: object) -> None:
        self._restore()
        for number, frame in self.caught:
            self.handlers[number](number, frame)
