"""Processes that hold contenders ready and run a block when asked: one process per stack.

The parent sends a line of JSON and waits for a line of JSON, so only one contender runs at a time.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import timing, workloads
from benchmarks.problem import REFERENCE, Plan, Run

ROOT = Path(__file__).parent.parent
"""Where `python -m benchmarks` finds this package."""

ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "TF_NUM_INTRAOP_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "1",
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}
"""Thread counts of every library, for the processes that are measured."""

KEEP_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}
"""Has glibc keep what a program frees, for its next allocation: where a machine hands out pages
slowly, their number would be measured in the place of the program.
"""

MASKS = 8
"""Runs over which the loss with dropout is averaged, each with a mask of its own."""
ON_GPU = "BENCHMARKS_ON_GPU"
"""The variable of the environment that leaves programs the GPU."""
JIT = "-jit"
"""The end of the name of a stack whose steps the library compiles."""
SILENT = {"TF_CPP_MIN_LOG_LEVEL": "3", "GRPC_VERBOSITY": "ERROR", "ABSL_MIN_LOG_LEVEL": "3"}


def environment(stack: str) -> dict[str, str]:
    """The environment of a stack's process: one thread, an accelerator only if `ON_GPU` asks for
    it, and the engine, which Backplane and Keras 3 read from the same variable.
    """
    named = stack.removeprefix("keras3-").removesuffix(JIT)
    asked = "tensorflow" if stack == REFERENCE else named
    hidden = {} if ON_GPU in os.environ else {"CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"}
    keras = {"KERAS_BACKEND": asked, **hidden}
    # Installed libraries have their bytecode: a start that compiles our own would measure Python.
    inherited = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {**inherited, **ONE_THREAD, **SILENT, **keras}


def pin(core: int) -> None:
    """Keep this process, and threads it will start, on one core."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})


@contextmanager
def pinned(core: int) -> Iterator[None]:
    """What is started inside inherits the core; afterwards this process may use all again."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    pin(core)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class WorkerError(RuntimeError):
    """What a contender raised in its process."""


class Worker:
    """The parent's end."""

    def __init__(
        self,
        stack: str,
        core: int,
        extra: Mapping[str, str] | None = None,
        module: str = "benchmarks.workers",
        *arguments: str,
    ) -> None:
        self.stack = stack
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", module, stack, str(core), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**environment(stack), **(extra or {})},
            cwd=ROOT,
            text=True,
        )

    def ask(self, **request: Any) -> Any:
        """Send a request and wait for the answer."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:  # Click would end the command without a word.
            line = ""
        if not line:
            raise WorkerError(f"{self.stack}: the process ended with {self.process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise WorkerError(f"{self.stack}: {answer['error']}")
        return answer["result"]

    def close(self) -> None:
        """End the process."""
        with self.process:
            self.process.communicate(timeout=60)


class Server:
    """The child's end: builds, checks and runs the contenders of one stack."""

    def __init__(self, stack: str) -> None:
        self.stack = stack
        self.runs: dict[str, Run] = {}
        self.plan = Plan(samples=1)

    def prepare(self, workload: str, tiny: bool, only: list[str] | None = None) -> dict[str, str]:
        """Build contenders of a workload and check their numbers; name → "" or an error."""
        found = workloads.module(workload)
        self.plan = found.PLAN
        self.runs = {}
        report = {}
        for name, build in found.contenders(workload, self.stack).items():
            if only is not None and name not in only:
                continue
            try:
                self.runs[name] = checked(found, workload, build, tiny)
                report[name] = ""
            except Exception as error:  # noqa: BLE001 - the report says what it was
                report[name] = " ".join(f"{type(error).__name__}: {error}".split())[:500]
        return report

    def block(self, name: str) -> float:
        """Seconds per call, of one block."""
        return timing.block(self.runs[name], self.plan)

    def drop(self) -> None:
        """Forget the contenders."""
        self.runs = {}


def checked(found: Any, workload: str, build: Any, tiny: bool) -> Run:
    """Build a contender; raise AssertionError unless its numbers are the expected ones.

    A workload with dropout is built a second time, without dropout, for this.
    """
    problem = found.problem(workload, tiny)
    run = build(problem)
    if getattr(problem, "dropout", 0):
        sample = dataclasses.replace(problem, dropout=0.0)
        compare(found, sample, build(sample))
        check_dropout(found.expected(sample)[0], run)
    else:
        compare(found, problem, run)
    return run


def compare(found: Any, problem: Any, run: Run) -> None:
    """Run the contender from its initial state and compare what it gives."""
    expected = found.expected(problem)
    run.reset()
    got = [run.value(run.call(*run.arguments)) for _ in expected]
    tolerance = found.PLAN.tolerance
    np.testing.assert_allclose(np.array(got), np.array(expected), rtol=tolerance, atol=tolerance)


def check_dropout(without: float, run: Run) -> None:
    """Dropout changes the first loss, but on average not by much: single masks may."""
    total = 0.0
    for _ in range(MASKS):
        run.reset()
        total += float(run.value(run.call(*run.arguments)))
    first = total / MASKS
    assert 1e-5 < abs(first / without - 1) < 0.5, f"loss {first}, without dropout {without}"


def serve(make: Callable[..., Any], stack: str, core: str, *arguments: str) -> None:
    """Serve requests until the input ends. What libraries print goes to stderr."""
    pin(int(core))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    server = make(stack, *arguments)
    for line in sys.stdin:
        request = json.loads(line)
        method = getattr(server, request.pop("do"))
        try:
            answer = {"result": method(**request)}
        except Exception as error:  # noqa: BLE001 - it is raised again in the parent
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    serve(Server, *sys.argv[1:])
