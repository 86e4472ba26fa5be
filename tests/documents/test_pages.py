"""The pages of the site that teach: their programs run, and print what the pages say."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

import waiting
from backplane.engines import installed
from lean import lean

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

LEADING = {
    "conventions.md": "numpy",
    "ctc.md": "numpy",
    "jax.md": "jax",
    "migration.md": "numpy",
    "mlx.md": "mlx",
    "onnx.md": "cntk",
    "performance.md": "numpy",
    "reliability.md": "numpy",
    "tensorflow.md": "tensorflow",
    "tf-keras.md": "numpy",
    "theano.md": "theano",
    "torch.md": "torch",
}
"""Pages that begin with a program, and the engine it needs. `test_fragments.py` runs the rest."""

TOLD = re.compile(r"\A(---\n.*?---\n+)?(<!--.*?-->\n)?# .+\n\nUse this page when ", re.DOTALL)
"""The beginning of every page but the home page."""

SEPARATOR = "----- next block -----"


def blocks(page: str) -> list[tuple[str, str]]:
    """The Python programs of a page, each with what the page says that it prints."""
    text = (DOCS / page).read_text(encoding="utf-8")
    pattern = r"^```python\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?"
    return re.findall(pattern, text, re.DOTALL | re.MULTILINE)


def test_every_page_begins_with_its_use():
    pages = {p.relative_to(DOCS).as_posix(): p for p in DOCS.rglob("*.md")}
    del pages["index.md"]
    assert [name for name, p in pages.items() if not TOLD.match(p.read_text("utf-8"))] == []


@pytest.mark.parametrize("page", [*PAGES, *LEADING])
def test_the_first_program_of_a_page_shows_what_it_prints(page):
    assert blocks(page)[0][1]


@pytest.mark.parametrize("page", LEADING)
def test_the_leading_program_of_a_page(page, tmp_path):
    if not installed(LEADING[page]):
        pytest.skip(f"{LEADING[page]} is not installed")
    run(blocks(page)[:1], tmp_path)


@pytest.mark.parametrize("page", PAGES)
def test_the_programs_of_a_page(page, tmp_path):
    """They run one after the other in one process, as a reader would type them."""
    run(blocks(page), tmp_path)


def run(found, tmp_path):
    assert found, "a page that teaches has a program"
    text = f"print({SEPARATOR!r})\n".join(program for program, _ in found)
    env = {**os.environ, "KERAS_BACKEND": "numpy", "KERAS_HOME": str(tmp_path)}
    done = waiting.run([sys.executable, "-c", text], env=lean(env), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split(f"{SEPARATOR}\n") == [printed for _, printed in found]
