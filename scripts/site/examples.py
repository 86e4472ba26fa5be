"""Our docstrings say `Example:`; griffe, which reads them for the site, takes only `Examples:` for
a section of runnable code.
"""

from __future__ import annotations

from typing import Any

import griffe


class Examples(griffe.Extension):
    """Renames the section in every docstring."""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Griffe calls this for each function."""
        if func.docstring is not None:
            func.docstring.value = func.docstring.value.replace("\nExample:\n", "\nExamples:\n")
