"""A watchdog over the processes of pytest-xdist. pytest itself ends a test that hangs
(`faulthandler_timeout` in pyproject.toml). This one ends what hangs between tests: while tests are
collected, when a process ends, or because a message got lost.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from typing import Any

import pytest


class Watchdog:
    """Ends all test processes if none has said anything for so many seconds. pytest-xdist starts
    others, and calls the tests failed that were to run. If that does not help, it interrupts the
    main process, and ends it at last.
    """

    def __init__(self, limit: float) -> None:
        self.limit, self.heard = limit, time.monotonic()
        self.processes: list[int] = []
        self.done, self.bitten = threading.Event(), False

    def pytest_sessionstart(self) -> None:
        threading.Thread(target=self.watch, daemon=True).start()

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_newgateway(self, gateway: Any) -> None:
        self.processes.append(gateway._rinfo().pid)
        self.heard = time.monotonic()

    def pytest_runtest_logstart(self) -> None:
        self.heard = time.monotonic()

    def pytest_runtest_logfinish(self) -> None:
        self.heard = time.monotonic()

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.bitten:  # Maybe every test has passed, and a process did not end.
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        self.done.set()

    def watch(self) -> None:
        for act in (self.end_processes, self.interrupt, self.leave):
            while time.monotonic() < self.heard + self.limit:
                if self.done.wait(self.limit / 60):
                    return
            print(f"\nNo test has begun or ended for {self.limit:.0f} s.", file=sys.stderr)
            self.bitten = True
            act()
            self.heard = time.monotonic()

    def end_processes(self) -> None:
        """SIGABRT makes them write where they are."""
        for process in tuple(self.processes):
            for number in (signal.SIGABRT, signal.SIGKILL):
                with suppress(ProcessLookupError):
                    os.kill(process, number)
                    time.sleep(2)

    def interrupt(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    def leave(self) -> None:
        os._exit(1)
