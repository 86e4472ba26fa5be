"""The table of kernels that Backplane brings: measures the choices, and writes them with their
measurements.

    python -m benchmarks.kernels [ENGINE …] [CHOICE …]

measures with one thread on one core, on the processor's clock, and writes
`benchmarks/results/kernels.json`, and what follows from the measurements: the limits in
`src/backplane/engines/kernel_table.py`, and its section of
`docs/measurements.md`. Engines, or choices such as
`jax.loops`, that are not named keep what was measured before. With `--page` nothing is measured.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from backplane.cli import kernels as measuring
from backplane.engines.kernels import CHOICES
from backplane.known_engines import ENGINES
from benchmarks import machine, sections
from benchmarks.workers import environment

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks/results/kernels.json"
TABLE = ROOT / "src/backplane/engines/kernel_table.py"

PROCESSORS = "on"
"""The key of the results that says on what each choice was measured."""

HEAD = '''"""The limits of `kernels`. Measured by `python -m benchmarks.kernels`."""

from math import inf

LIMITS: dict[str, dict[str, float]] = {'''

INTRODUCTION = """\
# The table of kernels

Where an engine can compute the same in two ways, and sizes decide which is quicker, a table
decides. For each choice it holds a *limit*: below it one form serves, from it on the other. Results
are equal within the tolerance of the engine. `python -m benchmarks.kernels` measures the table, and
writes it and this section.

`backplane bench --kernels` measures on your machine, with the threads that your programs would
have. It writes `backplane-kernels.json` beside `keras.json`, and processes that begin later follow
that table. `BACKPLANE_KERNELS=FILE` names another file for both. `BACKPLANE_KERNELS=off` lets the
plain form serve everywhere, which is the library's own kernel where it has one. A file that is no
such table is an error, which names the file.

The choices are for the processor. On other devices convolutions and products are the library's.
Whether oneDNN multiplies faster than MKL is tried once more in each process, unless you have
measured it, because it differs from processor to processor.

Times are the least milliseconds of several calls, on one core, with one thread, on the processor's
clock. Beside each choice stands what it was measured on. A case whose times differ by less than 5 %
decides nothing, and no limit is so low that a compiler's work would not be worth it. Blocks serve
only where they gained on processors with large caches, too. Results and
gradients are reduced to their sums where that takes the same time in both forms.
"""


def _measured(name: str) -> dict[str, Any]:
    """The choices of an engine, or one choice, on one core."""
    engine, _, choice = name.partition(".")
    os.environ.update(environment(engine))
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    return measuring.on_engine(engine, "cpu", *([name] if choice else []))


def _limit(name: str, measurements: list[Any]) -> float:
    """The limit that follows from the measurements for a dtype."""
    choice = CHOICES[name]
    return choice.least if choice.tried else measuring.fitted(name, measurements)


def _source(table: dict[str, Any]) -> Iterator[str]:
    yield HEAD
    for name, by_dtype in sorted(table.items()):
        limits = ", ".join(f'"{dtype}": {_limit(name, rows)}' for dtype, rows in by_dtype.items())
        yield f'    "{name}": {{{limits}}},'
    yield "}\n"


def text(table: dict[str, Any], processors: dict[str, str]) -> str:
    """The section of docs/measurements.md."""
    return "\n".join(_lines(table, processors))


def _lines(table: dict[str, Any], processors: dict[str, str]) -> Iterator[str]:
    yield INTRODUCTION
    for engine in ENGINES:
        yield f"## {engine}\n"
        for name, by_dtype in sorted(table.items()):
            if name.partition(".")[0] == engine:
                yield from _choice(name, by_dtype, processors[name])


def _choice(name: str, by_dtype: dict[str, Any], processor: str) -> Iterator[str]:
    choice = CHOICES[name]
    limits = {dtype: _limit(name, rows) for dtype, rows in by_dtype.items()}
    shown = ", ".join(f"{_limit_text(limit)} in {dtype}" for dtype, limit in limits.items())
    yield f"### `{name}`\n"
    yield f"Below the limit: {choice.below}. From it on: {choice.above}."
    yield f"The quantity: {choice.quantity}. The limit: {shown}."
    yield f"Measured on {processor}.\n"
    yield "| work | dtype | quantity | below, ms | from it on, ms |\n|---|---|---|---|---|"
    for dtype, rows in by_dtype.items():
        for work, quantity, *times in rows:
            serves = int(quantity >= limits[dtype])
            cells = [f"**{t:g}**" if i == serves else f"{t:g}" for i, t in enumerate(times)]
            yield f"| {work} | {dtype} | {_figure(quantity)} | {' | '.join(cells)} |"
    yield ""


def _figure(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:g}"


def _limit_text(limit: float) -> str:
    return "none" if limit == math.inf else _figure(limit)


def main() -> None:
    """The command."""
    older = json.loads(RESULTS.read_text(encoding="utf-8"))
    processors = {name: p for name, p in older.pop(PROCESSORS).items() if name in CHOICES}
    table = {name: found for name, found in older.items() if name in CHOICES}
    processor = f"{machine.processor()}, {os.cpu_count()} cores"
    for wanted in [] if "--page" in sys.argv else sys.argv[1:] or ENGINES:
        print(wanted, flush=True)
        for name, found in _measured(wanted).items():
            table[name] = {dtype: x["measured"] for dtype, x in found.items()}
            processors[name] = processor
        _write(table, processors)
    _write(table, processors)


def _write(table: dict[str, Any], processors: dict[str, str]) -> None:
    """Write the measurements, and what follows from them."""
    stored = json.dumps({**table, PROCESSORS: processors}, indent=1, ensure_ascii=False)
    RESULTS.write_text(f"{stored}\n", encoding="utf-8")
    TABLE.write_text("\n".join(_source(table)), encoding="utf-8")
    sections.write("kernels", text(table, processors))


if __name__ == "__main__":
    main()
