"""Starting the processes of a mesh on this machine, for tests."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).parents[1]


class Ended(NamedTuple):
    """How a process ended."""

    code: int
    output: str
    """All that it has written."""
    at: float
    """When, by `time.time`."""


def environment(settings: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process that finds the tests' modules."""
    paths = os.pathsep.join([str(TESTS), *sys.path])
    return {**os.environ, "KERAS_BACKEND": "numpy", "PYTHONPATH": paths, **settings}


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
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
        outputs = [stack.enter_context(tempfile.TemporaryFile("w+")) for _ in commands]
        processes = [
            subprocess.Popen(
                [sys.executable, *command],
                env=environment(settings),
                cwd=folder,
                stdout=output,
                stderr=output,
            )
            for command, output in zip(commands, outputs, strict=True)
        ]
        ends: dict[int, float] = {}
        started = time.time()
        while len(ends) < len(processes):
            for i, process in enumerate(processes):
                if i not in ends and process.poll() is not None:
                    ends[i] = time.time()
            if time.time() > started + limit:
                for process in processes:
                    process.kill()
            time.sleep(0.05)
        for output in outputs:
            output.seek(0)
        ended = enumerate(zip(processes, outputs, strict=True))
        return [Ended(p.returncode, output.read(), ends[i]) for i, (p, output) in ended]
