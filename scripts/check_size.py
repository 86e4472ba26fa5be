"""Check that files and functions stay small enough to hold in mind.

    python scripts/check_size.py [FOLDER …]

Warns above 400 lines a file and 40 lines a function, fails above 450 and 45. A function is counted
without its docstring and decorators, so that nobody saves on documentation.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FOLDERS = ["src", "scripts", "tests", "examples", "benchmarks"]


class Limit(NamedTuple):
    """Above `near` is worth a warning, above `most` is an error."""

    near: int
    most: int


FILE = Limit(400, 450)
FUNCTION = Limit(40, 45)


class Size(NamedTuple):
    """How long something is, and how long it may be."""

    place: str
    what: str
    lines: int
    limit: Limit


def sizes(file: Path) -> Iterator[Size]:
    """The size of `file` and of each function in it."""
    text = file.read_text(encoding="utf-8")
    yield Size(str(file), "the file", len(text.splitlines()), FILE)
    for node in ast.walk(ast.parse(text, str(file))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            place = f"{file}:{node.lineno}"
            yield Size(place, f"function {node.name}", function_lines(node), FUNCTION)


def function_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from `def` to the end, without the docstring."""
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    first = node.body[0]
    if ast.get_docstring(node, clean=False) is not None:
        lines -= (first.end_lineno or first.lineno) - first.lineno + 1
    return lines


def main(arguments: list[str]) -> int:
    """Check the folders; print what is long; return the exit status."""
    folders = [Path(name) for name in arguments or FOLDERS]
    files = sorted(file for folder in folders for file in folder.rglob("*.py"))
    too_long = 0
    for size in (size for file in files for size in sizes(file)):
        if size.lines > size.limit.near:
            error = size.lines > size.limit.most
            too_long += error
            allowed = f"at most {size.limit.most}" if error else f"better {size.limit.near}"
            kind = "error" if error else "warning"
            print(f"{size.place}: {kind}: {size.what} has {size.lines} lines, {allowed}")
    if not too_long:
        print(f"sizes: {len(files)} files, none too long")
    return 1 if too_long else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
