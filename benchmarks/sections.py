"""The page docs/measurements.md, of which several programs each write one section.

A section stands between two marks. The text of a program is a page of its own; here its headings
are one level deeper.
"""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "measurements.md"


def write(name: str, text: str, file: Path = PAGE) -> None:
    """Put a text in the place of the section `name`.

    Raises:
        ValueError: if the page has no such section.
    """
    begin, end = f"<!-- {name}: written by a program -->\n", f"<!-- end of {name} -->\n"
    page = file.read_text(encoding="utf-8")
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise ValueError(f"{file} has no section {name}")
    file.write_text(f"{before}{begin}{deeper(text).strip()}\n{end}{after}", encoding="utf-8")


def deeper(text: str) -> str:
    """A text with its headings one level deeper. Code is left alone."""
    parts = re.split(r"(^```.*?^```$)", text, flags=re.DOTALL | re.MULTILINE)
    headed = [re.sub(r"^#", "##", part, flags=re.MULTILINE) for part in parts[::2]]
    parts[::2] = headed
    return "".join(parts)
