"""`backplane check`: the conformance suite on this machine, as a table and a page."""

from __future__ import annotations

import html
import importlib.util
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import click

from backplane.cli import output
from backplane.cli.engines import library_of
from backplane.project import install_command
from backplane.views.words import filled

ASPECTS = ("value", "spec", "gradient")
COLUMNS = ("engine", "version", "passed", "failed", "skipped", "seconds")
USAGE = 4
"""Pytest's exit status for a command that was typed wrong."""
LIBRARIES = ("ml_dtypes", "pytest", "scipy")
"""Modules that the suite imports besides the engines: the extra `check`."""


@click.command(context_settings={"ignore_unknown_options": True})
@output.engines_option
@click.option(
    "--suite",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The folder tests of Backplane's source; needed unless Backplane runs from its source.",
)
@click.option("--html", "page", type=output.NewFile(), help="A page.")
@output.json_option
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def check(
    chosen: Sequence[str],
    suite: Path | None,
    page: Path | None,
    as_json: bool,
    arguments: tuple[str, ...],
) -> None:
    """Run the conformance suite on this machine.

    Ends with a table, and with --html in a page that has a row for each function. Exits with 1 if a
    test fails. For example: backplane check --engine jax --html check.html -- -x -k conv2d
    """
    names = output.installed_among(chosen)
    tests = suite or Path(__file__).parents[3] / "tests"
    if not (tests / "conformance").is_dir():
        raise click.UsageError(
            "the suite is part of Backplane's source, not of what pip installs: unpack the source "
            f"distribution of version {version(output.PROJECT)} and give its folder tests as "
            "--suite"
        )
    if missing := [name for name in LIBRARIES if importlib.util.find_spec(name) is None]:
        raise click.ClickException(
            f"the suite needs {', '.join(missing)}: {install_command('check')}"
        )
    with tempfile.TemporaryDirectory(prefix="backplane-check-") as folder:
        report, record = Path(folder, "report.xml"), Path(folder, "record.json")
        command = [sys.executable, "-m", "pytest", "--rootdir", str(tests.parent)]
        command += ["--config-file", str(tests.parent / "pyproject.toml")]
        command += [f"--junitxml={report}", f"--record={record}", "--engines", ",".join(names)]
        # In a pipe, pytest says nothing until it has finished, and stdout is for the result alone.
        command += [] if output.console(stderr=True).is_terminal else ["-q", "--no-header"]
        command += [*arguments, str(tests / "conformance")]
        status = subprocess.run(command, check=False, stdout=sys.stderr).returncode
        status = {0: 0, USAGE: 2}.get(status, 1)
        if not report.is_file():
            sys.exit(status)
        rows, failures = _results(report, names)
        confirmed = json.loads(record.read_text(encoding="utf-8")) if record.is_file() else {}
    if page is not None:
        page.write_text(_page(rows, failures, confirmed), encoding="utf-8")
    if as_json:
        output.write_json({"engines": rows, "failures": failures, "functions": confirmed})
    else:
        output.write_table(rows, COLUMNS, right=COLUMNS[2:])
    sys.exit(status)


def _results(report: Path, names: Sequence[str]) -> tuple[list[dict[str, Any]], list[str]]:
    """A row for each engine, and the tests that failed, from pytest's report."""
    counts = {name: Counter[str]() for name in names}
    seconds: Counter[str] = Counter()
    failures = []
    for case in ElementTree.parse(report).iter("testcase"):
        title = case.get("name", "")
        words = title.partition("[")[2].rstrip("]").split("-")
        name = next((name for name in names if name in words), None)
        kinds = {child.tag for child in case}
        failed = bool(kinds & {"failure", "error"})
        if failed:
            failures.append(f"{case.get('classname')}.{title}")
        if name is not None:
            outcome = "failed" if failed else "skipped" if "skipped" in kinds else "passed"
            counts[name][outcome] += 1
            seconds[name] += float(case.get("time", 0))  # type: ignore[assignment]
    rows: list[dict[str, Any]] = []
    for name, outcomes in counts.items():
        number = {outcome: outcomes[outcome] for outcome in ("passed", "failed", "skipped")}
        spent = round(seconds[name], 1)
        rows.append({"engine": name, "version": library_of(name)[1], **number, "seconds": spent})
    return rows, failures


def _page(
    rows: Sequence[Mapping[str, Any]],
    failures: Sequence[str],
    confirmed: Mapping[str, Mapping[str, Sequence[str]]],
) -> str:
    """The results as one HTML file."""
    names = [row["engine"] for row in rows]
    summary = "".join(_row([row[column] for column in COLUMNS]) for row in rows)
    functions = "".join(
        _row([function, *(_marks(outcomes.get(name, outcomes.get("any", ()))) for name in names)])
        for function, outcomes in confirmed.items()
    )
    listed = "".join(f"<li><code>{html.escape(name)}</code></li>" for name in failures)
    return filled(
        files("backplane.cli") / "check.html",
        version=html.escape(version(output.PROJECT)),
        result=f"{len(failures)} failed" if failures else "everything passed",
        kind="bad" if failures else "good",
        head=_row(COLUMNS, "th"),
        summary=summary,
        failures=f"<h2>What failed</h2><ul>{listed}</ul>" if failures else "",
        functions_head=_row(["function", *names], "th"),
        functions=functions,
    )


def _row(cells: Sequence[Any], tag: str = "td") -> str:
    return f"<tr>{''.join(f'<{tag}>{html.escape(str(cell))}</{tag}>' for cell in cells)}</tr>\n"


def _marks(aspects: Sequence[str]) -> str:
    """One sign for each of value, spec and gradient."""
    return "".join("✓" if aspect in aspects else "·" for aspect in ASPECTS)
