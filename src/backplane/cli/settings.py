"""`backplane config` and `backplane use`: where each setting comes from, and the engine's one."""

from __future__ import annotations

import difflib
import json
import os
from typing import Any

import click

from backplane import _files, engines
from backplane import _keras_json as keras_json
from backplane.cli.engines import choice
from backplane.cli.output import EngineName, json_option, write_json, write_table
from backplane.known_engines import ENGINES, canonical
from backplane.project import install_command

KERAS_KEYS = ("nnx_enabled", "max_epochs", "max_steps_per_epoch")
"""Keys that Keras 3 keeps in the same file."""


@click.command("config")
@json_option
def show_config(as_json: bool) -> None:
    """Show each setting, and where it comes from. Exits with 1 if `keras.json` is unfit."""
    file = keras_json.path()
    given = _given(file)
    try:
        settings, chosen = keras_json.read(file) if given else (keras_json.Settings(), False)
    except (OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    old = "image_dim_ordering" in given and "image_data_format" not in given
    keys = {"image_data_format": "image_dim_ordering"} if old else {}
    if keras_json.OWN_BACKEND in given:
        keys["backend"] = keras_json.OWN_BACKEND
    rows: list[dict[str, Any]] = [
        {"setting": name, "value": value, "from": _origin(file, keys.get(name, name), given)}
        for name, value in settings._asdict().items()
    ]
    if not chosen:  # A file of defaults chooses no engine.
        rows[-1]["from"] = "the default"
    if named := os.environ.get("KERAS_BACKEND"):
        rows[-1] |= {"value": named, "from": "KERAS_BACKEND, which comes before the file"}
    unknown = _unknown(given)
    engine, why = choice()
    if as_json:
        write_json(
            {"file": file, "settings": rows, "unknown": unknown, "engine": engine, "because": why}
        )
        return
    write_table(rows, ("setting", "value", "from"))
    click.echo(f"\nThe engine is {engine} ({why}).")
    for key, nearest in unknown.items():
        hint = f"; did you mean {nearest!r}?" if nearest else ""
        click.echo(f"{file}: the key {key!r} is not used{hint}")


def _given(file: str) -> dict[str, Any]:
    """The contents of the file; empty if there is none."""
    try:
        return keras_json.given(file)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error


def _origin(file: str, key: str, given: dict[str, Any]) -> str:
    return f"{file}, key {key!r}" if key in given else "the default"


def _unknown(given: dict[str, Any]) -> dict[str, str | None]:
    """The keys that neither we nor Keras read → the nearest key that we read, if one is near."""
    known = keras_json.KEYS
    strange = [key for key in given if key not in known and key not in KERAS_KEYS]
    return {key: next(iter(difflib.get_close_matches(key, known, 1)), None) for key in strange}


def _write_choice(file: str, name: str) -> None:
    """Put the engine into the file in one step; an absent file begins with the defaults. OSError if
    it cannot be read or written; it is as it was then. ValueError if it does not hold settings.
    """
    keras_json.write(file)
    settings = keras_json.given(file)
    settings.pop(keras_json.OWN_BACKEND, None)
    if name in ENGINES and ENGINES[name].in_keras:
        settings["backend"] = name
    else:
        # What stays under `backend` is for Keras 3, which has to find a backend of its own there.
        if not _is_in_keras(str(settings.get("backend"))):
            settings["backend"] = keras_json.Settings().backend
        settings[keras_json.OWN_BACKEND] = name
    _files.replace(file, f"{json.dumps(settings, indent=4)}\n".encode())


def _is_in_keras(name: str) -> bool:
    """Whether Keras 3 can read the name under `backend`. It takes some module names, too."""
    engine = canonical(name)
    return engine is None or name.startswith("backplane.") or ENGINES[engine].in_keras


@click.command()
@click.argument("name", type=EngineName())
@json_option
def use(name: str, as_json: bool) -> None:
    """Write the engine to `keras.json`.

    Everything else in the file stays as it is. Keras 3 reads the same file. An engine that Keras 3
    does not have is written under a key of its own, `backplane_backend`.
    """
    if not engines.installed(name):
        raise click.ClickException(f"{name} is not installed: {install_command(name)}")
    file = keras_json.path()
    try:
        _write_choice(file, name)
    except (OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    named = os.environ.get("KERAS_BACKEND")
    overridden = bool(named) and canonical(named or "") != name
    if as_json:
        write_json({"file": file, "backend": name, "overridden_by": named if overridden else None})
        return
    click.echo(f"The engine is now {name} ({file}).")
    if overridden:
        click.echo(f"KERAS_BACKEND={named} comes before the file: unset it.", err=True)
