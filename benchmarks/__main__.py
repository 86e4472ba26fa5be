"""The command: `python -m benchmarks`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from benchmarks import (
    against,
    growth,
    interleaved,
    lanes,
    machine,
    memory,
    show,
    start,
    timing,
    workloads,
)
from benchmarks.problem import ENGINES

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
FILE = Path(__file__).parent / "results" / "latest.json"


@click.command()
@click.option("--workload", "names", multiple=True, type=click.Choice(against.NAMES))
@click.option("--engine", "engines", multiple=True, type=click.Choice(ENGINES))
@click.option("--quick", is_flag=True, help="Few rounds: a look, no result to quote.")
@click.option("--rounds", type=click.IntRange(1), help="How often contenders take turns.")
@click.option(
    "--core", type=int, default=interleaved.last_core, help="The core that is measured on."
)
@click.option("--page", is_flag=True, help="Write docs/benchmarks.md from the results, and stop.")
@click.option(
    "--clock",
    type=click.Choice(["wall", "cpu"]),
    default="wall",
    help="Read the processor's time instead, where others use the machine too.",
)
@click.option(
    "--against",
    "other",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Compare Backplane in this tree with that in another one, a checkout, and stop.",
)
@lanes.option("With --against: measure so many workloads at once, each on a core of its own.")
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    help="Write or update this JSON file; with --against write a table in Markdown.",
)
def main(
    names: tuple[str, ...],
    engines: tuple[str, ...],
    quick: bool,
    rounds: int | None,
    core: int,
    clock: str,
    other: Path | None,
    count: int,
    output: Path | None,
    page: bool,
) -> None:
    """Measure Backplane beside hand-written programs, Keras 3 and the reference K.

    Without options everything is measured, and results and page are written anew.
    Naming workloads renews these only; naming engines, or --quick, writes nothing unless --output
    says where.
    """
    if page:
        write_page(output or FILE)
        return
    os.environ[timing.CLOCK] = clock
    console = Console(stderr=True)
    if other is not None:
        cores = lanes.cores(core, count)
        with console.status("") as status:
            found = against.run(names, engines, rounds or 9, cores, other, status.update)
        if output is not None:
            against.write(output, *found)
        sys.exit(0 if against.show(Console(), *found) else 1)
    partial = bool(engines) or quick
    file = output or (None if partial else FILE)
    rounds = rounds or (3 if quick else 9)
    stacks = interleaved.chosen(engines)
    pool = interleaved.Pool(core)
    failed = False
    try:
        with console.status("") as status:
            for name in names or workloads.NAMES:
                found = measure(name, stacks, rounds, pool, status.update, quick)
                failed |= bool(found["failures"])
                show.workload(Console(), name, found)
                if file is not None:
                    update(file, name, found, rounds)
    finally:
        pool.close()
    if file == FILE:
        write_page(file)
    sys.exit(1 if failed else 0)


def measure(
    name: str, stacks: list[str], rounds: int, pool: interleaved.Pool, say: Any, quick: bool
) -> dict[str, Any]:
    """One workload."""
    fewer = 1 if quick else min(rounds, 2 if name == "start-mlp" else 3)
    if name == "start-import":
        return start.imports(rounds, pool.core, say)
    if name.startswith("start-"):
        return start.run(name, stacks, fewer, pool.core, say)
    if name == "growth":
        return growth.run(stacks, pool.core, say, 200 if quick else 1000)
    if name == "memory":
        return memory.run(stacks, pool.core, say)
    return interleaved.run(name, stacks, rounds, pool, say)


def update(file: Path, name: str, found: dict[str, Any], rounds: int) -> None:
    """Put one workload's results into the file."""
    data = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {"workloads": {}}
    data["machine"] = machine.description()
    data["workloads"][name] = {**found, "rounds": rounds, "clock": os.environ[timing.CLOCK]}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def write_page(file: Path) -> None:
    """The page in docs/ from the results in a file."""
    from benchmarks import page

    page.write(json.loads(file.read_text(encoding="utf-8")), PAGE)


if __name__ == "__main__":
    main()
