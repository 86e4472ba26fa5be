"""Run by Python at the start of every process of the tests, whose PYTHONPATH has this folder.

JAX makes a context of MLIR for each program that it compiles, which takes 3 to 7 ms. The tests
compile thousands of small programs: they take 0.84 of the time if some share a context. With more
than a hundred in one, each takes longer.
"""

from __future__ import annotations

import sys
import threading
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

MODULE = "jax._src.interpreters.mlir"
PROGRAMS = 32
"""So many share a context."""


class Finder:
    """Has JAX's module share contexts once it is imported."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """The module's own spec, with more to do behind its execution."""
        if name != MODULE or (spec := PathFinder.find_spec(name, path, target)) is None:
            return None
        loader: Any = spec.loader
        execute = loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            share(module)

        loader.exec_module = exec_module
        return spec


def share(module: Any) -> None:
    """A release that makes contexts elsewhere goes on doing so."""
    make, kept = getattr(module, "make_ir_context", None), threading.local()

    def shared() -> Any:
        kept.left = getattr(kept, "left", 0) - 1
        if kept.left < 0:
            kept.context, kept.left = make(), PROGRAMS - 1
        return kept.context

    if make is not None:
        module.make_ir_context = shared


if not any(type(finder).__name__ == Finder.__name__ for finder in sys.meta_path):
    sys.meta_path.insert(0, Finder())
