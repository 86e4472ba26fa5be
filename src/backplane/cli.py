"""The command `backplane`: run old scripts, list engines, check an engine."""

from __future__ import annotations

import runpy
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, entry_points, version
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from backplane import engines
from backplane.known_engines import ENGINES, canonical

PROJECT = "keras-backplane"

DISTRIBUTIONS = {"tensorflow": ("tensorflow", "tensorflow-cpu", "tensorflow-intel")}
"""Projects that provide a library, where it is not just the one of the library's name."""


@click.group()
@click.version_option(package_name=PROJECT, prog_name="backplane")
def main() -> None:
    """The Keras backend API on any tensor engine."""


@main.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("script", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(script: Path, arguments: tuple[str, ...]) -> None:
    """Run SCRIPT so that its `keras.backend` is Backplane's.

    `from keras import backend as K` and `import keras.backend` mean `backplane.backend` while it
    runs. The installed keras, if any, stays as it is.
    """
    from backplane.interop import alias

    alias.install()
    sys.argv = [str(script), *arguments]
    # As Python does: modules beside the script can be imported.
    sys.path[0] = str(script.resolve().parent)
    runpy.run_path(str(script), run_name="__main__")


@main.command("engines")
def list_engines() -> None:
    """List the engines, whether they are installed, and their versions."""
    table = Table("engine", "library", "version", "pip install", box=None, header_style="bold")
    for name in engines.names():
        library, number = _library(name)
        there = engines.installed(name)
        extra = f'"keras-backplane[{name}]"'
        table.add_row(name, library, number if there else "not installed", "" if there else extra)
    Console(highlight=False, markup=False).print(table)


def _library(name: str) -> tuple[str, str]:
    """What an engine runs on, and its version."""
    if name not in ENGINES:
        point = next(p for p in entry_points(group=engines.GROUP) if p.name == name)
        return (point.dist.name, point.dist.version) if point.dist else (point.value, "")
    library = ENGINES[name].folder
    for project in DISTRIBUTIONS.get(library, (library,)):
        try:
            return library, version(project)
        except PackageNotFoundError:
            continue
    return library, ""


@main.command(context_settings={"ignore_unknown_options": True})
@click.option("--engine", "name", required=True, help="Its name, as registered.")
@click.option(
    "--suite",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The folder tests of Backplane's source; needed unless Backplane runs from its source.",
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def check(name: str, suite: Path | None, arguments: tuple[str, ...]) -> None:
    """Run the conformance suite on an engine, with ARGUMENTS for pytest.

    For example: backplane check --engine my_engine -- -x -k conv2d
    """
    if canonical(name) is None and name not in engines.names():
        known = ", ".join(engines.names())
        raise click.BadParameter(
            f"no engine is called {name!r}{engines.suggestion(name)}; there are {known}"
        )
    tests = suite or Path(__file__).parents[2] / "tests"
    if not (tests / "conformance").is_dir():
        raise click.UsageError(
            "the suite is part of Backplane's source, not of what pip installs: unpack the source "
            f"distribution of version {version(PROJECT)} and give its folder tests as --suite"
        )
    command = [sys.executable, "-m", "pytest", "--rootdir", str(tests.parent)]
    command += ["--config-file", str(tests.parent / "pyproject.toml")]
    command += ["--engines", name, *arguments, str(tests / "conformance")]
    sys.exit(subprocess.run(command, check=False).returncode)
