"""Every example of the gallery runs, draws its picture, and is on the page."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

import waiting
from backplane.cli.notebooks import notebook
from lean import LARGE, lean

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples" / "gallery").glob("*.py"))


def run(folder, *command):
    env = {**os.environ, "KERAS_HOME": str(folder), "MPLBACKEND": "agg"}
    # One example chooses Keras' backend itself; the others have an engine's plain name.
    env = lean(env | {"KERAS_BACKEND": "backplane.numpy"}, *LARGE)
    env["KERAS_BACKEND"] = "numpy"
    done = waiting.run([sys.executable, *command], env=env, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert (folder / "picture.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example(example, tmp_path):
    run(tmp_path, str(example), "--steps", "3", "--out", "picture.png")


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_as_a_notebook(example, tmp_path):
    """Its cells run one after the other. The list of options is there to be changed."""
    found = json.loads(notebook(example.read_text(encoding="utf-8")))
    first, *cells = found["cells"]
    assert first["cell_type"] == "markdown"
    assert "".join(first["source"]).startswith("# ")
    options = "parse_args(['--steps', '3', '--out', 'picture.png'])"
    sources = ["".join(cell["source"]) for cell in cells]
    assert len(sources) > 5
    program = "\n\n".join(sources)
    assert "parse_args([])" in program
    (tmp_path / "cells.py").write_text(program.replace("parse_args([])", options))
    run(tmp_path, "cells.py")


def test_the_page_shows_every_example():
    page = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    assert len(EXAMPLES) == 11
    for example in EXAMPLES:
        assert f"(../examples/gallery/{example.name})" in page
        assert (ROOT / "docs" / "pictures" / "gallery" / f"{example.stem}.png").is_file()
