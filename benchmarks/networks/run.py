"""Measures a network: the programs of one engine take turns, block by block, in processes of their
own.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks import timing
from benchmarks.networks import NETWORKS
from benchmarks.networks.workers import parts, programs
from benchmarks.problem import BACKPLANE, KERAS3
from benchmarks.workers import Worker, WorkerError

Say = Callable[[str], None]
CLOCKS = ("wall", "cpu")


def network(
    name: str, engines: Sequence[str], rounds: int, core: int, say: Say,
    *, tiny: bool = False, left_out: Sequence[str] = (),
) -> list[dict[str, Any]]:  # fmt: skip
    """A row for each program: times of its first step, of steps and of predictions, the most
    memory that it held, its losses, and an error if there was one.
    """
    rows: list[dict[str, Any]] = []
    for engine in engines:
        stacks = [stack for stack in (engine, f"keras3-{engine}") if stack in (engine, *KERAS3)]
        offered = [(s, p) for s in stacks for p in programs(name, s) if p not in left_out]
        rows += _engine(name, offered, rounds, core, say, tiny)
    _compare(name, rows)
    return rows


def _engine(
    name: str, offered: Sequence[tuple[str, str]], rounds: int, core: int, say: Say, tiny: bool
) -> list[dict[str, Any]]:
    module, size = "benchmarks.networks.workers", "tiny" if tiny else "full"
    rows = [{"stack": s, "name": p, "error": ""} for s, p in offered]
    workers = [Worker(s, core, None, module, name, p, size) for s, p in offered]
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
        ready = [(r, w) for r, w in zip(rows, workers, strict=True) if not r["error"]]
        shuffled = random.Random(0)
        for turn in range(rounds):
            say(f"{name}: {offered[0][0]}: round {turn + 1} of {rounds}")
            for row, worker in shuffled.sample(ready, len(ready)):
                for part in does[row["name"]]:
                    taken = worker.ask(do="block", what=part)
                    for clock in CLOCKS:
                        row.setdefault(f"{part} {clock}", []).append(taken[clock])
    finally:
        for worker in workers:
            worker.close()
    return rows


def _compare(name: str, rows: list[dict[str, Any]]) -> None:
    """Losses and predictions must be those of the first program."""
    first = next((row for row in rows if not row["error"]), None)
    for row in rows:
        if row is first or row["error"] or first is None:
            continue
        tolerance = NETWORKS[name].tolerance
        for what in ("losses", "predicted"):
            if what not in row:
                continue
            want, got = np.asarray(first[what]), np.asarray(row[what])
            apart = float(np.max(np.abs(got - want)) / np.max(np.abs(want)))
            row[f"{what} apart"] = apart
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
