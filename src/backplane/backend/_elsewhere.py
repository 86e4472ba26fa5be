"""The names of other libraries, and what they are called in K.

`elsewhere.txt` has them: one table for `docs/migration.md`, for the error of `K.reduce_mean` or
`x.mean()`, and for `backplane explain`. A line of it has one or several names, `->`, and what to
write instead. A name that K has too needs no line. The name of a method of tensors begins with
`x.`, that of a method of variables with `w.`. Where two libraries have a name, the first answers.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import numpy as np

from backplane.core.registry import suggestion

METHOD = re.compile(r"[xw]\.")
"""The beginning of an attribute's name."""


class Row(NamedTuple):
    """Some names of another library, and what to write here."""

    names: tuple[str, ...]
    here: str

    @property
    def advice(self) -> str:
        """The advice, without the marks of Markdown."""
        start = "write " if self.here.startswith("`") else ""
        return start + self.here.replace("`", "")


def tables() -> Iterator[tuple[str, list[Row]]]:
    """Each library with its rows."""
    text = resources.files(__package__).joinpath("elsewhere.txt").read_text(encoding="utf-8")
    for part in text.removeprefix("# ").split("\n# "):
        library, *lines = part.split("\n")
        pairs = [line.split(" -> ") for line in lines if line]
        yield library, [Row(tuple(names.split(", ")), here) for names, here in pairs]


@cache
def _advice() -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Advice by name without its library: for functions, and for attributes of tensors."""
    functions: dict[str, str] = {}
    attributes: dict[str, str] = {}
    for _, rows in tables():
        for row in rows:
            for name in row.names:
                table = attributes if METHOD.match(name) else functions
                table.setdefault(name.rpartition(".")[2], row.advice)
    return functions, attributes


def _known() -> dict[str, Any]:
    """The functions of K."""
    names = vars(sys.modules["backplane.backend"])
    return {name: names[name] for name in names.get("__all__", ())}


def for_function(name: str) -> str:
    """Advice on a function that K lacks: `: write K.mean(x, axis)`, a name that is spelled alike,
    or the way to call NumPy's. Empty if there is none.

    Args:
        name: The name, with or without its library: `reduce_mean`, `tf.reduce_mean`.
    """
    functions, attributes, known = *_advice(), _known()
    plain = name.rpartition(".")[2]
    if "." in name and plain in known:
        return f": write {_call(plain, known[plain])}"
    if plain in functions:
        return f": {functions[plain]}"
    if "." in name and plain in attributes:
        return f": {attributes[plain]}"
    if near := suggestion(plain, known, cutoff=0.75):
        return near
    if not plain.startswith("_") and isinstance(getattr(np, plain, None), np.ufunc):
        return f": K.native(fn, x) calls a function of the engine's own library, such as np.{plain}"
    return ""


def for_attribute(name: str) -> str:
    """Advice on an attribute that tensors lack, as `for_function` gives it."""
    functions, attributes, known = *_advice(), _known()
    if name in attributes:
        return f": {attributes[name]}"
    if name in known:
        return f": write {_call(name, known[name])}"
    return f": {functions[name]}" if name in functions else ""


def _call(name: str, function: Any) -> str:
    """`K.name(x, …)` with the arguments that a call must have."""
    if not inspect.isfunction(function):
        return f"K.{name}"
    parameters = inspect.signature(function).parameters.values()
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [p.name for p in parameters if p.default is p.empty and p.kind not in variable]
    return f"K.{name}({', '.join(needed)})"
