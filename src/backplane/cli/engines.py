"""`backplane engines` and `backplane show-versions`: what there is on this machine."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, entry_points, version
from typing import Any

import click

from backplane import _keras_json as keras_json
from backplane import config, engines
from backplane.cli import output
from backplane.core.spec import DTYPES
from backplane.known_engines import ENGINES
from backplane.project import ADDRESS, install_command

DISTRIBUTIONS = {"tensorflow": ("tensorflow", "tensorflow-cpu", "tensorflow-intel")}
"""Projects that provide a library, where it is not just the one of the library's name."""

OTHERS = ("keras", "numba", "ml_dtypes", "scipy", "click", "rich")
"""Further projects whose version matters when something goes wrong."""


def library_of(name: str) -> tuple[str, str]:
    """The library that an engine runs on, and its version; "" if it is not installed."""
    if name not in ENGINES:
        point = next(p for p in entry_points(group=engines.GROUP) if p.name == name)
        return (point.dist.name, point.dist.version) if point.dist else (point.value, "")
    library = ENGINES[name].folder
    return library, version_of(*DISTRIBUTIONS.get(library, (library,)))


def version_of(*projects: str) -> str:
    """The version of the first of these projects that is installed; "" if none is."""
    for project in projects:
        try:
            return version(project)
        except PackageNotFoundError:
            continue
    return ""


def choice() -> tuple[str, str]:
    """The engine that `import backplane.backend` would take here, and what says so. ClickException
    if settings cannot be read or name a missing engine.
    """
    try:
        # Looking must not write the file, as importing K does.
        if os.path.exists(keras_json.path()):
            config.load()
        configured = engines.configured()
        package = configured.name.partition(".")[0]
        if engines.is_external(configured) and importlib.util.find_spec(package) is None:
            raise click.ClickException(engines.unknown(configured))
    except (ImportError, ValueError, OSError) as error:
        raise click.ClickException(str(error)) from error
    return configured.engine or configured.name, configured.origin


@click.command("engines")
@click.option("--quick", is_flag=True, help="Load no library: devices and dtypes stay unknown.")
@output.json_option
def list_engines(quick: bool, as_json: bool) -> None:
    """List the engines, and what each of them has here.

    An engine is shown with its version, devices and dtypes, or with the command that installs it.
    """
    try:
        chosen, why = choice()
    except click.ClickException as error:
        chosen, why = "", error.message
    with output.console(stderr=True).status("Looking" if quick else "Loading the libraries"):
        rows = [_described(name, name == chosen) for name in engines.names()]
        if not quick:
            _add_loaded([row for row in rows if row["version"] is not None])
    if as_json:
        output.write_json({"engines": rows, "chosen": chosen or None, "because": why})
        return
    for row in rows:
        row["engine"] = f"{row['engine']} *" if row["chosen"] else row["engine"]
        row["version"] = row["version"] or "not installed"
        if "dtypes" in row:
            missing = sorted(DTYPES - set(row["dtypes"]))
            row["dtypes"] = f"all but {', '.join(missing)}" if missing else "all"
    columns = ["engine", "library", "version", "devices", "dtypes", "install"]
    output.write_table(rows, [c for c in columns if any(row.get(c) for row in rows)])
    click.echo(f"\n* {chosen} is used here ({why})." if chosen else f"\nNone is used: {why}")


def _described(name: str, chosen: bool) -> dict[str, Any]:
    library, number = library_of(name)
    there = engines.installed(name)
    row: dict[str, Any] = {
        "engine": name,
        "library": library,
        "version": number if there else None,
        "chosen": chosen,
    }
    return row if there else row | {"install": install_command(name)}


def _add_loaded(rows: Sequence[dict[str, Any]]) -> None:
    """Add what loaded libraries know, each from a process of its own, which may print or fail."""
    names = [row["engine"] for row in rows]
    with ThreadPoolExecutor(len(names) or 1) as pool:
        for row, facts in zip(rows, pool.map(_loaded, names), strict=True):
            row |= facts


def _loaded(name: str) -> dict[str, Any]:
    try:
        return json.loads(output.run_python(["-c", _PROBE, name], name).splitlines()[-1])
    except subprocess.CalledProcessError as error:
        last = error.stderr.strip().splitlines()[-1:] or [f"exit status {error.returncode}"]
        return {"devices": f"does not load: {last[0]}"}


_PROBE = """
import json, sys
from backplane.cli.engines import loaded
print(json.dumps(loaded(sys.argv[1])))
"""


def loaded(name: str) -> dict[str, list[str]]:
    """Load an engine: its devices, and the dtypes that it computes in."""
    engine = engines.get(name)
    return {"devices": engine.devices(), "dtypes": sorted(DTYPES - engine.missing_dtypes)}


@click.command("show-versions")
@output.json_option
def show_versions(as_json: bool) -> None:
    """Show the versions to paste into a report."""
    versions = {
        output.PROJECT: version(output.PROJECT),
        "python": platform.python_version(),
        "system": platform.platform(),
        "executable": sys.executable,
    }
    versions |= {library: number for library, number in map(library_of, engines.names()) if number}
    versions |= {project: number for project in OTHERS if (number := version_of(project))}
    if as_json:
        output.write_json(versions)
    else:
        rows = [{"": name, "version": text} for name, text in versions.items()]
        output.write_table(rows, ("", "version"))
        if ADDRESS:
            click.echo(f"\nReport a fault: {ADDRESS}/issues")
