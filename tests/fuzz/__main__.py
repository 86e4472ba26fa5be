"""Looks for programs that an engine gets wrong, and for bad calls with bad errors.

python -m fuzz --engine torch --programs 1000 --seed 3
python -m fuzz --minutes 10                              all engines in turn
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
import tempfile
import time
import traceback

os.environ["KERAS_HOME"] = tempfile.mkdtemp(prefix="backplane-fuzz-")
os.environ["KERAS_BACKEND"] = "numpy"
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")

import numpy as np

from backplane import engines
from fuzz.bad_calls import calls, judged
from fuzz.search import search


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--engine", default="", help="names; default: all installed")
    parser.add_argument("--seed", type=int, default=None, help="default: another one each time")
    parser.add_argument("--programs", type=int, default=10**9, help="programs per engine")
    parser.add_argument(
        "--bad-calls", action="store_true", help="make all bad calls instead, on graphs and arrays"
    )
    parser.add_argument("--minutes", type=float, default=1.0, help="for all engines together")
    given = parser.parse_args()
    np.seterr(all="ignore")
    names = given.engine.replace(",", " ").split() or [
        n for n in engines.names() if engines.installed(n)
    ]
    seed = int(time.time()) if given.seed is None else given.seed
    failures = 0
    for name in names if given.bad_calls else ():
        failures += _bad_calls(name)
    for name in () if given.bad_calls else names:
        end = time.monotonic() + 60 * given.minutes / len(names)
        report = search(name, seed, given.programs, end)
        print(
            f"{name}: {report.programs} programs from seed {seed}, {report.skipped} more refused by"
            f" name or of uncertain size, {len(report.failures)} failures",
            flush=True,
        )
        failures += len(report.failures)
        for error in report.failures:
            frames = traceback.format_list(traceback.extract_tb(error.__traceback__)[-3:])
            print("-" * 100, *frames, *traceback.format_exception_only(error), sep="\n")
    return 1 if failures else 0


def _bad_calls(engine: str) -> int:
    """Make all bad calls on an engine; how many have bad errors."""
    made, findings = 0, []
    with engines.use(engine), contextlib.redirect_stdout(io.StringIO()):
        for symbolic in (True, False):
            for call in calls(symbolic):
                made += 1
                findings += [f for f in [judged(*call)] if f is not None]
    print(f"{engine}: {made} bad calls, {len(findings)} with bad errors", *findings, sep="\n")
    return len(findings)


if __name__ == "__main__":
    sys.exit(main())
