"""Looks for programs that an engine gets wrong, and for bad calls with bad errors.

python -m fuzz --minutes 10                       go on where the last run has ended, all engines
python -m fuzz --engine torch --seed 1234         the program of one seed again
python -m fuzz --engine torch --minutes 60 --below 20000
python -m fuzz --counts                           how many programs the ledger counts
python -m fuzz --engine torch --bad-calls
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
import tempfile
import time
from collections.abc import Sequence

os.environ["KERAS_HOME"] = tempfile.mkdtemp(prefix="backplane-fuzz-")
os.environ["KERAS_BACKEND"] = "numpy"

import numpy as np

from backplane import engines
from compile_quickly import SETTINGS
from fuzz import ledger, processes
from fuzz.bad_calls import calls, judged
from fuzz.search import Result, results


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--engine", default="", help="names; default: all installed")
    parser.add_argument(
        "--seed", type=int, default=None, help="check the program of this seed only"
    )
    parser.add_argument("--minutes", type=float, default=1.0, help="for all engines together")
    parser.add_argument("--below", type=int, default=sys.maxsize, help="stop before this seed")
    parser.add_argument("--jobs", type=int, default=2, help="processes at once")
    parser.add_argument("--counts", action="store_true", help="print the sums of the ledger")
    parser.add_argument(
        "--bad-calls", action="store_true", help="make all bad calls instead, on graphs and arrays"
    )
    given = parser.parse_args()
    np.seterr(all="ignore")
    names = given.engine.replace(",", " ").split() or [
        n for n in engines.names() if engines.installed(n)
    ]
    if given.counts:
        return _print_counts()
    if given.bad_calls:
        os.environ.update(SETTINGS | os.environ)
        return 1 if sum(map(_bad_calls, names)) else 0
    if given.seed is not None:
        processes.prepare(given.seed)
        return _report(list(results(given.seed, names)))
    failures, rows = 0, ledger.load()
    following = {name: ledger.next_seed(rows.get(name, [])) for name in names}
    end = time.monotonic() + 60 * given.minutes
    for found in processes.run(following, given.jobs, end, given.below):
        ledger.add(found)
        failures += _report(found)
    _print_counts()
    return 1 if failures else 0


def _report(found: Sequence[Result]) -> int:
    """Print the failures; how many there are."""
    failures = [result for result in found if result.outcome == "failed"]
    for seed, name, _, text in failures:
        print("-" * 100, f"seed {seed} on {name}", text, sep="\n", flush=True)
    return len(failures)


def _print_counts() -> int:
    for name, rows in ledger.load().items():
        counts = ledger.counts(rows)
        print(f"{name}: " + ", ".join(f"{n} {outcome}" for outcome, n in counts.items()))
    return 0


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
