"""Keras' own settings, as the functions of the backend read them at each call."""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextvars import ContextVar
from importlib import import_module
from typing import Any

from backplane.core.context import assigned

_config: list[Any] = []

_float64: ContextVar[bool] = ContextVar("whether layers of float64 are running", default=False)


def settings() -> tuple[str, str, float, bool]:
    """The settings that functions of the backend depend on. What was traced holds for these."""
    config = _config[0] if _config else _imported()
    floatx = config.floatx()
    return (
        floatx, config.image_data_format(), config.epsilon(), floatx == "float64" or _float64.get()
    )  # fmt: skip


def keeps_float64() -> bool:
    """Whether float64 stays what it is: if it is `floatx()`, and in layers and steps whose dtype
    policy asks for it. Otherwise the backend computes with 32 bits, as Keras does on JAX.
    """
    return settings()[3]


def float64_kept(kept: bool) -> AbstractContextManager[None]:
    """Context manager: what `keeps_float64` says inside, if `floatx()` is not float64."""
    return assigned(_float64, kept)


def _imported() -> Any:
    """Keras' module of settings. It is imported at the first use, as all of Keras."""
    _config.append(import_module("keras.src.backend.config"))
    return _config[0]


def data_format_of(data_format: str | None) -> str:
    """`"channels_last"` or `"channels_first"`; Keras' default for None.

    Raises:
        ValueError: for anything else.
    """
    from keras.src.backend import config

    return str(config.standardize_data_format(data_format))


def epsilon() -> float:
    """The small number that keeps probabilities away from 0 and 1."""
    return settings()[2]
