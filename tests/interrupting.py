"""Signals whose handler raises, at a time that the test chooses."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Interrupt(BaseException):
    """What the handler of a signal raises."""


@contextmanager
def handling(*numbers: int) -> Iterator[None]:
    """A block in which handlers of these signals raise `Interrupt`."""

    def interrupt(*_: Any) -> None:
        raise Interrupt

    before = {n: signal.signal(n, interrupt) for n in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


AGAIN = 0.1
"""Seconds after which an alarm that was not heard rings again."""


class Alarm:
    """Sends a signal after a while, whose handler raises `Interrupt`.

    Attributes:
        rang: Whether the handler was called. A test that works until the alarm asks this before
            each round. Python drops what a handler raises where it collects garbage and JAX has a
            hook for that, so a loop that only the exception ends may run for ever.
    """

    rang = False

    def set(self, seconds: float) -> None:
        """Let it ring after so many seconds, and then until it is heard: the system may hand the
        signal to another library's thread, of which Python 3.11 does not tell its main thread.
        """
        self.rang = False
        signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)

    def off(self) -> None:
        """Let it not ring."""
        signal.setitimer(signal.ITIMER_REAL, 0)

    def ring(self, *_: Any) -> None:
        """What the handler does."""
        self.off()
        self.rang = True
        raise Interrupt


@contextmanager
def an_alarm() -> Iterator[Alarm]:
    """An alarm that is off after the block."""
    alarm = Alarm()
    before = signal.signal(signal.SIGALRM, alarm.ring)
    try:
        yield alarm
    finally:
        alarm.off()
        signal.signal(signal.SIGALRM, before)
