"""The text of `backend/__init__.pyi`, what type checkers and editors see of K, from its chapters.

Most functions are imported from their chapter as they are. A function under the call rule (`api`)
that returns a tensor gets overloads: symbolic tensors and numbers give a symbolic tensor, a native
tensor gives one of its own kind, and what an array gives depends on the engine in force. The file
has no `__getattr__`, so that a misspelt name of K is an error.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BACKEND = ROOT / "src" / "backplane" / "backend"
STUB = BACKEND / "__init__.pyi"

HEADER = '''\
"""The types of K. Written by scripts/make_stubs.py from the chapters: do not edit."""

# mypy: disable-error-code="overload-overlap"

from typing import Any, overload

import numpy as np

from backplane.backend import tensorflow_backend as tensorflow_backend
'''

FIRST_FORMS = (
    ("Symbolic", "Symbolic", "Tensor"),
    ("np.ndarray | np.generic", "TensorLike", "Any"),
    ("NativeT", "TensorLike", "NativeT"),
    ("TensorLike", "TensorLike", "Any"),
)
"""The overloads: type of the first tensor, type of the others, type of the result."""


def files() -> Iterator[tuple[Path, str]]:
    """The stub with its text."""
    yield STUB, stub()


def chapters() -> Iterator[tuple[str, ast.Module, list[str]]]:
    """Each chapter with its syntax tree and the names of K in it."""
    for file in sorted(BACKEND.glob("[a-z]*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        names = public(tree)
        if names and file.stem != "types":
            yield file.stem, tree, names


def public(tree: ast.Module) -> list[str]:
    """The names in `__all__` of a module; nothing if it has none."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return []


def stub() -> str:
    """The text of the file."""
    imported: list[str] = []
    written: list[str] = []
    needed: set[str] = set()
    sources: dict[str, str] = {}
    everything: list[str] = []
    for chapter, tree, names in chapters():
        module = f"backplane.backend.{chapter}"
        functions = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
        sources |= origins(tree, module)
        for name in names:
            function = functions.get(name)
            if function is not None and is_overloaded(function):
                written += overloads(function)
                needed |= used_names(function)
            else:
                imported.append(f"from {module} import {name} as {name}")
        everything += names
    types = sorted({sources[n] for n in needed if n in sources} | ALWAYS)
    listed = "".join(f'    "{name}",\n' for name in sorted(everything))
    parts = [HEADER, *types, *imported, "", f"__all__ = [\n{listed}]", "", *written]
    return "\n".join(parts) + "\n"


ALWAYS = {
    "from backplane.backend.types import NativeT, Symbolic, TensorLike",
    "from backplane.core.graph import Tensor",
}


def is_overloaded(function: ast.FunctionDef) -> bool:
    """Whether the call rule applies to it and its tensors decide what it returns."""
    decorators = {ast.unparse(d) for d in function.decorator_list}
    tensors = [a for a in parameters(function) if annotation(a).startswith("TensorLike")]
    returns = function.returns is not None and ast.unparse(function.returns) == "Tensor"
    return "api" in decorators and returns and bool(tensors)


def parameters(function: ast.FunctionDef) -> list[ast.arg]:
    """All its parameters."""
    args = function.args
    return [*args.posonlyargs, *args.args, *args.kwonlyargs]


def annotation(parameter: ast.arg) -> str:
    """The text of its annotation."""
    return ast.unparse(parameter.annotation) if parameter.annotation is not None else "Any"


def overloads(function: ast.FunctionDef) -> Iterator[str]:
    """The function's signature, once for each form of its first tensor."""
    for first, others, result in FIRST_FORMS:
        copy = ast.parse(ast.unparse(function)).body[0]
        assert isinstance(copy, ast.FunctionDef)
        kinds = iter([first])
        for parameter in parameters(copy):
            text = annotation(parameter)
            if text.startswith("TensorLike"):
                text = text.replace("TensorLike", next(kinds, others))
                parameter.annotation = ast.parse(text, mode="eval").body
        yield f"@overload\ndef {copy.name}({ast.unparse(copy.args)}) -> {result}: ..."


def used_names(function: ast.FunctionDef) -> set[str]:
    """Names in its annotations."""
    trees = [a.annotation for a in parameters(function) if a.annotation is not None]
    return {n.id for tree in trees for n in ast.walk(tree) if isinstance(n, ast.Name)}


def origins(tree: ast.Module, module: str) -> dict[str, str]:
    """Name in a module → the import that brings it."""
    found: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                found[alias.name] = f"from {node.module} import {alias.name}"
        elif isinstance(node, ast.ClassDef):
            found[node.name] = f"from {module} import {node.name}"
        elif isinstance(node, ast.AnnAssign):
            name = ast.unparse(node.target)
            found[name] = f"from {module} import {name}"
    return found
