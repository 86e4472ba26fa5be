"""What it costs that updates are written as a whole: the same function with and without that.

    python -m benchmarks.protection [ENGINE …]

With it, a call holds the locks of its variables, counts their versions and, where the engine needs
it, defers signals. Without it, the text of the call has none of this. Both calls run the same
program on the same variables and take turns, block by block. Times are those of the processor.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import repeat
from time import process_time
from typing import Any
from unittest.mock import patch

import numpy as np

from backplane.known_engines import ENGINES
from benchmarks import processes
from benchmarks.interleaved import last_core
from benchmarks.workloads import mlp

BLOCKS = {"small": 2000, "mlp": 1000}
"""Of each of the two calls."""
WARMUP = 20
"""Calls after which a function has all its programs."""
CALLS = {"small": 20, "mlp": 1}
"""Of a block."""

Call = Callable[..., Any]
PROTECTION = re.compile(
    r"^( *)with (?:lock\d+|deferred\(\)).*:$|^( *)domain\d+\.version = .*$", re.M
)


@contextmanager
def both() -> Iterator[list[tuple[Call, Call]]]:
    """Context manager: the calls with updates that are written meanwhile, each with and without
    protection. Both have the same program and the same variables.
    """
    from backplane.core.source import Source

    found: list[tuple[Call, Call]] = []
    write = Source.function

    def function(source: Source, name: str) -> Call:
        call = write(source, name)
        plain, count = PROTECTION.subn(_plain, source.text)
        if source.title == "call" and count:
            exec(plain, source.names)
            found.append((call, source.names.pop(name)))
        return call

    with patch.object(Source, "function", function):
        yield found


def _plain(found: re.Match[str]) -> str:
    block, line = found.groups()
    return f"{line}pass" if block is None else f"{block}if True:"


def small() -> tuple[list[Any], list[np.ndarray], Any, list[Any]]:
    """Placeholders, what they are fed, the loss, and eight weights by eight."""
    from backplane import backend as K

    x, w = K.placeholder((8, 8)), K.variable(np.full((8, 8), 0.1))
    return [x], [np.ones((8, 8), "float32")], K.mean(K.square(K.dot(x, w))), [w]


def perceptron() -> tuple[list[Any], list[np.ndarray], Any, list[Any]]:
    """The same of the multilayer perceptron of the benchmarks."""
    from backplane import backend as K

    problem = mlp.problem("mlp-sgd")
    x = K.placeholder(problem.x.shape)
    y = K.placeholder(problem.y.shape, dtype="int32")
    weights = [K.variable(w) for w in problem.parameters]
    return [x, y], [problem.x, problem.y], mlp.k_loss(K, weights, x, y, problem), weights


PROGRAMS: Mapping[str, Callable[[], Any]] = {"small": small, "mlp": perceptron}


def calls(program: str) -> tuple[tuple[Call, Call], list[np.ndarray]]:
    """A step of descent with momentum, with protection and without it, after its first calls; and
    what it is fed.
    """
    from backplane import backend as K

    inputs, values, loss, weights = PROGRAMS[program]()
    updates = []
    for w, g in zip(weights, K.gradients(loss, weights), strict=True):
        v = K.zeros(K.int_shape(w))
        step = 0.9 * v - 1e-4 * g
        updates += [(v, step), (w, w + step)]
    with both() as found:
        f = K.function(inputs, [loss], updates)
        for _ in range(WARMUP):
            f(values)
    return found[-1], values


def measured() -> None:
    """The child: seconds per call of both, block by block."""
    (program,) = processes.begin()
    pair, values = calls(program)
    seconds: list[list[float]] = [[], []]
    count = CALLS[program]
    for turn in range(BLOCKS[program]):
        for which in (0, 1) if turn % 2 else (1, 0):
            call = pair[which]
            start = process_time()
            for _ in repeat(None, count):
                call(values)
            seconds[which].append((process_time() - start) / count)
    processes.say(seconds)


def row(engine: str, program: str) -> str:
    """The time of a call, and what protection adds: the median of pairs of blocks, and its standard
    error, which is 0.93 of their interquartile range over the square root of their number.
    """
    answer = processes.child("benchmarks.protection", engine, last_core(), program)[1]
    with_it, without = map(np.array, answer)
    call = float(np.median(without))
    low, added, high = np.quantile(with_it - without, [0.25, 0.5, 0.75])
    error = 0.93 * (high - low) / np.sqrt(len(without))
    return (
        f"{call * 1e6:,.1f} µs | {added * 1e6:.2f} ± {error * 1e6:.2f} µs | "
        f"{added / call:.2%} ± {error / call:.2%}"
    )


def main() -> None:
    """Print a table."""
    print("| engine | program | a call | added | of a call |\n|---|---|---|---|---|")
    for engine in sys.argv[1:] or ENGINES:
        for program in PROGRAMS:
            print(f"| `{engine}` | {program} | {row(engine, program)} |", flush=True)


if __name__ == "__main__":
    measured() if len(sys.argv) == 3 and sys.argv[1].isdigit() else main()
