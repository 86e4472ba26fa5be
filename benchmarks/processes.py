"""Workloads that need a new process for each measurement."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any

from benchmarks import timing
from benchmarks.workers import ROOT, environment


def child(module: str, stack: str, core: int, *arguments: str, **extra: str) -> tuple[float, Any]:
    """Run `python -m MODULE CORE ARGUMENTS …` for a stack.

    Returns:
        Seconds from the start of the process to its first line, and that line, read as JSON.
    """
    line = [sys.executable, "-W", "ignore", "-m", module, str(core), *arguments]
    return timed(line, {**environment(stack), **extra})


def timed(line: list[str], env: dict[str, str]) -> tuple[float, Any]:
    """Seconds from the start of a process to its first line, and that line, read as JSON. On the
    processor's clock: to the end of the process.
    """
    start = time.perf_counter()
    with subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, cwd=ROOT, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        first = process.stdout.readline()
        seconds = time.perf_counter() - start
        errors = process.stderr.read()
        used = _waited(process)
    if process.returncode:
        raise RuntimeError(f"{' '.join(line[-3:])}: {errors.strip()[-500:]}")
    return used if timing.on_cpu() else seconds, json.loads(first)


def _waited(process: subprocess.Popen[str]) -> float:
    """Wait for the end of a process; the seconds of the processor that it took, by itself: others
    may end meanwhile.
    """
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return used.ru_utime + used.ru_stime


def say(answer: Any) -> None:
    """The child's first line; what libraries print elsewhere went to stderr."""
    os.write(_answers, (json.dumps(answer) + "\n").encode())


_answers = 1


def begin() -> list[str]:
    """In the child: pin to the core, keep the first line for the answer; the other arguments."""
    global _answers
    from benchmarks.workers import pin

    pin(int(sys.argv[1]))
    _answers = os.dup(1)
    os.dup2(2, 1)
    return sys.argv[2:]
