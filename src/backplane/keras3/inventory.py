"""The functions that the installed Keras asks of a backend, and those that this one lacks.

    python -m backplane.keras3.inventory

What Keras' own backends for NumPy, JAX and PyTorch all have is the list. Their files are read, and
not imported, because they import their libraries.
"""

from __future__ import annotations

import ast
import importlib.util
import os
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

SERVED = {
    "core": "backplane.keras3.ops.core",
    "distribution_lib": "backplane.keras3.distribution",
    "image": "backplane.keras3.ops.image",
    "linalg": "backplane.keras3.ops.linalg",
    "math": "backplane.keras3.ops.math",
    "nn": "backplane.keras3.ops.nn",
    "numpy": "backplane.keras3.ops.numpy",
    "random": "backplane.keras3.random",
    "rnn": "backplane.keras3.rnn",
    "trainer": "backplane.keras3.trainer",
    "layer": "backplane.keras3.layer",
    "export": "backplane.keras3.export",
}
"""Module of Keras' backend → our module with its functions."""

COMPLETE = ("numpy", "jax", "torch")
"""Backends of Keras' own that are complete. A function that only some of them have is a part of
theirs."""

TESTED = "3.15.1"
"""The release of Keras that Backplane is tested with."""

MODULES = ("core", "image", "linalg", "math", "nn", "numpy", "random", "rnn")


def _keras_backend(name: str, short: str) -> Path:
    spec = importlib.util.find_spec("keras")
    if spec is None or spec.origin is None:
        raise ImportError("Keras is not installed: pip install keras")
    return Path(spec.origin).parent / "src" / "backend" / name / f"{short}.py"


def functions(short: str) -> dict[str, list[str]]:
    """The public functions and classes of a module of a backend, with their parameters as Keras'
    NumPy backend names them.
    """
    first, *others = [
        dict(_public(ast.parse(_keras_backend(name, short).read_text(encoding="utf-8"))))
        for name in COMPLETE
    ]
    return {
        name: parameters
        for name, parameters in first.items()
        if not name.startswith("_") and all(name in other for other in others)
    }


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


def notice(version: str) -> str:
    """A notice at the start about an installed release of Keras; empty if there is nothing. Only
    a release that Backplane is not tested with is looked at.
    """
    missing = {} if version == TESTED else lacking()
    if not missing:
        return ""
    names = [f"{short}.{name}" for short, found in missing.items() for name in found]
    return (
        f"backplane is tested with Keras {TESTED}. Keras {version} asks a backend for functions "
        f"that it lacks: {', '.join(names)}. What needs them fails with an error that names them"
    )


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
