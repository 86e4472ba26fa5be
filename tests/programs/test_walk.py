"""docs/how-it-works.md follows a tensor from K.dot to the engine: these are the files it passes."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np

from backplane import backend as K
from backplane.ops.linear import matmul

PACKAGE = Path(K.__file__).parents[1]
PAGE = Path(__file__).parents[2] / "docs" / "how-it-works.md"

DOORS = ["backend/_call.py", "backend/_kfunction.py"]
"""The call rule and what `K.function` returns hand a first call on."""


def stations() -> list[str]:
    """The files in the table of the page."""
    section = PAGE.read_text(encoding="utf-8").partition("## One tensor")[2].partition("\n## ")[0]
    return re.findall(r"^\| \d \| `([^`]*)`", section, re.MULTILINE)


def test_a_first_call_passes_the_files_that_the_page_names(engine):
    listed = stations()
    assert len(listed) <= 7
    passed: set[str] = set()

    def note(frame, event, _):
        """Who called, at the birth of the product and wherever the text of the program runs."""
        code = frame.f_code
        born = code.co_qualname == "Tensor.__init__" and frame.f_locals["op"] is matmul
        if event == "call" and (born or code.co_filename.startswith("<backplane program")):
            while frame is not None:
                file = Path(frame.f_code.co_filename)
                if file.is_relative_to(PACKAGE):
                    passed.add(file.relative_to(PACKAGE).as_posix())
                frame = frame.f_back

    x, w = K.placeholder((2, 3)), K.variable(np.ones((3, 5)))
    sys.setprofile(note)
    try:
        y = K.dot(x, w)
    finally:
        sys.setprofile(None)
    f = K.function([x], [y])
    sys.setprofile(note)
    try:
        f([np.ones((2, 3))])
    finally:
        sys.setprofile(None)
    ours = ("backend/", "compile/")
    walked = {file for file in passed if file.startswith(ours)}
    assert walked == {*DOORS, *(file for file in listed if file.startswith(ours))}
