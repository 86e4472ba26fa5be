"""The text of `keras1.pyi`, what type checkers and editors see of K as Keras 1 had it.

What has not changed is imported from K. A function with an old signature has the annotations of
today's parameters under their old names, and overloads as in K's own stub.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import make_stubs
from backplane import backend as K
from backplane.backend import _keras1
from backplane.interop import keras1_names

STUB = make_stubs.ROOT / "src" / "backplane" / "keras1.pyi"

HEADER = '''\
"""The types of K as Keras 1 had it. Written by scripts/make_keras1_stub.py: do not edit."""

# mypy: disable-error-code="overload-overlap"

from collections.abc import Callable, Iterable, Sequence
from typing import Any, overload

import numpy as np

'''


OTHER_TYPES = {"dim_ordering": "str", "padding": "int | Sequence[int]"}
"""Parameters that took other values than today's."""


def files() -> Iterator[tuple[Path, str]]:
    """The stub with its text."""
    yield STUB, stub()


def stub() -> str:
    """The text of the file."""
    found = keras1_names.names()
    sources: dict[str, str] = {}
    for chapter, tree, _ in make_stubs.chapters():
        sources |= make_stubs.origins(tree, f"backplane.backend.{chapter}")
    imported: list[str] = []
    written: list[str] = []
    needed: set[str] = set()
    for name in found["__all__"]:
        if name in keras1_names.AS_TODAY:
            imported.append(f"from backplane.backend import {name} as {name}")
            continue
        function = _definition(name, found[name])
        needed |= make_stubs.used_names(function) | _names(function.returns)
        if make_stubs.is_overloaded(function):
            written += make_stubs.overloads(function)
        else:
            function.decorator_list = []
            written.append(ast.unparse(function))
    types = {sources[n] for n in needed if n in sources and not _in_header(sources[n])}
    listed = "".join(f'    "{name}",\n' for name in found["__all__"])
    parts = [*sorted(types | make_stubs.ALWAYS), *imported, "", f"__all__ = [\n{listed}]", ""]
    return HEADER + "\n".join([*parts, *written]) + "\n"


def _in_header(line: str) -> bool:
    return line in HEADER or line.startswith(("from collections.abc", "from typing"))


def _names(tree: ast.AST | None) -> set[str]:
    return {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} if tree is not None else set()


def _definition(name: str, function: Callable[..., Any]) -> ast.FunctionDef:
    """The function as a stub has it, marked as being under the call rule."""
    own = inspect.signature(function)
    today, renamed = own, {}
    if name in _keras1.SIGNATURES:
        today = inspect.signature(getattr(K, _keras1.TODAY.get(name, name)))
        renamed = _keras1.RENAMED
    shown: list[str] = []
    for old, parameter in own.parameters.items():
        now = today.parameters.get(renamed.get(old, old) or "")
        stars = str(parameter).partition(old)[0]  # Of `*args` and `**kwargs`.
        text = f"{stars}{old}: {OTHER_TYPES.get(old) or _annotation(now)}"
        shown.append(text if parameter.default is parameter.empty else f"{text} = ...")
    returned = today.return_annotation
    result = "Any" if returned is own.empty else returned
    tree = ast.parse(f"@api\ndef {name}({', '.join(shown)}) -> {result}: ...").body[0]
    assert isinstance(tree, ast.FunctionDef)
    return tree


def _annotation(parameter: inspect.Parameter | None) -> str:
    """Today's annotation. An argument that Keras 1 alone had may be anything."""
    if parameter is None or parameter.annotation is parameter.empty:
        return "Any"
    return str(parameter.annotation)
