"""Makes `import backplane.keras3` unnecessary: it happens when Keras is imported.

The wheel has a file `keras_backplane.pth`. Python reads it at its start, and imports this module if
the variable KERAS_BACKEND asks for Backplane.
"""

from __future__ import annotations

import importlib
import sys
from importlib.abc import MetaPathFinder


class BeforeKeras(MetaPathFinder):
    """Finds nothing. It imports `backplane.keras3` when somebody looks for Keras."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        """None, as for all that the other finders are for."""
        if fullname == "keras":
            sys.meta_path.remove(self)
            importlib.import_module("backplane.keras3")


sys.meta_path.insert(0, BeforeKeras())
