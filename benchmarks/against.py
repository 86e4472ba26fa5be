"""This tree of the sources against another one: Backplane's own times, in one interleaved run."""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import lanes, page, processes, start, workloads
from benchmarks.problem import BACKPLANE, ENGINES
from benchmarks.show import SCALE
from benchmarks.workers import ROOT, Worker, environment, pinned

NAMES = (*workloads.INTERLEAVED, "single", *workloads.SEPARATE)
IMPORTS = {"import backplane": "import numpy, backplane", "K": "from backplane import backend"}
DEPTHS = (50, 200, 400)
LIMIT = 1.05
"""The ratio above which a row is pointed at."""

Say = Callable[[str], None]
Take = Callable[[int], list[float]]
"""Measure once, in this tree (0) or the other one (1)."""


@dataclass
class Row:
    """One thing that is measured, in both trees."""

    workload: str
    stack: str
    name: str
    unit: str
    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)

    @property
    def least(self) -> tuple[float, float]:
        """The smallest values: what others do on the machine only adds to them."""
        return min(self.ours), min(self.theirs)

    @property
    def ratio(self) -> float:
        """Of the smallest values; below 1 this tree is faster."""
        ours, theirs = self.least
        return ours / theirs

    @property
    def paired(self) -> float:
        """The median of the ratios within the rounds."""
        return float(np.median(np.divide(self.ours, self.theirs)))


def run(
    names: Sequence[str],
    engines: Sequence[str],
    rounds: int,
    cores: Sequence[int],
    other: Path,
    say: Say,
) -> tuple[list[Row], list[str]]:
    """Measure all, an engine's workload on each core at once; the rows, and what failed in one of
    the trees. An engine that the other tree lacks is left out.
    """
    trees = ROOT, other.resolve()
    failures: list[str] = []

    def one(job: tuple[str, str], core: int) -> list[Row]:
        try:
            return list(_job(*job, rounds, core, trees, say))
        except RuntimeError as error:
            failures.append(f"{job[1]} on {job[0]}: {' '.join(str(error).split())[:300]}")
            return []

    jobs = [(stack, name) for stack in engines or ENGINES for name in names or NAMES]
    return [row for rows in lanes.each(jobs, cores, one) for row in rows], failures


def _job(
    stack: str, name: str, rounds: int, core: int, trees: Sequence[Path], say: Say
) -> Iterator[Row]:
    measured = interleaved if name not in workloads.SEPARATE else separate
    for rows, take in measured(name, stack, core, trees):
        for turn in range(_rounds(name, rounds)):
            say(f"{stack}: {name}, {rows[0].name}, round {turn + 1}")
            values = {side: take(side) for side in random.sample((0, 1), 2)}
            for row, ours, theirs in zip(rows, values[0], values[1], strict=True):
                row.ours.append(ours)
                row.theirs.append(theirs)
        yield from rows


def _rounds(name: str, rounds: int) -> int:
    if name == "start-import":
        return 2 * rounds
    return min(rounds, 3) if name in workloads.SEPARATE else rounds


def interleaved(
    name: str, stack: str, core: int, trees: Sequence[Path]
) -> Iterator[tuple[list[Row], Take]]:
    """The contenders of a workload, each in a process of either tree, block by block."""
    module = workloads.module(name)
    offered = [c for c in module.contenders(name, stack) if name == "single" or c == BACKPLANE]
    if not offered:
        return
    workers = [Worker(stack, core, _of(tree)) for tree in trees]
    try:
        for tree, worker in zip(trees, workers, strict=True):
            report = worker.ask(do="prepare", workload=name, tiny=False, only=offered)
            if failed := {c: error for c, error in report.items() if error}:
                raise RuntimeError(f"{tree}: {name} on {stack}: {failed}")
        for contender in offered:
            row = Row(name, stack, contender, module.PLAN.unit)
            yield [row], lambda side, c=contender: [workers[side].ask(do="block", name=c)]
    finally:
        for worker in workers:
            worker.close()


def separate(
    name: str, stack: str, core: int, trees: Sequence[Path]
) -> Iterator[tuple[list[Row], Take]]:
    """What needs a new process for each measurement."""

    def child(module: str, *arguments: str) -> Callable[[int], tuple[float, Any]]:
        return lambda side: processes.child(module, stack, core, *arguments, **_of(trees[side]))

    if name == "start-import":
        for label, statement in IMPORTS.items() if stack == "numpy" else ():
            yield [Row(name, stack, label, "ms")], _imported(statement, core, trees)
    elif name == "growth":
        whole = child("benchmarks.growth", stack, BACKPLANE, *map(str, DEPTHS))
        rows = [Row(name, stack, f"depth {depth}", "s") for depth in DEPTHS]
        yield rows, lambda side: whole(side)[1]
    elif name == "memory":
        held = child("benchmarks.memory", stack, BACKPLANE)
        yield [Row(name, stack, BACKPLANE, "MB")], lambda side: [float(held(side)[1])]
    else:
        begun = child("benchmarks.start", start.PROGRAMS[name], stack, BACKPLANE)
        yield [Row(name, stack, BACKPLANE, "s")], lambda side: [begun(side)[0]]


def _of(tree: Path) -> dict[str, str]:
    """What makes a process import Backplane from a tree."""
    return {"PYTHONPATH": str(tree / "src")}


def _imported(statement: str, core: int, trees: Sequence[Path]) -> Take:
    def take(side: int) -> list[float]:
        line = [sys.executable, "-c", f"{statement}\nprint('1', flush=True)"]
        with pinned(core):
            return [processes.timed(line, {**environment("numpy"), **_of(trees[side])})[0]]

    return take


HEADINGS = ["workload", "engine", "", "this", "other", "ratio", "paired"]


def _cells(row: Row) -> list[str]:
    amounts = [f"{value * SCALE[row.unit]:.4g} {row.unit}" for value in row.least]
    return [row.workload, row.stack, row.name, *amounts, f"{row.ratio:.3f}", f"{row.paired:.3f}"]


def show(console: Console, rows: Sequence[Row], failures: Sequence[str] = ()) -> bool:
    """A table; whether all ran, no row is slower than `LIMIT` and the mean is not above 1."""
    table = Table()
    for heading in HEADINGS:
        table.add_column(heading)
    for row in rows:
        table.add_row(*_cells(row), style="red" if row.ratio > LIMIT else "")
    console.print(table)
    for text in failures:
        console.print(f"failed: {text}", style="red")
    mean, worst = _summary(rows)
    console.print(f"geometric mean {mean:.3f}, worst {worst:.3f} of {len(rows)} rows")
    return not failures and mean <= 1 and worst <= LIMIT


def _summary(rows: Sequence[Row]) -> tuple[float, float]:
    """The mean and the worst ratio."""
    logs = [math.log(row.ratio) for row in rows]
    return (math.exp(float(np.mean(logs))), math.exp(max(logs))) if logs else (math.nan, math.nan)


def write(file: Path, rows: Sequence[Row], failures: Sequence[str]) -> None:
    """The table in Markdown. Times are the least of the rounds."""
    mean, worst = _summary(rows)
    above = sum(row.ratio > LIMIT for row in rows)
    lines = [
        f"{len(rows)} rows, geometric mean {mean:.3f}, worst {worst:.3f}, {above} above {LIMIT}.",
        "",
        *page.table(HEADINGS, [_cells(row) for row in rows]),
        *(f"- Failed: {text}" for text in failures),
    ]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
