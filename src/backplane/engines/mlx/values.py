"""MLX's arrays from NumPy's and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import mlx.core as mx
import numpy as np

from backplane.core.spec import DTYPES
from backplane.engines.table import Value

MLX: dict[str, mx.Dtype] = {n: getattr(mx, "bool_" if n == "bool" else n) for n in DTYPES}
NAMES: dict[mx.Dtype, str] = {dtype: name for name, dtype in MLX.items()}
"""Names of dtypes, and MLX's dtypes."""


def from_numpy(array: np.ndarray, dtype: str | None = None) -> mx.array:
    """A copy. Without its dtype MLX would make float32 of float64."""
    name = dtype or array.dtype.name
    if not array.size:  # MLX's reductions of an empty array that came from NumPy never end.
        return zeros(array.shape, MLX[name])
    kind = np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)
    return mx.array(np.array(array, kind, order="C"), MLX[name])


def zeros(shape: Sequence[Any], dtype: mx.Dtype) -> mx.array:
    """Zeros of any dtype. GPUs refuse to make those of float64."""
    return mx.zeros(shape, dtype, stream=mx.cpu if dtype == mx.float64 else None)


def to_numpy(value: mx.array) -> np.ndarray:
    """A copy. NumPy's buffers know no bfloat16, hence its bits."""
    if value.dtype == mx.bfloat16:
        return np.array(value.view(mx.uint16)).view(ml_dtypes.bfloat16)
    return np.array(value)


def scalar(value: float, dtype: str) -> mx.array:
    """A number in full precision: MLX itself reads Python's floats as float32."""
    return from_numpy(np.asarray(value), dtype)


def number(value: Value) -> Any:
    """A host value, or the content of a scalar."""
    return value.item() if isinstance(value, mx.array) else value
