"""Windows that fade signals in and out. Their lengths are numbers that Python knows."""

from __future__ import annotations

from typing import Any

import numpy as np

from backplane.keras3.ops.numpy.operands import floatx
from backplane.keras3.ops.numpy.values import by_values

__all__ = ["bartlett", "blackman", "hamming", "hanning", "kaiser"]

_on_length = by_values("the length of the window is the value of x")


def _made(window: np.ndarray) -> np.ndarray:
    return window.astype(floatx())


@_on_length
def bartlett(x: Any) -> Any:
    """The Bartlett window with `x` points: a triangle."""
    return _made(np.bartlett(int(x)))


@_on_length
def blackman(x: Any) -> Any:
    """The Blackman window with `x` points: a sum of three cosines."""
    return _made(np.blackman(int(x)))


@_on_length
def hamming(x: Any) -> Any:
    """The Hamming window with `x` points: a cosine on a pedestal."""
    return _made(np.hamming(int(x)))


@_on_length
def hanning(x: Any) -> Any:
    """The Hann window with `x` points: a cosine."""
    return _made(np.hanning(int(x)))


@_on_length
def kaiser(x: Any, beta: Any) -> Any:
    """The Kaiser window with `x` points; the larger `beta`, the narrower it is."""
    return _made(np.kaiser(int(x), float(beta)))
