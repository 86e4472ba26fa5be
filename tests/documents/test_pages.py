"""The pages of the site that teach: their programs run, and print what the pages say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [
    "index.md",
    "cheat-sheet.md",
    "cookbook.md",
    "debugging.md",
    "devices.md",
    "keras-3-backend.md",
    "operators.md",
    "reproducibility.md",
    *sorted(str(p.relative_to(DOCS)) for p in (DOCS / "start").glob("*.md")),
]

SEPARATOR = "----- next block -----"


def blocks(page: str) -> list[tuple[str, str]]:
    """The Python programs of a page, each with what the page says that it prints."""
    text = (DOCS / page).read_text(encoding="utf-8")
    pattern = r"^```python\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?"
    return re.findall(pattern, text, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES)
def test_the_programs_of_a_page(page, tmp_path):
    """They run one after the other in one process, as a reader would type them."""
    found = blocks(page)
    assert found, "a page that teaches has a program"
    text = f"print({SEPARATOR!r})\n".join(program for program, _ in found)
    env = {**os.environ, "KERAS_BACKEND": "numpy", "KERAS_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", text], env=env, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split(f"{SEPARATOR}\n") == [printed for _, printed in found]
