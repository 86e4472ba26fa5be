"""Starting the processes of a mesh on this machine, for tests."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, NamedTuple

from lean import lean

TESTS = Path(__file__).parents[1]


class Ended(NamedTuple):
    """How a process ended."""

    code: int
    printed: str
    """What it has written to stdout."""
    errors: str
    """What it has written to stderr. So do libraries, at any time."""
    at: float
    """When, by `time.time`."""

    @property
    def output(self) -> str:
        """All that it has written."""
        return self.printed + self.errors


def environment(settings: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process that finds the tests' modules."""
    paths = os.pathsep.join([str(TESTS), *sys.path])
    return lean({**os.environ, "KERAS_BACKEND": "numpy", "PYTHONPATH": paths, **settings})


_kept: list[socket.socket] = []
"""Sockets that keep ports for the servers of tests, as long as this process lives."""


def free_port() -> int:
    """A port for a server that starts later. Nobody else gets it meanwhile: the system gives no
    port away to which a socket is bound, and lets a server listen beside one that does not.
    """
    keeper = socket.socket()
    keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    keeper.bind(("127.0.0.1", 0))
    _kept.append(keeper)
    port: int = keeper.getsockname()[1]
    return port


def run_all(
    commands: Sequence[Sequence[str]],
    settings: Mapping[str, str],
    limit: float,
    folder: Path | None = None,
) -> list[Ended]:
    """Run Python with each of these arguments, all at once, in a folder. What has not ended within
    `limit` seconds is killed.
    """
    with ExitStack() as stack:
        files = [
            [stack.enter_context(tempfile.TemporaryFile("w+")) for _ in range(2)] for _ in commands
        ]
        processes = [
            subprocess.Popen(
                [sys.executable, *command],
                env=environment(settings),
                cwd=folder,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
            for command, (stdout, stderr) in zip(commands, files, strict=True)
        ]
        ends: dict[int, float] = {}
        started = time.time()
        while len(ends) < len(processes):
            for i, process in enumerate(processes):
                if i not in ends and process.poll() is not None:
                    ends[i] = time.time()
            if time.time() > started + limit:
                for process in processes:  # And what they have started.
                    with suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
            time.sleep(0.05)
        return [
            Ended(process.returncode, *map(_text, pair), ends[i])
            for i, (process, pair) in enumerate(zip(processes, files, strict=True))
        ]


def _text(file: IO[str]) -> str:
    file.seek(0)
    return file.read()
