"""Sparse matrices that callers pass in. They are recognised by their attributes, because SciPy is
not a dependency.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def is_sparse_matrix(value: Any) -> bool:
    """Whether `value` is a matrix or array of `scipy.sparse`, in any format."""
    return hasattr(value, "toarray") and hasattr(value, "nnz")


def is_triple(value: Any) -> bool:
    """Whether `value` is the triple (indices, values, shape) of a matrix, the form that TensorFlow
    1 took for feeding.
    """
    if not isinstance(value, tuple) or len(value) != 3:
        return False
    return [np.ndim(part) for part in value] == [2, 1, 1] and len(value[2]) == 2


def dense_array(value: Any) -> np.ndarray:
    """The dense array of what `is_sparse_matrix` or `is_triple` recognised; repeated entries add
    up.
    """
    if is_sparse_matrix(value):
        return np.asarray(value.toarray())
    indices, values, shape = value
    values = np.asarray(values)
    result = np.zeros([int(n) for n in shape], values.dtype)
    np.add.at(result, tuple(np.asarray(indices, "int64").T), values)
    return result
