"""Every example of the gallery runs, draws its picture, and is on the page."""

from __future__ import annotations

import ast
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


def cells_of(example):
    """The code of the example as a notebook, cell by cell."""
    found = json.loads(notebook(example.read_text(encoding="utf-8")))
    first, *cells = found["cells"]
    assert first["cell_type"] == "markdown"
    assert "".join(first["source"]).startswith("# ")
    return ["".join(cell["source"]) for cell in cells]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_a_notebook_has_the_statements_of_the_example(example):
    """The list of options is there to be changed."""
    cells = cells_of(example)
    assert len(cells) > 5
    _, *statements = ast.parse(example.read_text(encoding="utf-8")).body
    wanted = [ast.unparse(x).replace("parse_args()", "parse_args([])") for x in statements]
    assert any("parse_args([])" in x for x in wanted)
    assert [ast.unparse(x) for cell in cells for x in ast.parse(cell).body] == wanted


@pytest.mark.slow
def test_a_notebook_runs(tmp_path):
    options = "parse_args(['--steps', '3', '--out', 'picture.png'])"
    program = "\n\n".join(cells_of(EXAMPLES[0]))
    (tmp_path / "cells.py").write_text(program.replace("parse_args([])", options))
    run(tmp_path, "cells.py")


def test_the_page_shows_every_example():
    page = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    assert len(EXAMPLES) == 11
    for example in EXAMPLES:
        assert f"(../examples/gallery/{example.name})" in page
        assert (ROOT / "docs" / "pictures" / "gallery" / f"{example.stem}.png").is_file()
