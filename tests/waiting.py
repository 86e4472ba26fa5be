"""Waits for processes and threads, but not for ever: a test that hangs fails and says where."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from typing import Any

LIMIT = 500.0
"""Seconds: fewer than `faulthandler_timeout` in pyproject.toml, which ends a whole test process."""
AFTERWARDS = 10.0
"""Seconds that a process has to say where it hangs."""


def run(
    command: Sequence[Any] | str,
    *,
    check: bool = False,
    timeout: float = LIMIT,
    env: Mapping[str, str] | None = None,
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    """Run a command like `subprocess.run`, and keep what it writes to stdout and stderr.

    Raises:
        AssertionError: It has not ended in time, or it has failed and `check` is True. The message
            has what it wrote. If Python hangs, that ends with the tracebacks of its threads.
    """
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**(os.environ if env is None else env), "PYTHONFAULTHANDLER": "1"},
        # What it starts hangs as well, and keeps the pipes open: all of them are ended together.
        start_new_session=True,
        **options,
    )
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        out, err = _ended(process)
        raise AssertionError(f"{command} runs for more than {timeout} s\n{out}\n{err}") from None
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    if check and process.returncode:
        raise AssertionError(f"{command} ended with {process.returncode}\n{out}\n{err}")
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def _ended(process: subprocess.Popen[str]) -> tuple[str, str]:
    """What a process and its children wrote until they were ended."""
    os.killpg(process.pid, signal.SIGABRT)
    try:
        return process.communicate(timeout=AFTERWARDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()


def joined(*threads: threading.Thread) -> None:
    """Wait until threads have ended."""
    for thread in threads:
        thread.join(LIMIT)
        assert not thread.is_alive(), f"{thread.name} runs for more than {LIMIT} s"
