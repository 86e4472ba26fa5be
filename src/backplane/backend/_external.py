"""External backends: K from somebody else's module."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from backplane import config, engines

REQUIRED = ("placeholder", "variable", "function")

COMMON = frozenset(
    (
        "backend", "cast_to_floatx", "epsilon", "floatx", "get_uid", "image_data_format",
        "image_dim_ordering", "normalize_data_format", "py_all", "py_sum", "reset_uids",
        "set_epsilon", "set_floatx", "set_image_data_format", "set_image_dim_ordering",
    )
)  # fmt: skip
"""The names that stay ours: the settings, and what has nothing to do with tensors."""


def take(choice: config.Choice, names: dict[str, Any]) -> None:
    """Make somebody else's module the backend.

    Args:
        choice: Its dotted name, and where that was configured.
        names: The globals of `backplane.backend`. The module's functions replace those of the API.
            A function that the module lacks raises an error when it is called. All other names of
            the module are added.

    Raises:
        ImportError: if there is no such module; the message lists the engines. Other errors of
            importing the module are passed on.
        ValueError: if it lacks any of `placeholder`, `variable` and `function`.
    """
    name = choice.name
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # The module is there; it lacks another one.
        raise ModuleNotFoundError(engines.unknown(choice), name=error.name) from None
    given = {key: value for key, value in vars(module).items() if not key.startswith("__")}
    missing = [entry for entry in REQUIRED if entry not in given]
    if missing:
        raise ValueError(
            f"the backend {name!r} ({getattr(module, '__file__', None)}) lacks the required "
            f"{'entry' if len(missing) == 1 else 'entries'} {', '.join(missing)}"
        )
    for key in names["__all__"]:
        if key not in COMMON:
            names[key] = given[key] if key in given else _refusal(key, name)
    for key, value in given.items():
        if key not in COMMON:
            names.setdefault(key, value)


def _refusal(key: str, name: str) -> Callable[..., Any]:
    def refuse(*args: object, **kwargs: object) -> Any:
        raise NotImplementedError(f"K.{key}: the backend {name!r} does not define it")

    refuse.__name__ = refuse.__qualname__ = key
    return refuse
