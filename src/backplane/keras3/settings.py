"""Keras' own settings, as the functions of the backend read them at each call."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_config: list[Any] = []


def settings() -> tuple[str, str, float]:
    """The settings that functions of the backend depend on. What was traced holds for these."""
    config = _config[0] if _config else _imported()
    return config.floatx(), config.image_data_format(), config.epsilon()


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
