"""The file of results: rows of an engine's programs, which stay until they are measured anew."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.networks import run
from benchmarks.networks.run import How, Rows
from benchmarks.problem import STACKS
from benchmarks.workers import Worker


def read(file: Path) -> dict[str, Any]:
    """What is known so far."""
    if not file.exists():
        return {"networks": {}}
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def has(file: Path, name: str, engine: str, how: How) -> bool:
    """Whether an engine's programs were measured with the same sources, without an error."""
    rows = read(file)["networks"].get(name, {}).get("programs", [])
    known = {(row["stack"], row["name"]): row for row in rows if not row["error"]}
    found = [known.get(key, {}) for key in run.offered(name, engine, how)]
    return all(row.get("measured", {}).get("commit") == how.commit for row in found)


def keep(
    file: Path, name: str, engine: str, rows: Rows, how: How,
    work: dict[str, int], limits: dict[str, float],
) -> None:  # fmt: skip
    """Put an engine's rows in the place of its older ones, all of them, since ratios are formed
    between programs that took turns. Their losses are compared with those of another engine first.
    The file is read again and replaced at once, so that nothing is lost if others write to it or
    this process ends.
    """
    data = read(file)
    older = data["networks"].get(name, {}).get("programs", [])
    check(name, engine, rows, older)
    if data.get("machine", {}).get("processor") == machine.processor() and "limits" in data:
        limits = {key: max(value, data["limits"][key]) for key, value in limits.items()}
    programs = [*(row for row in older if _engine(row) != engine), *rows]
    programs.sort(key=lambda row: _order(_engine(row), row["stack"]))
    data["networks"][name] = {"work": work, "rounds": how.rounds, "programs": programs}
    data |= {"machine": machine.description(), "limits": limits}
    part = file.with_suffix(".part")
    part.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    os.replace(part, file)


def check(name: str, engine: str, rows: Rows, others: Rows) -> None:
    """Compare with the first row of another engine that ran."""
    first = next((r for r in others if _engine(r) != engine and not r["error"]), None)
    for row in rows:
        run.compare(name, first or row, row)


def _engine(row: dict[str, Any]) -> str:
    stack: str = row["stack"]
    return stack.removeprefix("keras3-")


def _order(engine: str, stack: str) -> tuple[int, int]:
    return STACKS.index(engine), STACKS.index(stack)


def limits(core: int) -> dict[str, float]:
    """What the machine can do: the more of two measurements is nearer to it."""
    found: dict[str, float] = _asked("vae", core, "limits")
    return found


def work(name: str, core: int) -> dict[str, int]:
    """What a step of a network must do."""
    found: dict[str, int] = _asked(name, core, "work")
    return found


def _asked(name: str, core: int, what: str) -> Any:
    worker = Worker("numpy", core, None, "benchmarks.networks.workers", name, "Backplane", "full")
    try:
        return worker.ask(do=what)
    finally:
        worker.close()
