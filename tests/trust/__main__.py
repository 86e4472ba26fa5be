"""The long runs: thousands of models, a million calls, graphs of 100,000 nodes, interrupts and
threads.

python -m trust                                          all engines in turn
python -m trust --engine torch --models 2000 --calls 1000000 --nodes 100000
python -m trust --attack 30                              interrupts and threads only
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile

os.environ["KERAS_HOME"] = tempfile.mkdtemp(prefix="backplane-soak-")
os.environ["KERAS_BACKEND"] = "numpy"

from backplane import engines
from trust.attack import alarms, threads
from trust.long_life import calls, deep, models, timed

COMPILING = {"static", "once"}
"""Capabilities of engines whose compilers and calls take long: a tenth of the models and calls."""

DEEP = "blocks"
"""The capability of engines that take graphs of any depth; compilers have limits of their own."""

MEGABYTES = 20.0
"""What the second half of a run may add to the process."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="trust", description=__doc__)
    parser.add_argument("--engine", default="", help="names; default: all installed")
    parser.add_argument("--models", type=int, default=2_000)
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument(
        "--attack", type=float, default=0, help="seconds of interrupts, and of threads, instead"
    )
    given = parser.parse_args()
    names = given.engine.replace(",", " ").split() or [
        n for n in engines.names() if engines.installed(n)
    ]
    if given.attack:
        return 1 if sum(_wrong(name, given.attack) for name in names) else 0
    return 1 if sum(_failures(name, given) for name in names) else 0


def _wrong(name: str, seconds: float) -> int:
    with engines.use(name):
        found = alarms(seconds)
        made, lost = threads(seconds)
    listed = ", ".join(f"{count} {kind}" for kind, count in sorted(found.items()))
    print(f"{name}: alarms: {listed}; {made} updates by threads, {lost} lost", flush=True)
    return lost + sum(n for kind, n in found.items() if kind not in ("raised", "dropped"))


def _failures(name: str, given: argparse.Namespace) -> int:
    failures = 0
    with engines.use(name) as engine:
        part = 10 if engine.capabilities & COMPILING else 1
        for run, times in ((models, given.models // part), (calls, given.calls // part)):
            grown, seconds = timed(lambda run=run, times=times: run(times))
            print(
                f"{name}: {times} {run.__name__} in {seconds:.0f} s; the second half added "
                f"{grown.megabytes:.1f} MB, {grown.objects} objects, {grown.blocks} blocks",
                flush=True,
            )
            failures += grown.megabytes > MEGABYTES
        if DEEP in engine.capabilities:
            for nodes in (given.nodes // 10, given.nodes * 3 // 10, given.nodes):
                _, seconds = timed(lambda nodes=nodes: deep(nodes))
                print(f"{name}: {nodes} nodes and their gradient in {seconds:.1f} s", flush=True)
    return failures


if __name__ == "__main__":
    sys.exit(main())
