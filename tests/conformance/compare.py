"""Comparing results of engines: closeness by dtype, numeric derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

RTOL = {"float64": 1e-12, "float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}
"""Relative to the largest magnitude in the expected array: sums cancel, so that small elements
carry the rounding of large ones."""


def assert_close(
    actual: Any, expected: Any, dtype: str, scale: float = 1.0, what: str = "value"
) -> None:
    """Equal shapes, equal infinities and NaNs, and a small distance beside the array's
    magnitude.
    """
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape, (
        f"{what}: shape {actual.shape}, expected {expected.shape}"
    )
    if expected.dtype.kind in "biu":
        np.testing.assert_array_equal(actual, expected, err_msg=what)
        return
    wide = actual.astype("float64")
    finite = np.isfinite(expected)
    size = float(np.max(np.abs(expected[finite]), initial=0.0))
    atol = RTOL[dtype] * scale * max(size, 1e-3)
    np.testing.assert_allclose(wide, expected, rtol=RTOL[dtype] * scale, atol=atol, err_msg=what)


def directional(
    function: Callable[[list[np.ndarray]], float],
    points: Sequence[np.ndarray],
    directions: Sequence[np.ndarray],
) -> float:
    """Derivative of `function` at `points` along `directions`: central differences of two step
    sizes, extrapolated (Richardson), so that the error is of fourth order."""

    def slope(h: float) -> float:
        plus = [p + h * d for p, d in zip(points, directions, strict=True)]
        minus = [p - h * d for p, d in zip(points, directions, strict=True)]
        return (function(plus) - function(minus)) / (2 * h)

    h = 1e-3
    return (4 * slope(h / 2) - slope(h)) / 3
