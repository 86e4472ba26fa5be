"""Looks for programs that an engine gets wrong, and for bad calls with bad errors.

python -m fuzz --engine torch --programs 1000 --seed 3
python -m fuzz --minutes 10                              all engines in turn
"""

from __future__ import annotations

import argparse
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
from fuzz.search import search


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--engine", default="", help="names with commas; default: all installed")
    parser.add_argument("--seed", type=int, default=None, help="default: another one each time")
    parser.add_argument("--programs", type=int, default=10**9, help="programs per engine")
    parser.add_argument("--minutes", type=float, default=1.0, help="for all engines together")
    given = parser.parse_args()
    np.seterr(all="ignore")
    names = [n for n in given.engine.split(",") if n] or [
        n for n in engines.names() if engines.installed(n)
    ]
    seed = int(time.time()) if given.seed is None else given.seed
    failures = 0
    for name in names:
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


if __name__ == "__main__":
    sys.exit(main())
