"""`backplane explain`: what one function of K does, where it comes from, and where it is tested."""

from __future__ import annotations

import difflib
import inspect
import json
import re
import sys
import textwrap
from collections.abc import Callable
from contextlib import redirect_stderr
from importlib import resources
from io import StringIO
from types import ModuleType
from typing import Any

import click
from click.shell_completion import CompletionItem

from backplane.cli.output import console, json_option, write_json, write_table

DOCUMENTS = {
    "000": "Keras 1 reference",
    "001": "R interface",
    "002": "notebook",
    "003": "Keras 2.3 reference",
    "004": "tutorial",
}
"""The documents that describe the API, by the numbers that docs/reference.md uses."""


class FunctionName(click.ParamType):  # type: ignore[type-arg]  # as in output.py
    """The name of a function of K."""

    name = "function"

    def shell_complete(self, ctx: Any, param: Any, incomplete: str) -> list[CompletionItem]:
        """The names that begin with what was typed."""
        prefix = "K." if incomplete.startswith("K.") else ""
        names = [prefix + name for name in functions()]
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def functions() -> dict[str, Any]:
    """Function → its documents and what the tests confirm on each engine. The file says once what
    all engines have in common; `but` has those of which the tests confirm something else.
    """
    text = resources.files(__package__).joinpath("functions.json").read_text(encoding="utf-8")
    table = json.loads(text)
    return {
        name: {
            "documents": facts["documents"],
            "engines": dict.fromkeys(table["engines"], facts["confirmed"]) | facts.get("but", {}),
        }
        for name, facts in table["functions"].items()
    }


@click.command()
@click.argument("name", type=FunctionName())
@json_option
def explain(name: str, as_json: bool) -> None:
    """Explain a function of K, and tell what the tests confirm."""
    name = name.removeprefix("K.")
    function = getattr(_namespace(), name, None)
    facts = functions().get(name)
    if function is None or facts is None:
        raise click.BadParameter(f"K has no function {name!r}{_hint(name)}", param_hint="NAME")
    signature, text = _signature(function), inspect.getdoc(function) or ""
    documents = [DOCUMENTS[number] for number in facts["documents"]]
    if as_json:
        write_json(
            {"name": name, "signature": signature, "documentation": text}
            | {"documents": documents, "engines": facts["engines"]}
        )
        return
    click.secho(f"K.{name}{signature}\n", bold=True)
    screen = console()
    click.echo(fitted(text, screen.width) if screen.is_terminal else text)
    click.echo(f"\nDocuments: {', '.join(documents) or 'none, it is an addition of Backplane'}\n")
    write_table(
        ({"engine": engine, "tests confirm": seen} for engine, seen in facts["engines"].items()),
        ("engine", "tests confirm"),
    )


def _hint(name: str) -> str:
    """The functions of K that replace one of another library, or names that are spelled alike."""
    from backplane.backend import _elsewhere  # Here: it brings K, which is there by now.

    near = difflib.get_close_matches(name, functions(), 3)
    advice = _elsewhere.for_function(name)
    return f"; did you mean {', '.join(near)}?" if near and not advice.startswith(":") else advice


def _signature(function: Callable[..., Any]) -> str:
    """The parameters and their defaults. Their types stand in the documentation in words."""
    signature = inspect.signature(function)
    bare = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=signature.empty))


ENTRY = re.compile(r" +[\w*, ]+: ")
"""The beginning of an argument, or of an error."""


def fitted(text: str, width: int) -> str:
    """The documentation with paragraphs no wider than `width`. Examples stay as they are."""
    prose, mark, example = text.partition("\nExample:\n")
    made: list[str] = []
    for line in prose.split("\n"):
        title = made and re.fullmatch(r"\w+:", made[-1])
        begins = not line or re.fullmatch(r"\w+:| *- .*", line) or ENTRY.match(line)
        if begins or title or not made or not made[-1]:
            made.append(line)
        else:
            made[-1] += " " + line.lstrip()
    return "\n".join(_filled(line, width) for line in made) + mark + example


def _filled(line: str, width: int) -> str:
    """One paragraph, broken into lines. Those of an entry are further in than its first one."""
    margin = len(line) - len(line.lstrip()) + 4 * bool(ENTRY.match(line))
    return textwrap.fill(
        line, width, subsequent_indent=" " * margin, break_long_words=False, break_on_hyphens=False
    )


def _namespace() -> ModuleType:
    """K on the configured engine. The line about the engine that its import writes is left out."""
    said = StringIO()
    try:
        with redirect_stderr(said):
            from backplane import backend
    except (ImportError, ValueError, OSError) as error:
        sys.stderr.write(said.getvalue())
        raise click.ClickException(str(error)) from error
    return backend
