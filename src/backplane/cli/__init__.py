"""The command `backplane`: engines, settings, checks, measurements, and old scripts."""

from __future__ import annotations

from pathlib import Path

import click

from backplane.cli.bench import bench
from backplane.cli.check import check
from backplane.cli.docs import docs, examples
from backplane.cli.engines import list_engines, show_versions
from backplane.cli.explain import explain
from backplane.cli.output import PROJECT
from backplane.cli.settings import show_config, use
from backplane.interop import alias, generation, scripts
from backplane.keras3 import hook

SHOWN = 3
"""Spellings that the line names."""


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name=PROJECT, prog_name="backplane")
def main() -> None:
    """The Keras backend API on any tensor engine."""


@main.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option(
    "--keras",
    type=click.Choice(["1", "2", "3"]),
    help="The Keras for which SCRIPT was written; else its imports and spellings tell.",
)
@click.argument("script", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(keras: str | None, script: Path, arguments: tuple[str, ...]) -> None:
    """Run a script with Backplane as its `keras.backend`.

    `from keras import backend as K`, `import keras.backend` and the same under `tensorflow.keras`
    mean `backplane.backend` while it runs, or `backplane.keras1` if it was written for Keras 1. The
    installed keras, if any, stays as it is. Keras 3 runs on Backplane if KERAS_BACKEND or
    keras.json says backplane, backplane.torch or the like (`backplane docs keras-3-backend`). What
    Python and NumPy have removed since then, such as `np.float`, is there.
    """
    number = _generation_of(script, keras)
    hook.install()
    alias.install(number)
    scripts.run(script, arguments, lambda error: alias.advice(error, number))


def _generation_of(script: Path, asked: str | None) -> int:
    """The generation of Keras for which `script` was written, or that was asked for. A line on
    stderr says which, if the script imports Keras.
    """
    detected = generation.of_script(script.read_text(encoding="utf-8", errors="replace"))
    number = generation.DEFAULT if detected is None else detected.number
    number = int(asked) if asked else number
    if detected is not None:
        because = ", ".join(detected.cues[:SHOWN]) or "no sign of another"
        reason = "--keras" if asked else f"{because}; --keras chooses another"
        click.echo(f"Written for Keras {number} ({reason}): K is {alias.OURS[number]}.", err=True)
    return number


@main.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell.

    For example, in ~/.bashrc: eval "$(backplane completion bash)"
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None, "click knows the shells that it was given"
    click.echo(kind(main, {}, "backplane", "_BACKPLANE_COMPLETE").source())


for _command in (
    list_engines,
    show_config,
    use,
    check,
    bench,
    explain,
    docs,
    examples,
    show_versions,
):
    main.add_command(_command)
