"""Files of the site that are made while it is built: the reference by chapter, what lies outside of
docs/, and the tall form of the landing page's picture. The plugin gen-files of mkdocs runs this.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from types import ModuleType

import mkdocs_gen_files

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "src"))
# Nothing is computed here; and building the site must not touch anybody's settings.
os.environ["KERAS_BACKEND"] = "numpy"
os.environ["KERAS_HOME"] = str(ROOT / "build" / "keras-home")

from backplane import backend as K  # noqa: E402 - the environment comes first
from backplane.cli.explain import DOCUMENTS, functions  # noqa: E402

CHAPTERS: tuple[ModuleType, ...] = vars(K)["_CHAPTERS"]

TITLES = {
    "checkpoints": "Saving and loading",
    "common": "Settings and names",
    "control": "Choices and loops",
    "creation": "Creating tensors",
    "ctc": "CTC",
    "functions": "Functions of the engine",
    "graph": "Gradients and functions",
    "inspection": "Looking at tensors",
    "keras1": "Only in Keras 1",
    "linear": "Products",
    "loss": "Losses",
    "phase": "Learning phase",
    "random": "Random numbers",
    "recurrence": "Recurrence",
    "scaling": "Larger models",
    "devices": "Devices and precision",
    "selection": "Joining and taking",
    "session": "Sessions",
    "shaping": "Shapes",
    "sharding": "Meshes of devices",
    "sparse": "Sparse tensors",
    "state": "Variables and updates",
}
"""Chapters whose title is not just their name."""

ENGINES = list(next(iter(functions().values()))["engines"])


def chapter_page(chapter: ModuleType) -> str:
    """The page of one chapter: what the tests confirm, then each function."""
    name = chapter.__name__.rpartition(".")[2]
    lines = [f"# {title(name)}", "", (chapter.__doc__ or "").split("\n\n")[0], ""]
    for function in chapter.__all__:
        options = {"heading": f"K.{function}", "toc_label": function}
        lines += [f"::: {chapter.__name__}.{function}", f"    options: {json.dumps(options)}", ""]
        lines += [origin(function), ""]
    return "\n".join(lines)


def title(name: str) -> str:
    """The title of a chapter."""
    return TITLES.get(name, name.capitalize())


def origin(function: str) -> str:
    """The documents that have a function, and what the tests confirm on each engine."""
    facts = functions().get(function, {"documents": [], "engines": {}})
    documents = ", ".join(DOCUMENTS[number] for number in facts["documents"])
    on: dict[str, list[str]] = {}
    for engine, seen in facts["engines"].items():
        on.setdefault(seen or "behaviour", []).append(f"<b>✓ {engine}</b>")
    confirmed = "; ".join(f"{seen} {' '.join(ticks)}" for seen, ticks in on.items())
    source = documents or "an addition of Backplane"
    return f'<p class="origin">In: {source}.<br>Tests confirm: {confirmed or "nothing yet"}</p>'


def index_page() -> str:
    """The list of chapters with their functions."""
    lines = [
        "# Reference",
        "",
        "All functions of `from backplane import backend as K`, by chapter. Each has its",
        "arguments, shapes, dtypes, errors and an example that runs. [All functions at a",
        "glance](../reference.md) shows what the tests confirm on each engine.",
        "",
        "| chapter | functions |",
        "|---|---|",
    ]
    for chapter in CHAPTERS:
        name = chapter.__name__.rpartition(".")[2]
        links = ", ".join(f"[`{f}`]({name}.md#{chapter.__name__}.{f})" for f in chapter.__all__)
        lines.append(f"| [{title(name)}]({name}.md) | {links} |")
    return "\n".join([*lines, ""])


def outside_page(file: str) -> str:
    """A file beside docs/, with its links to docs/ as the site has them."""
    return re.sub(r"\]\(docs/", "](", (ROOT / file).read_text(encoding="utf-8"))


def tall(svg: str) -> str:
    """The picture of the landing page with its three groups below each other, without arrows."""
    for group, move in {"graph": "-348 372", "engines": "-676 790"}.items():
        svg = svg.replace(f'<g id="{group}">', f'<g id="{group}" transform="translate({move})">')
    svg = svg.replace('<g id="flow">', '<g id="flow" visibility="hidden">')
    return svg.replace('viewBox="0 0 920 422"', 'viewBox="0 0 330 1180"')


def main() -> None:
    """Make all files."""
    pages = {"reference/index.md": index_page()}
    for chapter in CHAPTERS:
        pages[f"reference/{chapter.__name__.rpartition('.')[2]}.md"] = chapter_page(chapter)
    pages |= {"contributing.md": outside_page("CONTRIBUTING.md")}
    pages |= {"changelog.md": outside_page("CHANGELOG.md")}
    idea = (ROOT / "docs" / "assets" / "idea.svg").read_text(encoding="utf-8")
    pages |= {"assets/idea-narrow.svg": tall(idea)}
    for path, text in pages.items():
        with mkdocs_gen_files.open(path, "w") as stream:
            stream.write(text)


main()
