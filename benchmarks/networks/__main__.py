"""The command: `python -m benchmarks.networks`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from threading import Lock
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from benchmarks import interleaved, lanes
from benchmarks.networks import NETWORKS, conditions, results, run
from benchmarks.problem import ENGINES
from benchmarks.timing import spread
from benchmarks.workers import ON_GPU

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
@lanes.option("Measure so many engines at once, each on a core of its own: the last ones.")
@click.option(
    "--resume", is_flag=True, help="Leave out engines that were measured with these sources."
)
@click.option("--tiny", is_flag=True, help="Small sizes: the numbers are checked, no more.")
@click.option("--compiled", is_flag=True, help="Measure `torch.compile` too, which takes minutes.")
@click.option("--gpu", is_flag=True, help="On the GPU; needs --output.")
@click.option("--page", is_flag=True, help="Write the pages from the results, and stop.")
@click.option("--output", type=click.Path(path_type=Path), help="Write or update this JSON file.")
def main(
    only: list[str],
    engines: list[str],
    rounds: int,
    core: int,
    count: int,
    resume: bool,
    tiny: bool,
    compiled: bool,
    gpu: bool,
    page: bool,
    output: Path | None,
) -> None:
    """Measure networks that people train: Backplane beside programs by hand and Keras 3.

    Times are of one core, on two clocks: the wall's and the processor's, which does not count what
    others do meanwhile. What an engine gives for a network is written as soon as it is measured,
    and results of others stay in the file. So a run that was ended goes on with --resume, and
    several may write to one file. Exits with 1 if a program fails or its losses differ.
    """
    file = output or FILE
    if page:
        _write_page(file)
        return
    if gpu:
        if output is None:
            raise click.UsageError("--gpu needs --output: the page is about one core")
        os.environ[ON_GPU] = "1"
    left_out = () if compiled else ("by hand, compiled",)
    how = run.How(rounds, tiny, left_out, count, conditions.commit())
    jobs = [(name, engine) for name in only for engine in engines]
    if resume:
        jobs = [job for job in jobs if not results.has(file, *job, how)]
    with Console(stderr=True).status("") as status:
        found = _measured(jobs, lanes.cores(core, count), how, file, status.update)
    if not tiny and output is None:
        _write_page(file)
    sys.exit(1 if any(row["error"] for row in found) else 0)


def _measured(
    jobs: list[tuple[str, str]], cores: list[int], how: run.How, file: Path, say: run.Say
) -> run.Rows:
    """Measure networks on engines, and keep what was found."""
    if not jobs:
        return []
    known = {} if how.tiny else {"limits": results.limits(cores[-1])}
    first: dict[str, run.Rows] = {}
    keeping = Lock()

    def one(job: tuple[str, str], core: int) -> run.Rows:
        name, engine = job
        rows = run.engine(name, engine, core, say, how)
        with keeping:
            if not how.tiny and name not in known:
                known[name] = results.work(name, core)
            if how.tiny:
                results.check(name, engine, rows, first.setdefault(name, rows))
            else:
                results.keep(file, name, engine, rows, how, known[name], known["limits"])
            _show(Console(), name, engine, rows)
        return rows

    return [row for rows in lanes.each(jobs, cores, one) for row in rows]


def _show(console: Console, name: str, engine: str, rows: Any) -> None:
    table = Table(title=NETWORKS[name].title, title_justify="left")
    for heading in ("on", "program", "step ms", "cpu", "predict ms", "cpu", "first s", "peak MB"):
        table.add_column(heading)
    for row in rows:
        if row["error"]:
            table.add_row(row["stack"], row["name"], row["error"], style="red")
            continue
        table.add_row(row["stack"], row["name"], *cells(row))
    console.print(table)
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
    from benchmarks.networks import answer, causes, page

    data, known = json.loads(file.read_text(encoding="utf-8")), causes.read()
    try:
        page.write(data, PAGE, known)
        answer.write(data, answer.PAGE, known)
    except causes.UnexplainedError as error:
        raise click.ClickException(str(error)) from None


if __name__ == "__main__":
    main()
