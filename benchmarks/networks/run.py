"""Measures a network: the programs of one engine take turns, block by block, in processes of their
own.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks import timing
from benchmarks.networks import NETWORKS, conditions
from benchmarks.networks.workers import parts, programs
from benchmarks.problem import BACKPLANE, KERAS3
from benchmarks.workers import KEEP_MEMORY, Worker, WorkerError

Say = Callable[[str], None]
Rows = list[dict[str, Any]]
CLOCKS = ("wall", "cpu")


class How(NamedTuple):
    """How to measure."""

    rounds: int
    tiny: bool = False
    left_out: Sequence[str] = ()
    """Programs that are not measured."""
    lanes: int = 1
    """How many measure at once, each on a core of its own."""
    commit: str = ""
    """What is measured."""


def engine(name: str, engine: str, core: int, say: Say, how: How) -> Rows:
    """A row for each program of a network on an engine: times of its first step, of steps and of
    predictions, the most memory that it held, its losses, and an error if there was one.
    """
    rows = _taken(name, offered(name, engine, how), core, say, how)
    for row in rows:
        compare(name, next((r for r in rows if not r["error"]), row), row)
    for row in rows:
        if "losses" in row:
            row["losses"] = _ends(row["losses"])
    return rows


def offered(name: str, engine: str, how: How) -> list[tuple[str, str]]:
    """The programs that are measured: stacks with names."""
    stacks = [stack for stack in (engine, f"keras3-{engine}") if stack in (engine, *KERAS3)]
    return [(s, p) for s in stacks for p in programs(name, s) if p not in how.left_out]


def _ends(losses: Sequence[Any]) -> list[Any]:
    """The first and the last."""
    return list(losses[:: max(len(losses) - 1, 1)])


def _taken(name: str, offered: Sequence[tuple[str, str]], core: int, say: Say, how: How) -> Rows:
    module, size = "benchmarks.networks.workers", "tiny" if how.tiny else "full"
    rows: Rows = [{"stack": s, "name": p, "error": ""} for s, p in offered]
    watch = conditions.Watch()
    workers = [Worker(s, core, KEEP_MEMORY, module, name, p, size) for s, p in offered]
    does = {p: parts(NETWORKS[name], p) for _, p in offered}
    try:
        for row, worker in zip(rows, workers, strict=True):
            say(f"{name}: {row['name']} on {row['stack']}: building")
            try:
                if "step" in does[row["name"]]:
                    row |= worker.ask(do="train")
                if "predict" in does[row["name"]]:
                    row["predicted"] = worker.ask(do="predict")
            except WorkerError as error:
                row["error"] = " ".join(str(error).split())[:500]
        shuffled = random.Random(0)
        for turn in range(how.rounds):
            say(f"{name}: {offered[0][0]}: round {turn + 1} of {how.rounds}")
            ready = [(r, w) for r, w in zip(rows, workers, strict=True) if not r["error"]]
            for row, worker in shuffled.sample(ready, len(ready)):
                _block(row, worker, does[row["name"]])
        whole = not any(row["error"] for row in rows)
        own = sum(worker.ask(do="used") for worker in workers) if whole else 0.0
        others = watch.others(own) if whole else None
    finally:
        for worker in workers:
            worker.close()
    for row in rows:
        row["measured"] = conditions.measured(how.commit, how.lanes, others)
    return rows


def _block(row: dict[str, Any], worker: Worker, does: Sequence[str]) -> None:
    try:
        for part in does:
            taken = worker.ask(do="block", what=part)
            for clock in CLOCKS:
                row.setdefault(f"{part} {clock}", []).append(taken[clock])
    except WorkerError as error:
        row["error"] = " ".join(str(error).split())[:500]


def compare(name: str, first: dict[str, Any], row: dict[str, Any]) -> None:
    """Losses and predictions of a row must be those of another one. Of rows that were kept, only
    the first and the last losses are known.
    """
    if row is first or row["error"] or first["error"]:
        return
    tolerance = NETWORKS[name].tolerance
    for what in ("losses", "predicted"):
        if what not in row or what not in first:
            continue
        want, got = first[what], row[what]
        if what == "losses" and len(want) != len(got):
            want, got = _ends(want), _ends(got)
        far = np.max(np.abs(np.subtract(got, want))) / np.max(np.abs(want))
        row[f"{what} apart"] = apart = float(far)
        if not apart <= tolerance:
            row["error"] = f"{what} are {apart:.2g} away from those of {first['stack']}"


def ratios(rows: Sequence[dict[str, Any]], engine: str, part: str, clock: str) -> dict[str, Any]:
    """Backplane over the best hand-written program and over Keras 3, round by round."""
    key = f"{part} {clock}"
    known = {(r["stack"], r["name"]): r[key] for r in rows if not r["error"] and key in r}
    ours = known.get((engine, BACKPLANE))
    hand = {k: v for k, v in known.items() if k[0] == engine and k[1] != BACKPLANE}
    if ours is None:
        return {}
    best = min(hand, key=lambda k: float(np.median(hand[k])), default=None)
    keras3 = (f"keras3-{engine}", "Keras 3")
    rivals = {"hand": best, "keras3": keras3 if keras3 in known else None}
    return {
        kind: {"name": rival[1], **timing.ratio(ours, known[rival])}
        for kind, rival in rivals.items()
        if rival is not None
    }
