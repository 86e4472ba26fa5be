"""A test that waits for what hangs fails, and says where it hangs."""

from __future__ import annotations

import sys
import threading
import time

import pytest

import waiting

HANGS = """
import subprocess, sys, time
print("it begins", flush=True)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
def wait():
    time.sleep(1000)
wait()
"""


def test_a_process_that_hangs_is_ended_with_what_it_has_started() -> None:
    """The other process has the same pipes, and nobody waits until it closes them."""
    started = time.monotonic()
    with pytest.raises(AssertionError, match=r"more than 2 s\nit begins\n(.|\n)*in wait\n"):
        waiting.run([sys.executable, "-c", HANGS], timeout=2)
    assert time.monotonic() < started + waiting.AFTERWARDS


def test_a_process_that_fails_says_why() -> None:
    command = [sys.executable, "-c", "import sys; sys.exit('no reason')"]
    assert waiting.run(command).stderr == "no reason\n"
    with pytest.raises(AssertionError, match="ended with 1\n\nno reason"):
        waiting.run(command, check=True)


def test_a_thread_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    monkeypatch.setattr(waiting, "LIMIT", 0.1)
    with pytest.raises(AssertionError, match=r"runs for more than 0\.1 s"):
        waiting.joined(thread)
    end.set()
    waiting.joined(thread)
