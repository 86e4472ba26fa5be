"""Every example of the gallery runs, draws its picture, and is on the page."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples" / "gallery").glob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example(example, tmp_path):
    env = {**os.environ, "KERAS_BACKEND": "numpy", "KERAS_HOME": str(tmp_path), "MPLBACKEND": "agg"}
    done = subprocess.run(
        [sys.executable, str(example), "--steps", "3", "--out", "picture.png"],
        env=env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_the_page_shows_every_example():
    page = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    assert len(EXAMPLES) == 10
    for example in EXAMPLES:
        assert f"(../examples/gallery/{example.name})" in page
        assert (ROOT / "docs" / "pictures" / "gallery" / f"{example.stem}.png").is_file()
