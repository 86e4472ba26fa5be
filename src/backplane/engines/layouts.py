"""The warning that an operation cannot keep the layout of its operands on a mesh."""

from __future__ import annotations

import warnings
from typing import Any

from backplane.core.source import marked
from backplane.engines.programs import Line


class LayoutWarning(UserWarning):
    """An operation needs an operand whole that lies on the mesh in parts."""


_warned: dict[Any, Any] = {}


def warn_of_gathering(text: str, line: Line | None) -> None:
    """Warn in the name of the user's line that a line of an emitted program comes from."""
    place = marked(*line) if line else None
    where = getattr(place, "where", None)
    if where is None:
        warnings.warn(text, LayoutWarning, stacklevel=2)
    else:
        warnings.warn_explicit(
            f"{text} (built at {where})", LayoutWarning, where.filename, where.line,
            registry=_warned,
        )  # fmt: skip
