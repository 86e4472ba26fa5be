"""The names under which users know the functions of the backend, at the beginning of errors."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from backplane.core.registry import PRIMITIVES


def keras_name(function: Callable[..., Any]) -> str:
    """The name under which users call a function of the backend, such as `keras.ops.take`. Empty
    for one that they do not call.
    """
    if function.__name__.startswith("_"):
        return ""
    place = function.__module__.removeprefix("backplane.keras3.").split(".")
    if place[0] == "ops":
        return f"keras.ops.{'image.' if place[1] == 'image' else ''}{function.__name__}"
    return f"keras.random.{function.__name__}" if "random" in place else ""


_BEGINNING = re.compile(r"([\w.]+): ")
"""The beginning of errors of K, of primitives and of running programs: the name of a function."""


def name_function(error: Exception, name: str) -> None:
    """Let the message of an error begin with the name of the function of Keras that failed."""
    if not name or len(error.args) != 1 or not isinstance(error.args[0], str):
        return
    text = error.args[0]
    if text.startswith("keras."):
        return
    found = _BEGINNING.match(text)
    if found and (
        found[1].startswith(("K.", "backend."))
        or found[1] in PRIMITIVES
        or found[1].rpartition(".")[2] == name.rpartition(".")[2]
    ):
        text = text[found.end() :]
    error.args = (f"{name}: {text}",)


_OPERATION = re.compile(r"^backend\.(?:(?:core|numpy|nn|math|linalg)\.)?(?=[\w.]+: )")
"""The form in which Keras' operations call a function of the backend."""


def name_operation(error: Exception) -> None:
    """Let the message of an error from a running program name Keras' operation, where it begins
    with the line in that operation.
    """
    if len(error.args) == 1 and isinstance(error.args[0], str):
        error.args = (_OPERATION.sub("keras.ops.", error.args[0]),)
