"""The ledger: which seeds ran on which engine, with which version, and what came of them. So counts
add up over runs, and each run goes on where the last one has ended.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import backplane
import waiting
from fuzz.search import OUTCOMES, Result

HERE = Path(__file__).parent
PATH = HERE / "ledger.json"
WRITTEN_BY = (
    "catalogue.py", "control.py", "layers.py", "programs.py", "special.py", "training.py",
    "writer.py",
)  # fmt: skip
"""The files on which the program of a seed depends."""

Row = dict[str, Any]
"""A range of seeds: `version`, `writer`, `first`, `last`, the number of each outcome, and the list
of `failing` seeds."""


def load() -> dict[str, list[Row]]:
    """Rows by engine."""
    found: dict[str, list[Row]] = json.loads(PATH.read_text()) if PATH.exists() else {}
    return found


def next_seed(rows: Iterable[Row]) -> int:
    """The first seed after all that ran."""
    return max((row["last"] + 1 for row in rows), default=0)


def add(results: Iterable[Result]) -> None:
    """Enter results into the file."""
    rows = load()
    by_engine = sorted(results, key=lambda r: (r.engine, r.seed))
    for engine, found in groupby(by_engine, key=lambda r: r.engine):
        rows[engine] = list(_joined([*rows.get(engine, []), *[_row(r) for r in found]]))
    body = ",\n".join(
        f' "{engine}": [\n  ' + ",\n  ".join(json.dumps(row) for row in rows[engine]) + "\n ]"
        for engine in sorted(rows)
    )
    PATH.write_text(f"{{\n{body}\n}}\n")


def _row(result: Result) -> Row:
    return {
        "version": _version(), "writer": _writer(), "first": result.seed, "last": result.seed,
        **{outcome: int(result.outcome == outcome) for outcome in OUTCOMES},
        "failing": [result.seed] if result.outcome == "failed" else [],
    }  # fmt: skip


def _joined(rows: list[Row]) -> Iterator[Row]:
    """The rows, where neighbours of the same version are one."""
    rows = sorted(rows, key=lambda row: row["first"])
    last = rows[0]
    for row in rows[1:]:
        same = all(row[key] == last[key] for key in ("version", "writer"))
        if same and row["first"] == last["last"] + 1:
            sums = {key: last[key] + row[key] for key in (*OUTCOMES, "failing")}
            last = {**last, **sums, "last": row["last"]}
        else:
            yield last
            last = row
    yield last


def counts(rows: Iterable[Row]) -> Counter[str]:
    """How many programs had each outcome."""
    total: Counter[str] = Counter()
    for row in rows:
        total.update({outcome: row[outcome] for outcome in OUTCOMES})
    return total


@cache
def _version() -> str:
    """The version of Backplane, and the last commit of its sources."""
    command = ["git", "log", "-1", "--format=%h", "--", HERE.parents[1] / "src"]
    commit = waiting.run(command, cwd=HERE, check=True)
    return f"{backplane.__version__}+{commit.stdout.strip()}"


@cache
def _writer() -> str:
    """What tells apart versions of the fuzzer that write different programs for a seed."""
    text = b"".join((HERE / name).read_bytes() for name in WRITTEN_BY)
    return hashlib.sha256(text).hexdigest()[:8]
