"""Say for which Keras a script was written."""

from __future__ import annotations

from pathlib import Path

import click

from backplane.interop import alias, generation

SHOWN = 3
"""Spellings that the line names."""


def generation_of(script: Path, asked: str | None) -> int:
    """The generation of Keras for which `script` was written, or that was asked for. A line on
    stderr says which, if the script imports Keras.
    """
    found = generation.of_script(script.read_text(encoding="utf-8", errors="replace"))
    number = generation.DEFAULT if found is None else found.number
    number = int(asked) if asked else number
    if found is not None:
        because = ", ".join(found.cues[:SHOWN]) or "no sign of another"
        reason = "--keras" if asked else f"{because}; --keras chooses another"
        click.echo(f"Written for Keras {number} ({reason}): K is {alias.OURS[number]}.", err=True)
    return number
