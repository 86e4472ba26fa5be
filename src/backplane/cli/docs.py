"""`backplane docs`: the pages of the documentation; `backplane examples`: the example programs.

Both come with the package. In a clone they are read where they are written.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem
from rich.markdown import Markdown

from backplane.cli.notebooks import notebook
from backplane.cli.output import console, json_option, write_json, write_table

PACKAGE = Path(__file__).resolve().parents[1]

READ_FIRST = (
    "start/index", "start/new-programs", "operators", "keras-3-backend", "start/old-code",
    "start/other-libraries", "which", "faq", "gallery", "cookbook", "debugging",
    "reproducibility", "scaling", "devices", "onnx", "performance",
)  # fmt: skip
"""The pages that people read, in the order of the site. All others are for reference."""


def folder(name: str) -> Path:
    """The folder `docs` or `examples`: in the package, or beside `src` in a clone."""
    inside = PACKAGE / name
    return inside if inside.is_dir() else PACKAGE.parents[1] / name


def topics() -> dict[str, Path]:
    """The pages by topic, such as `start/old-code`; pages to read come first."""
    pages = folder("docs")
    named = {
        p.relative_to(pages).with_suffix("").as_posix(): p for p in sorted(pages.rglob("*.md"))
    }
    return {topic: named[topic] for topic in (*READ_FIRST, *named)}


def mentions(word: str) -> list[str]:
    """Up to four topics whose pages contain a word: pages to read first, then by occurrences."""
    counts = {
        topic: len(re.findall(re.escape(word), page.read_text("utf-8"), re.IGNORECASE))
        for topic, page in topics().items()
        if topic not in ("reference", "history", "index")
    }
    mentioning = [topic for topic, count in counts.items() if count]
    return sorted(mentioning, key=lambda topic: (topic not in READ_FIRST, -counts[topic]))[:4]


def programs() -> dict[str, Path]:
    """The example programs by name, such as `deep_dream`."""
    return {p.stem: p for p in sorted(folder("examples").rglob("*.py"))}


class _Name(click.ParamType):  # type: ignore[type-arg]  # as in output.py
    """The name of a file among those that are known."""

    def __init__(self, name: str, known: Callable[[], Mapping[str, Path]]) -> None:
        self.name, self.known = name, known

    def shell_complete(self, ctx: Any, param: Any, incomplete: str) -> list[CompletionItem]:
        """The names that begin with what was typed."""
        return [CompletionItem(n) for n in self.known() if n.startswith(incomplete)]

    def convert(self, value: str, param: Any, ctx: Any) -> Path:
        """The file; a usage error for a name that is not there."""
        known = self.known()
        short = {name.rpartition("/")[2]: name for name in known if not name.endswith("/index")}
        asked = re.sub(r"^docs/|\.(md|py)$", "", str(value))
        name = asked if asked in known else short.get(asked, f"{asked}/index")
        if name not in known:
            near = difflib.get_close_matches(asked, {*known, *short}, 3)
            hint = ""
            if near:
                hint = f"; did you mean {', '.join(near)}?"
            elif self.known is topics:
                pages = ", ".join(mentions(asked))
                here = f"pages that mention it: {pages}" if pages else "`backplane docs` lists them"
                hint = f"; {here}"
            self.fail(f"there is no {self.name} {value!r}{hint}", param, ctx)
        return known[name]


@click.command()
@click.argument("topic", type=_Name("topic", topics), required=False)
@json_option
def docs(topic: Path | None, as_json: bool) -> None:
    """Print a page of the documentation; without TOPIC, list the pages.

    TOPIC is the name of a page. For any other word, the command names the pages that mention it.
    `backplane explain NAME` documents a function.
    """
    if topic is not None:
        text = _page(topic)
        screen = console()
        if as_json:
            write_json({"title": _title(topic), "text": text})
        elif screen.is_terminal:
            screen.soft_wrap = False
            screen.print(Markdown(text))
        else:
            click.echo(text)
        return
    rows = [{"topic": name, "title": _title(page)} for name, page in topics().items()]
    if as_json:
        write_json(rows)
        return
    click.echo("To read:")
    write_table(rows[: len(READ_FIRST)], ("topic", "title"))
    click.echo("\nFor reference:")
    write_table(rows[len(READ_FIRST) :], ("topic", "title"))
    click.echo("\n`backplane docs TOPIC` prints a page, `backplane explain NAME` a function.")


@click.command()
@click.argument("name", type=_Name("example", programs), required=False)
@click.option("--notebook", "as_notebook", is_flag=True, help="Print it as a Jupyter notebook.")
@json_option
def examples(name: Path | None, as_notebook: bool, as_json: bool) -> None:
    """Print an example program; without NAME, list the programs.

    For example: backplane examples deep_dream > deep_dream.py
    """
    if name is not None:
        text = name.read_text(encoding="utf-8")
        text = notebook(text) if as_notebook else text
        if as_json:
            write_json({"name": name.stem, "text": text})
        else:
            click.echo(text, nl=False)
        return
    rows = [{"example": stem, "shows": _first_line(file)} for stem, file in programs().items()]
    if as_json:
        write_json(rows)
        return
    write_table(rows, ("example", "shows"))
    click.echo("\n`backplane examples NAME > FILE` writes the program to a file.")


def _page(file: Path) -> str:
    """A page without its front matter."""
    text = re.sub(r"\A---\n.*?\n---\n+", "", file.read_text(encoding="utf-8"), flags=re.DOTALL)
    return text.rstrip("\n")


def _title(file: Path) -> str:
    match = re.search(r"^# (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    return match[1] if match else file.stem


def _first_line(file: Path) -> str:
    """The first sentence of a program's docstring."""
    match = re.search(r'"""(.+?)(?:\.(?=\s)|"""|\n\n)', file.read_text(encoding="utf-8"), re.DOTALL)
    return " ".join(match[1].split()) if match else ""
