"""Count the lines of code of each part of a package: no blank lines, comments or docstrings.

    python scripts/count_lines.py [FOLDER] [--most LINES]

FOLDER is `src/backplane` by default. Exits with 1 if there are more than `--most` lines in all.
"""

from __future__ import annotations

import argparse
import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

LAYOUT = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENDMARKER,
}  # fmt: skip
"""Tokens that make no line a line of code."""


def lines_of_code(text: str) -> int:
    """How many lines of a module hold code."""
    documented: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        said = node.value if isinstance(node, ast.Expr) else None
        if isinstance(said, ast.Constant) and isinstance(said.value, str):
            documented.update(range(said.lineno, (said.end_lineno or said.lineno) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - documented)


def part_of(file: Path, root: Path) -> str:
    """The folder or module of the package that `file` belongs to; each engine counts by itself."""
    parts = file.relative_to(root).parts
    return "/".join(parts[:2]) if parts[0] == "engines" and len(parts) > 2 else parts[0]


def main(arguments: list[str]) -> int:
    """Print the lines of each part and of all; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path("src/backplane"))
    parser.add_argument("--most", type=int, help="the limit for all parts together")
    given = parser.parse_args(arguments)
    counts: Counter[str] = Counter()
    for file in sorted(given.folder.rglob("*.py")):
        counts[part_of(file, given.folder)] += lines_of_code(file.read_text(encoding="utf-8"))
    for part, count in counts.items():
        print(f"{count:7,} {part}")
    total = counts.total()
    print(f"{total:7,} in all" + (f", {given.most:,} at most" if given.most else ""))
    return 1 if given.most and total > given.most else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
