"""The conformance cases by theme. Importing this package declares all of them."""

import importlib
import pkgutil

from cases.record import CASES

for module in sorted(m.name for m in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"cases.{module}")

__all__ = ["CASES"]
