"""The R functions `k_…` and their help pages, from the signatures and docstrings of K."""

from __future__ import annotations

import inspect
import os
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "r"
FUNCTIONS = FOLDER / "R" / "functions.R"
PAGES = FOLDER / "man"
MADE = "Written by scripts/make_r.py from Backplane's Python signatures: do not edit."

# Names only: which engine this process would use, and what is configured, does not matter.
os.environ["KERAS_BACKEND"] = "numpy"


def files() -> Iterator[tuple[Path, str]]:
    """Each file with its text."""
    from backplane import backend as K

    functions = {name: inspect.unwrap(getattr(K, name)) for name in sorted(K.__all__)}
    lines = [f"# {MADE}"]
    for name, function in functions.items():
        lines += ["", definition(name, function)]
        yield PAGES / f"k_{name}.Rd", page(name, function)
    yield FUNCTIONS, "\n".join(lines) + "\n"


# --- R functions ----------------------------------------------------------------------------------


def definition(name: str, function: Callable[..., Any]) -> str:
    """The R function that calls K's `name`."""
    parameters = list(inspect.signature(function).parameters.values())
    given = ["..." if p.kind is p.VAR_KEYWORD else f"{p.name} = {p.name}" for p in parameters]
    head = wrapped(f"k_{name} <- function(", formals(function), ")")
    body = wrapped(f'  call_k("{name}", list(', given, "))")
    return f"{head} {{\n{body}\n}}"


def formals(function: Callable[..., Any]) -> list[str]:
    """The arguments of the R function, with R's defaults; axes count from 1."""
    return [formal(p) for p in inspect.signature(function).parameters.values()]


def formal(p: inspect.Parameter) -> str:
    """One argument."""
    from backplane.interop.r import AXES

    if p.kind is p.VAR_KEYWORD:
        return "..."
    default = p.default
    if default is p.empty:
        return p.name
    if p.name in AXES and isinstance(default, int) and default >= 0:
        default += 1
    return f"{p.name} = {literal(default)}"


def literal(value: Any) -> str:
    """A Python default as R writes it.

    Raises:
        TypeError: for values that no parameter of K has.
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, int):
        return f"{value}L"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, tuple):
        nested = any(isinstance(v, tuple) for v in value)
        return f"{'list' if nested else 'c'}({', '.join(map(literal, value))})"
    raise TypeError(f"no R form for the default {value!r}")


def wrapped(start: str, items: list[str], end: str) -> str:
    """`start item, item, … end` in lines of at most 80 characters."""
    indent = " " * (len(start) - len(start.lstrip()) + 4)
    line = start + ", ".join(items) + end
    if len(line) <= 78:
        return line
    lines = [indent]
    for i, item in enumerate(items):
        piece = item + ("," if i < len(items) - 1 else "")
        if len(lines[-1]) + len(piece) > 76 and lines[-1] != indent:
            lines.append(indent)
        lines[-1] += piece if lines[-1] == indent else f" {piece}"
    return "\n".join([start, *lines, indent[4:] + end])


# --- help pages -----------------------------------------------------------------------------------

PLAIN = "Tensor or variable, or what becomes one."
"""The argument of a function whose docstring says nothing of it."""
HEADINGS = ("Args", "Returns", "Raises", "Example", "Examples")
AXIS_NOTE = "Axes count from 1 in this function, or from -1 at the end."
REDUCTION_NOTE = "As in R's keras, \\code{reduction_axes} counts from 0."


def page(name: str, function: Callable[..., Any]) -> str:
    """The help page of `k_name`."""
    from backplane.interop.r import AXES

    title, about, sections = parsed(inspect.getdoc(function) or "")
    names = list(inspect.signature(function).parameters)
    lines = [
        f"% {MADE}",
        "\\encoding{UTF-8}",
        f"\\name{{k_{name}}}",
        f"\\alias{{k_{name}}}",
        f"\\title{{{markup(title.rstrip('.'), links=False)}}}",
        "\\usage{",
        wrapped(f"k_{name}(", formals(function), ")"),
        "}",
    ]
    described = arguments(sections.get("Args", ""))
    if names:
        lines += ["\\arguments{", *items(names, function, described), "}"]
    notes = [AXIS_NOTE] if AXES & set(names) else []
    notes += [REDUCTION_NOTE] if "reduction_axes" in names else []
    lines += ["\\description{", markup(title)]
    lines += [f"\n{part}" for part in [*map(markup, about), *notes]]
    lines.append("}")
    if "Returns" in sections:
        lines += ["\\value{", markup(sections["Returns"]), "}"]
    same = f"\\code{{\\link{{backend}}}}: \\code{{K${quoted(name)}}} is the same function"
    lines += ["\\seealso{", same + (", with axes from 0." if AXES & set(names) else "."), "}"]
    return "\n".join(lines) + "\n"


def quoted(name: str) -> str:
    """A name as it stands behind `$`: reserved words of R in backticks."""
    return f"`{name}`" if name in ("function", "repeat") else name


def items(
    names: list[str], function: Callable[..., Any], described: dict[str, str]
) -> Iterator[str]:
    r"""One `\item` per argument; what a docstring leaves to another function links there."""
    found = re.search(r"`K\.(\w+)`", inspect.getdoc(function) or "")
    other = f"See \\code{{\\link{{k_{found[1]}}}}}." if found else PLAIN
    for name in names:
        label = "\\dots" if name == "kwargs" else name
        yield f"\\item{{{label}}}{{{markup(described[name]) if name in described else other}}}"


def parsed(text: str) -> tuple[str, list[str], dict[str, str]]:
    """A docstring's first sentence, further paragraphs, and sections by heading."""
    sections: dict[str, str] = {}
    parts = re.split(rf"^({'|'.join(HEADINGS)}):\n", text, flags=re.MULTILINE)
    for heading, body in zip(parts[1::2], parts[2::2], strict=True):
        sections[heading] = textwrap.dedent(body).strip()
    title, *about = [" ".join(p.split()) for p in parts[0].strip().split("\n\n")]
    return title, about, sections


def arguments(text: str) -> dict[str, str]:
    """The descriptions of an `Args` section by name; `start, stop: …` describes both."""
    found: dict[str, str] = {}
    for match in re.finditer(r"^([\w*, ]+): (.*(?:\n +.*)*)", text, re.MULTILINE):
        for name in match[1].split(","):
            found[name.strip(" *")] = " ".join(match[2].split())
    return found


WORDS = {"None": "NULL", "True": "TRUE", "False": "FALSE"}


def markup(text: str, links: bool = True) -> str:
    """Docstring markup as Rd: code, links to other functions, R's words for Python's."""
    text = re.sub(r"([\\%{}])", r"\\\1", text)
    text = re.sub(rf"\b({'|'.join(WORDS)})\b", lambda m: WORDS[m[1]], text)

    def code(match: re.Match[str]) -> str:
        inside = match[1]
        name = re.fullmatch(r"K\.(\w+)", inside)
        if name and links:
            return f"\\code{{\\link{{k_{name[1]}}}}}"
        inside = re.sub(r"\bK\.(?=\w)", "k_", inside)
        return f"\\code{{{inside}}}"

    text = re.sub(r"`([^`]*)`", code, text)
    return "\n".join(textwrap.wrap(" ".join(text.split()), 90, break_on_hyphens=False))
