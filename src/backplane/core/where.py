"""Where in the user's code a tensor was built: recorded cheaply, spelled out when something
fails.
"""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NamedTuple

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_foreign: dict[str, bool] = {}


class Where(NamedTuple):
    """A line of the user's code."""

    filename: str
    line: int
    function: str

    def __str__(self) -> str:
        text = linecache.getline(self.filename, self.line).strip()
        place = f"{self.filename}:{self.line} in {self.function}"
        return f"{place}: {text}" if text else place


_inherited: Where | None = None


def user_line() -> Where | None:
    """The innermost line outside this package that is being executed, or the inherited one."""
    if _inherited is not None:
        return _inherited
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        # By its file, not by the code itself: code that PyTorch's compiler wrote has no hash.
        code = frame.f_code
        outside = _foreign.get(code.co_filename)
        if outside is None:
            outside = _foreign[code.co_filename] = not code.co_filename.startswith(_PACKAGE)
        if outside:
            return Where(code.co_filename, frame.f_lineno, code.co_name)
        frame = frame.f_back
    return None


@contextmanager
def inherit(where: Where | None) -> Iterator[None]:
    """Tensors built inside belong to `where`: gradients and rewrites point at the original line."""
    global _inherited
    before, _inherited = _inherited, where
    try:
        yield
    finally:
        _inherited = before


def set_inherited(where: Where | None) -> Where | None:
    """Like `inherit` without a context manager, for inner loops: returns the former value."""
    global _inherited
    before, _inherited = _inherited, where
    return before
