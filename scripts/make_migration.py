"""The tables of docs/migration.md, from `backend/elsewhere.txt`.

The text above the line `MARK` in that page is written by hand and stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from backplane.backend import _elsewhere

PAGE = Path(__file__).resolve().parents[1] / "docs" / "migration.md"
MARK = "<!-- Below: written by scripts/make_migration.py from backend/elsewhere.txt. -->"


def files() -> Iterator[tuple[Path, str]]:
    """The page with its text."""
    head = PAGE.read_text(encoding="utf-8").partition(MARK)[0]
    yield PAGE, head + "\n".join([MARK, *tables()]) + "\n"


def tables() -> Iterator[str]:
    """A section for each library."""
    for library, rows in _elsewhere.tables():
        yield from ("", f"## From {library}", "", f"| {library} | here |", "|---|---|")
        for row in rows:
            names = ", ".join(f"`{name}`" for name in row.names)
            yield f"| {names} | {row.here.replace('|', chr(92) + '|')} |"
