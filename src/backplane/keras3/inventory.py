"""What the installed Keras asks of a backend, and what this one lacks.

    python -m backplane.keras3.inventory

Keras' own NumPy backend is the list: it is the smallest that is complete. Its files are read, and
not imported, because they import JAX.
"""

from __future__ import annotations

import ast
import importlib.util
import os
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from backplane.keras3.hook import SERVED

MODULES = ("core", "image", "linalg", "math", "nn", "numpy", "random", "rnn")


def _keras_backend(short: str) -> Path:
    spec = importlib.util.find_spec("keras")
    if spec is None or spec.origin is None:
        raise ImportError("Keras is not installed: pip install keras")
    return Path(spec.origin).parent / "src" / "backend" / "numpy" / f"{short}.py"


def functions(short: str) -> dict[str, list[str]]:
    """The public functions and classes of a module of Keras' NumPy backend: name → parameters."""
    tree = ast.parse(_keras_backend(short).read_text(encoding="utf-8"))
    return {name: parameters for name, parameters in _public(tree) if not name.startswith("_")}


def _public(tree: ast.Module) -> Iterator[tuple[str, list[str]]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            given = node.args
            yield node.name, [a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
        elif isinstance(node, ast.ClassDef):
            yield node.name, []


def lacking() -> dict[str, list[str]]:
    """The functions that the installed Keras has and this backend lacks, by module."""
    found = {}
    for short in MODULES:
        ours = vars(import_module(SERVED[short]))
        missing = sorted(name for name in functions(short) if name not in ours)
        if missing:
            found[short] = missing
    return found


def main() -> int:
    """Print what is lacking; return the exit status."""
    os.environ.setdefault("KERAS_BACKEND", "backplane")
    missing = lacking()
    for short, names in missing.items():
        print(f"{short} ({len(names)}): {', '.join(names)}")
    total = sum(len(functions(short)) for short in MODULES)
    print(f"{total - sum(map(len, missing.values()))} of {total} functions are there")
    return 1 if missing else 0


if __name__ == "__main__":
    raise SystemExit(main())
