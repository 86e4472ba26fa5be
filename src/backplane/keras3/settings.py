"""Keras' own settings, as the functions of the backend read them at each call."""

from __future__ import annotations


def data_format_of(data_format: str | None) -> str:
    """`"channels_last"` or `"channels_first"`; Keras' default for None.

    Raises:
        ValueError: for anything else.
    """
    from keras.src.backend import config

    return str(config.standardize_data_format(data_format))


def epsilon() -> float:
    """The small number that keeps probabilities away from 0 and 1."""
    from keras.src.backend import config

    return float(config.epsilon())
