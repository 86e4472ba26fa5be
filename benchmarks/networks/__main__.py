"""The command: `python -m benchmarks.networks`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from benchmarks import interleaved, machine
from benchmarks.networks import NETWORKS, run
from benchmarks.problem import ENGINES
from benchmarks.timing import spread
from benchmarks.workers import Worker

PAGE = Path(__file__).parents[2] / "docs" / "networks.md"
FILE = Path(__file__).parents[1] / "results" / "networks.json"


def _listed(known: tuple[str, ...]) -> Any:
    def check(context: Any, option: Any, text: str) -> list[str]:
        names = [name for name in text.split(",") if name]
        if unknown := sorted({*names} - {*known}):
            raise click.BadParameter(f"{', '.join(unknown)}; there are {', '.join(known)}")
        return names or list(known)

    return check


@click.command()
@click.option("--only", default="", callback=_listed(tuple(NETWORKS)), help="Names of networks.")
@click.option("--engines", default="", callback=_listed(ENGINES), help="Names of engines.")
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1))
@click.option("--core", type=int, default=interleaved.last_core, help="The core to measure on.")
@click.option("--tiny", is_flag=True, help="Small sizes: the numbers are checked, no more.")
@click.option("--compiled", is_flag=True, help="Measure `torch.compile` too, which takes minutes.")
@click.option("--page", is_flag=True, help="Write docs/networks.md from the results, and stop.")
@click.option("--output", type=click.Path(path_type=Path), help="Write or update this JSON file.")
def main(
    only: list[str],
    engines: list[str],
    rounds: int,
    core: int,
    tiny: bool,
    compiled: bool,
    page: bool,
    output: Path | None,
) -> None:
    """Measure networks that people train: Backplane beside programs by hand and Keras 3.

    Times are of one core, on two clocks: the wall's and the processor's, which does not count what
    others do meanwhile. Results of engines that are not measured stay in the file. Exits with 1 if
    a program fails or its losses differ.
    """
    file = output or FILE
    if page:
        _write_page(file)
        return
    console = Console(stderr=True)
    left_out = () if compiled else ("by hand, compiled",)
    failed = False
    with console.status("") as status:
        data = _known(file, core)
        for name in only:
            rows = run.network(
                name, engines, rounds, core, status.update, tiny=tiny, left_out=left_out
            )
            _show(Console(), name, engines, rows)
            failed |= any(row["error"] for row in rows)
            if not tiny:
                _keep(data, name, rows, core, rounds)
                file.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    if not tiny and output is None:
        _write_page(file)
    sys.exit(1 if failed else 0)


def _known(file: Path, core: int) -> dict[str, Any]:
    found: dict[str, Any] = {"networks": {}}
    if file.exists():
        found = json.loads(file.read_text(encoding="utf-8"))
    found["machine"] = machine.description()
    return found


def _keep(data: dict[str, Any], name: str, rows: Any, core: int, rounds: int) -> None:
    """Put rows in the place of older ones of the same programs, with the first and last losses."""
    for row in rows:
        if "losses" in row:
            row["losses"] = row["losses"][:: max(len(row["losses"]) - 1, 1)]
    worker = Worker("numpy", core, None, "benchmarks.networks.workers", name, "Backplane", "full")
    try:
        data["limits"] = worker.ask(do="limits")
        work = worker.ask(do="work")
    finally:
        worker.close()
    older = data["networks"].get(name, {}).get("programs", [])
    new = {(row["stack"], row["name"]) for row in rows}
    kept = [row for row in older if (row["stack"], row["name"]) not in new]
    data["networks"][name] = {"work": work, "rounds": rounds, "programs": [*kept, *rows]}


def _show(console: Console, name: str, engines: list[str], rows: Any) -> None:
    table = Table(title=NETWORKS[name].title, title_justify="left")
    for heading in ("on", "program", "step ms", "cpu", "predict ms", "cpu", "first s", "peak MB"):
        table.add_column(heading)
    for row in rows:
        if row["error"]:
            table.add_row(row["stack"], row["name"], row["error"], style="red")
            continue
        table.add_row(row["stack"], row["name"], *cells(row))
    console.print(table)
    for engine in engines:
        for part in ("step", "predict"):
            found = run.ratios(rows, engine, part, "cpu")
            told = [f"{r['median']:.2f} of {r['name']}" for r in found.values()]
            if told:
                console.print(f"{engine}, {part}, processor time: {', '.join(told)}")


def cells(row: dict[str, Any]) -> list[str]:
    """Medians for people: step, prediction, first step, memory."""
    keys = ("step wall", "step cpu", "predict wall", "predict cpu")
    found = [f"{spread(row[k])['median'] * 1e3:.3g}" if k in row else "–" for k in keys]
    first = [f"{row['first']['wall']:.2f}", f"{row['peak'] / 1e6:.0f}"] if "first" in row else []
    return [*found, *(first or ["–", "–"])]


def _write_page(file: Path) -> None:
    from benchmarks.networks import page

    page.write(json.loads(file.read_text(encoding="utf-8")), PAGE)


if __name__ == "__main__":
    main()
