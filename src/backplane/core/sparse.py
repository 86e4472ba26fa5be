"""Sparse matrices that callers bring, recognised by what they offer: SciPy is no dependency."""

from __future__ import annotations

from typing import Any

import numpy as np


def is_sparse_matrix(value: Any) -> bool:
    """Whether `value` is a matrix or array of `scipy.sparse`, in whatever format."""
    return hasattr(value, "toarray") and hasattr(value, "nnz")


def is_triple(value: Any) -> bool:
    """Whether `value` is (indices, values, shape) of a matrix, as TensorFlow 1 wanted it fed."""
    if not isinstance(value, tuple) or len(value) != 3:
        return False
    return [np.ndim(part) for part in value] == [2, 1, 1] and len(value[2]) == 2


def dense_array(value: Any) -> np.ndarray:
    """What `is_sparse_matrix` or `is_triple` recognised, as an array; repeated entries add up."""
    if is_sparse_matrix(value):
        return np.asarray(value.toarray())
    indices, values, shape = value
    values = np.asarray(values)
    result = np.zeros([int(n) for n in shape], values.dtype)
    np.add.at(result, tuple(np.asarray(indices, "int64").T), values)
    return result
