"""Files of the site that are made while it is built: the reference by chapter, the pages of the
gallery, what lies outside of docs/, and the tall form of the landing page's picture. The plugin
gen-files of mkdocs runs this.
"""

from __future__ import annotations

import ast
import inspect
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
from backplane.cli.notebooks import notebook  # noqa: E402

CHAPTERS: tuple[ModuleType, ...] = vars(K)["_CHAPTERS"]

TITLES = {
    "checkpoints": "Saving and loading",
    "common": "Settings and names",
    "control": "Choices and loops",
    "creation": "Creating tensors",
    "ctc": "CTC",
    "focal_loss": "Focal losses",
    "functions": "Functions of the engine",
    "graph": "Gradients and functions",
    "inspection": "Looking at tensors",
    "keras1": "Only in Keras 1",
    "linear": "Products",
    "loss": "Losses",
    "phase": "Learning phase",
    "random": "Random numbers",
    "random_generator": "Random numbers of layers",
    "recurrence": "Recurrence",
    "scaling": "Larger models",
    "devices": "Devices and precision",
    "segments": "Rows in segments",
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
        lines += [f'<a id="{function}"></a>', ""]  # A short anchor: linear.html#dot.
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
    """All functions by task, with the first sentence of each docstring."""
    names = [title(chapter.__name__.rpartition(".")[2]) for chapter in CHAPTERS]
    lines = [
        "# All K functions",
        "",
        "Use this page to find a function. All of `from backplane import backend as K` is here, by",
        "task. Each links to its arguments, shapes, dtypes, errors and an example that runs.",
        "[The table of tests](../reference.md) shows what is confirmed on each engine.",
        "",
        " · ".join(f"[{name}](#{slug(name)})" for name in names),
        "",
    ]
    for chapter in CHAPTERS:
        name = chapter.__name__.rpartition(".")[2]
        lines += [f"## {title(name)}", "", "| function | what it does |", "|---|---|"]
        for function in chapter.__all__:
            link = f"[`K.{function}`]({name}.md#{chapter.__name__}.{function})"
            lines.append(f"| {link} | {first_sentence(getattr(chapter, function))} |")
        lines.append("")
    return "\n".join(lines)


def slug(text: str) -> str:
    """The anchor of a heading."""
    return re.sub(r"\W+", "-", text.lower())


def first_sentence(function: object) -> str:
    """What a function does, in one line of a table."""
    text = " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split())
    found = re.match(r".+?[.](?=\s[A-Z`(]|$)", text)
    parts = (found[0] if found else text).split("`")  # In code, a bar is no border.
    return "`".join(t if i % 2 else t.replace("|", "\\|") for i, t in enumerate(parts))


def gallery_page(example: Path, heading: str, summary: str) -> str:
    """A program of the gallery: its picture, its text, what it prints, and the functions in it."""
    name, text = example.stem, example.read_text(encoding="utf-8")
    known = {f: chapter for chapter in CHAPTERS for f in chapter.__all__}
    used = [f for f in dict.fromkeys(re.findall(r"\bK\.(\w+)", text)) if f in known]
    links = [
        f"[`K.{f}`](../reference/{known[f].__name__.rpartition('.')[2]}.md#{known[f].__name__}.{f})"
        for f in used
    ]
    tree = ast.parse(text)
    docstring = ast.get_docstring(tree) or ""
    body = "\n".join(text.splitlines()[tree.body[1].lineno - 1 :])
    printed = ROOT / "docs" / "pictures" / "gallery" / f"{name}.txt"
    lines = [
        f"# {heading}",
        "",
        f"![{summary}](../pictures/gallery/{name}.png)",
        "",
        *docstring.split("\n"),
        "",
        "```",
        f"backplane examples {name} > {name}.py",
        f"KERAS_BACKEND=numpy python {name}.py",
        "```",
        "",
        "It needs matplotlib and scikit-learn, and runs on every engine. Also as a"
        f" [program]({name}.py){{ download }} and a [notebook]({name}.ipynb){{ download }}.",
        "",
        "## The program",
        "",
        "```python",
        body.rstrip("\n"),
        "```",
        "",
    ]
    if printed.exists():
        lines += ["## What it prints", "", "On JAX:", "", "```text"]
        lines += [printed.read_text(encoding="utf-8").rstrip("\n"), "```", ""]
    return "\n".join([*lines, "## Functions in it", "", ", ".join(links), ""])


ENTRY = re.compile(r"^## (.+)\n\n!\[(.*?)\]\(pictures/gallery/(\w+)\.png\)", re.MULTILINE)
"""The entry of a program in docs/gallery.md: its heading, and what its picture shows."""


def gallery_pages() -> dict[str, str]:
    """A page, a program and a notebook for each entry of docs/gallery.md."""
    pages = {}
    overview = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    for heading, summary, name in ENTRY.findall(overview):
        example = ROOT / "examples" / "gallery" / f"{name}.py"
        text = example.read_text(encoding="utf-8")
        pages[f"gallery/{name}.md"] = gallery_page(example, heading, summary)
        pages |= {f"gallery/{name}.py": text, f"gallery/{name}.ipynb": notebook(text)}
    return pages


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
    pages = {"reference/index.md": index_page(), **gallery_pages()}
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
