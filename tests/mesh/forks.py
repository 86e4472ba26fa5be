"""Processes that are forked from some that have imported their libraries: to import them takes
longer than most of what tests do with them.

`python -m mesh.forks MODULE OTHER…` imports these modules. For each command in a line of its input,
it forks a process that calls the function `main` of MODULE. When all of these have ended, it writes
a line that says how. Modules must start no threads when they are imported: a fork has none of them.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from mesh.processes import Ended, environment

SERVERS = 2
"""Processes of a mesh have sets in orders of their own, and other seeds, and must agree all the
same. So those with even and with odd numbers are forked from different processes."""


class Forks:
    """What runs commands like `mesh.processes.run_all`, in forked processes."""

    def __init__(self, *modules: str, settings: Mapping[str, str]) -> None:
        self._servers = [
            subprocess.Popen(
                [sys.executable, "-m", "mesh.forks", *modules],
                env=environment(settings),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(SERVERS)
        ]

    def __enter__(self) -> Forks:
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers:
            server.communicate()  # A server ends with its input.

    def run_all(
        self, commands: Sequence[Sequence[str]], settings: Mapping[str, str], limit: float
    ) -> list[Ended]:
        """Call `main` with each of these arguments, all at once."""
        with tempfile.TemporaryDirectory() as folder:
            files = [
                [f"{folder}/{name}-{i}" for name in ("out", "err")] for i in range(len(commands))
            ]
            tasks = [[*task, dict(settings), limit] for task in zip(commands, files, strict=True)]
            for i, server in enumerate(self._servers):
                assert server.stdin
                print(json.dumps(tasks[i::SERVERS]), file=server.stdin, flush=True)
            ends: list[Any] = [None] * len(commands)
            for i, server in enumerate(self._servers):
                assert server.stdout
                ends[i::SERVERS] = json.loads(server.stdout.readline())
            return [
                Ended(code, *[Path(file).read_text() for file in pair], at)
                for (code, at), pair in zip(ends, files, strict=True)
            ]


def _begin(files: Sequence[str], settings: Mapping[str, str], limit: float) -> None:
    """Give a forked process what `subprocess.Popen` gives to one that it starts. After `limit`
    seconds it ends, with the tracebacks of its threads.
    """
    for descriptor, file in enumerate([os.devnull, *files]):
        opened = os.open(file, os.O_RDWR | os.O_CREAT)
        os.dup2(opened, descriptor)
        os.close(opened)
    os.environ.update(settings)
    faulthandler.register(signal.SIGALRM, chain=True)
    signal.alarm(int(limit))


def serve() -> list[str]:
    """Fork processes until the input ends. In each of them this returns its arguments."""
    # The collector need not look at the objects of libraries, nor copy them by that.
    gc.freeze()
    for line in sys.stdin:
        processes = []
        for arguments, *rest in json.loads(line):
            process = os.fork()
            if not process:
                _begin(*rest)
                return list(arguments)
            processes.append(process)
        ends = {}
        while len(ends) < len(processes):
            process, status = os.wait()
            ends[process] = os.waitstatus_to_exitcode(status), time.time()
        print(json.dumps([ends[process] for process in processes]), flush=True)
    sys.exit()


if __name__ == "__main__":
    module, *_ = [import_module(name) for name in sys.argv[1:]]
    module.main(*serve())
