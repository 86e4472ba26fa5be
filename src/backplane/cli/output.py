"""Helpers that the commands share: tables or JSON, and arguments that complete themselves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem
from rich.console import Console
from rich.table import Table

from backplane import engines
from backplane.known_engines import canonical
from backplane.project import NAME, install_command

PROJECT = NAME

Row = Mapping[str, Any]
"""One line of a table, by column. What JSON shows is the same as what the table shows."""

json_option = click.option("--json", "as_json", is_flag=True, help="Write JSON instead.")


def write_json(value: object) -> None:
    """Write a value to stdout as JSON."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def write_table(rows: Iterable[Row], columns: Sequence[str], right: Sequence[str] = ()) -> None:
    """Write rows to stdout as a table with these columns. Those in `right` hold numbers."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left")
    for row in rows:
        table.add_row(*(_cell(row.get(column)) for column in columns))
    console().print(table)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def console(stderr: bool = False) -> Console:
    """A console that prints text as it is. In a pipe, it breaks no line."""
    made = Console(highlight=False, markup=False, soft_wrap=True, stderr=stderr)
    if not made.is_terminal:
        made.width = 1000
    return made


class NewFile(click.Path):
    """A file to write. It is checked before anything runs whose results would be lost."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False, writable=True, path_type=Path)

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """The path; a usage error if no file can be made there."""
        file = super().convert(value, param, ctx)
        assert isinstance(file, Path)
        if not os.access(file.parent, os.W_OK):
            self.fail(f"nothing can be written into the folder {str(file.parent)!r}", param, ctx)
        return file


class EngineName(click.ParamType):  # type: ignore[type-arg]  # older releases of click refuse it
    """The name of an engine in any accepted spelling. Its value is the canonical name."""

    name = "engine"

    def convert(self, value: str, param: Any, ctx: Any) -> str:
        """The canonical name; a usage error for any other word."""
        name = canonical(value) or value
        if name not in engines.names():
            known = ", ".join(engines.names())
            self.fail(
                f"no engine is called {value!r}{engines.suggestion(value)}; there are {known}"
            )
        return name

    def shell_complete(self, ctx: Any, param: Any, incomplete: str) -> list[CompletionItem]:
        """The names that begin with what was typed."""
        return [CompletionItem(name) for name in engines.names() if name.startswith(incomplete)]


engines_option: Callable[..., Any] = click.option(
    "--engine",
    "chosen",
    type=EngineName(),
    multiple=True,
    help="An engine; may be given several times. Default: all that are installed.",
)


def installed_among(chosen: Sequence[str]) -> list[str]:
    """The engines that were asked for, or all installed ones. One that is missing is an error."""
    for name in chosen:
        if not engines.installed(name):
            raise click.UsageError(f"{name} is not installed: {install_command(name)}")
    return list(chosen) or [name for name in engines.names() if engines.installed(name)]


def run_python(command: Sequence[str], engine: str) -> str:
    """The output of Python on stdout in a process of its own, where that engine is in force.
    CalledProcessError if it fails.
    """
    environment = {**os.environ, "KERAS_BACKEND": engine}
    done = subprocess.run(
        [sys.executable, *command], check=True, capture_output=True, text=True, env=environment
    )
    return done.stdout
