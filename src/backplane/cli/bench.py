"""`backplane bench`: which engine is fastest here, for a script or for standard networks."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any

import click

from backplane.cli import output
from backplane.cli.workloads import WORKLOADS

Pair = tuple[str, str]
"""A subject, which is a script or network, and the name of an engine."""

BAR, LONGEST = 30, 5
"""The length of the longest bar in characters, and its ratio: longer bars would make the others too
short to compare. They end in an arrow."""


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument(
    "script", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@output.engines_option
@click.option("--workload", type=click.Choice(list(WORKLOADS)), multiple=True, help="Default: all.")
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(1), help="Repetitions.")
@click.option(
    "--seconds",
    default=1.0,
    show_default=True,
    type=click.FloatRange(0),
    help="For each workload and round.",
)
@click.option("--plot", type=output.NewFile(), help="A bar chart's file.")
@click.option("--kernels", "choices", is_flag=True, help="Measure the table of kernels instead.")
@output.json_option
def bench(
    script: Path | None,
    arguments: tuple[str, ...],
    chosen: Sequence[str],
    workload: Sequence[str],
    rounds: int,
    seconds: float,
    plot: Path | None,
    choices: bool,
    as_json: bool,
) -> None:
    """Time a script, or standard networks, on each engine.

    A SCRIPT is timed as a whole process, as `backplane run` would run it. For the networks, `step`
    is the time of a training step, and `first` the time until the first one is done. Engines take
    turns, and each figure is the median of the rounds. Exits with 1 if anything fails.

    With --kernels, Backplane measures where it has two ways to compute the same, and writes a table
    that later programs follow. The other options but --engine and --json have no meaning then.
    """
    names = output.installed_among(chosen)
    if choices:
        if script is not None:
            raise click.UsageError("--kernels measures no script")
        _measure_kernels(names, as_json)
        return
    if plot is not None:
        _check_chart(plot)
    subjects = [script.name] if script else list(workload or WORKLOADS)

    def measure(subject: str, name: str) -> dict[str, float]:
        return _script(script, arguments, name) if script else _network(subject, seconds, name)

    times, failures = _in_turns(measure, subjects, names, rounds)
    rows = _rows(times)
    if plot is not None and rows:
        _draw(rows, plot)
    if as_json:
        listed = [{"subject": s, "engine": e, "error": text} for (s, e), text in failures.items()]
        output.write_json({"rounds": rounds, "results": rows, "failures": listed})
    else:
        _show(rows)
    for (subject, name), text in failures.items():
        click.echo(f"\n{subject} failed on {name}:\n{text}", err=True)
    sys.exit(1 if failures else 0)


def _in_turns(
    measure: Callable[[str, str], dict[str, float]],
    subjects: Sequence[str],
    names: Sequence[str],
    rounds: int,
) -> tuple[dict[Pair, list[dict[str, float]]], dict[Pair, str]]:
    """The times of each subject on each engine, which take turns, and what failed."""
    times: dict[Pair, list[dict[str, float]]] = {}
    failures: dict[Pair, str] = {}
    with output.console(stderr=True).status("") as status:
        for turn, subject, name in product(range(1, rounds + 1), subjects, names):
            if (subject, name) in failures:
                continue
            status.update(f"{subject} on {name}, round {turn} of {rounds}")
            try:
                took = measure(subject, name)
                times.setdefault((subject, name), []).append(took)
            except subprocess.CalledProcessError as error:
                failures[subject, name] = (
                    error.stderr.strip() or f"it ended with the exit status {error.returncode}"
                )
    return times, failures


def _measure_kernels(names: Sequence[str], as_json: bool) -> None:
    # Imported here, because `python -m` runs it as a module of this package too.
    from backplane.cli import kernels
    from backplane.engines.kernels import OFF, VARIABLE, switched_off

    try:
        kernels.write({})  # If that fails, it does so before anything is measured.
    except OSError as error:
        raise click.ClickException(f"the table cannot be written: {error}") from error
    measured: dict[str, Any] = {}
    with output.console(stderr=True).status("") as status:
        for name in names:
            status.update(f"kernels of {name}")
            try:
                measured |= kernels.on_engine(name)
            except subprocess.CalledProcessError as error:
                raise click.ClickException(f"{name}:\n{error.stderr.strip()}") from error
    file, rows = kernels.write(measured), kernels.rows_of(measured)
    if as_json:
        output.write_json({"file": file, "results": rows})
        return
    output.write_table(
        rows, ("choice", "dtype", "work", "serves", "ms", "other ms"), right=("ms", "other ms")
    )
    click.echo(f"\nProcesses that begin now follow {file}.")
    if switched_off():
        click.echo(f"{VARIABLE}={OFF} comes before the file: unset it.", err=True)


def _script(script: Path, arguments: Sequence[str], name: str) -> dict[str, float]:
    start = perf_counter()
    output.run_python(["-m", "backplane", "run", str(script), *arguments], name)
    return {"seconds": perf_counter() - start}


def _network(workload: str, seconds: float, name: str) -> dict[str, float]:
    command = ["-m", "backplane.cli.workloads", workload, str(seconds)]
    printed = output.run_python(command, name)
    return json.loads(printed.splitlines()[-1])


def _rows(times: dict[Pair, list[dict[str, float]]]) -> list[dict[str, Any]]:
    """Medians, and how many times as long as the fastest engine each takes; the fastest first."""
    rows: list[dict[str, Any]] = []
    for (subject, name), rounds in times.items():
        medians = {key: statistics.median(took[key] for took in rounds) for key in rounds[0]}
        rows.append({"subject": subject, "engine": name, **medians})
    measure = {row["subject"]: "step" if "step" in row else "seconds" for row in rows}
    for row in rows:
        key = measure[row["subject"]]
        row["ratio"] = row[key] / min(r[key] for r in rows if r["subject"] == row["subject"])
    order = list(measure)
    return sorted(rows, key=lambda row: (order.index(row["subject"]), row["ratio"]))


def _show(rows: Sequence[dict[str, Any]]) -> None:
    """A table for each subject, with a bar for the time."""
    for subject in dict.fromkeys(row["subject"] for row in rows):
        mine = [row for row in rows if row["subject"] == subject]
        longest = min(LONGEST, max(row["ratio"] for row in mine))
        columns = [c for c in ("seconds", "step", "first") if c in mine[0]]
        shown = [
            {"engine": row["engine"], "ratio": f"{row['ratio']:.2f}"}
            | {c: _time(row[c]) for c in columns}
            | {"": _bar(row["ratio"], longest)}
            for row in mine
        ]
        click.secho(f"\n{subject}", bold=True)
        output.write_table(shown, ("engine", *columns, "ratio", ""), right=("ratio", *columns))


def _bar(ratio: float, longest: float) -> str:
    return "█" * (BAR - 1) + "▶" if ratio > longest else "█" * round(BAR * ratio / longest)


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"


def _check_chart(file: Path) -> None:
    """A usage error if no chart can be drawn, before anything is measured."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise click.ClickException("--plot needs matplotlib: pip install matplotlib") from error
    kinds = sorted(Figure().canvas.get_supported_filetypes())
    if file.suffix[1:].lower() not in kinds:
        raise click.UsageError(f"--plot: the name must end in one of .{', .'.join(kinds)}")


def _draw(rows: Sequence[dict[str, Any]], file: Path) -> None:
    """A chart with a group of bars for each subject."""
    from matplotlib.figure import Figure

    subjects = list(dict.fromkeys(row["subject"] for row in rows))
    figure = Figure(figsize=(4 * len(subjects) + 1, 3.2), layout="constrained")
    for axes, subject in zip(
        figure.subplots(1, len(subjects), squeeze=False)[0], subjects, strict=True
    ):
        mine = [row for row in rows if row["subject"] == subject][::-1]
        bars = axes.barh(
            [row["engine"] for row in mine], [row["ratio"] for row in mine], color="#4477aa"
        )
        axes.bar_label(bars, fmt="%.2f", padding=3)
        axes.set(title=subject, xlabel="time / time of the fastest engine")
        axes.margins(x=0.15)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(file)
