"""Integers beyond 32 bits are compared as what they are."""

from __future__ import annotations

import numpy as np
import pytest

from backplane import backend as K

EDGES = {
    "int64": [
        -(2**63),
        2**63 - 1,
        -(2**33),
        -(2**31) - 1,
        -1,
        0,
        1,
        7,
        2**31,
        2**32 - 1,
        2**53 + 1,
    ],
    "uint32": [0, 1, 7, 2**31 - 1, 2**31, 2**31 + 2, 2**32 - 1],
    "uint64": [0, 1, 7, 2**31, 2**32 - 1, 2**53 + 1, 2**63, 2**64 - 1],
}
AXES = {"all": None, "first": 0, "last": -1, "two": (0, 2)}


def edges(dtype: str, *shape: int) -> np.ndarray:
    return np.random.default_rng(0).choice(np.array(EDGES[dtype], dtype), shape)


@pytest.mark.parametrize("dtype", EDGES)
@pytest.mark.parametrize("axis", AXES.values(), ids=AXES)
@pytest.mark.parametrize("keepdims", [False, True], ids=["", "keepdims"])
def test_extremes(engine, dtype, axis, keepdims):
    x = K.placeholder((None, 4, 5), dtype=dtype)
    axes = list(axis) if isinstance(axis, tuple) else axis
    f = K.function([x], [g(x, axis=axes, keepdims=keepdims) for g in (K.max, K.min)])
    for count in (1, 3, 8):
        given = edges(dtype, count, 4, 5)
        for found, g in zip(f([given]), (np.max, np.min), strict=True):
            wanted = g(given, axis=axis, keepdims=keepdims)
            np.testing.assert_array_equal(found, wanted)
            assert found.dtype == wanted.dtype


@pytest.mark.parametrize("dtype", EDGES)
def test_larger_and_smaller_ones(engine, dtype):
    x, y = K.placeholder((None, 9), dtype=dtype), K.placeholder((None, 9), dtype=dtype)
    bound = K.constant(2**31 + 1, dtype=dtype)
    f = K.function([x, y], [K.maximum(x, y), K.minimum(x, y), K.minimum(x, bound), K.sign(x)])
    a, b = edges(dtype, 6, 9), edges(dtype, 6, 9)[::-1].copy()
    number = np.array(2**31 + 1, dtype)
    wanted = [np.maximum(a, b), np.minimum(a, b), np.minimum(a, number), np.sign(a)]
    for found, value in zip(f([a, b]), wanted, strict=True):
        np.testing.assert_array_equal(found, value)


def test_relu_clip_and_pooling(engine):
    x = K.placeholder((2, 4, 4, 3), dtype="int64")
    given = edges("int64", 2, 4, 4, 3)
    f = K.function([x], [K.relu(x), K.clip(x, -(2**33), 2**33), K.pool2d(x, (2, 2), (2, 2))])
    rectified, clipped, pooled = f([given])
    np.testing.assert_array_equal(rectified, np.maximum(given, 0))
    np.testing.assert_array_equal(clipped, np.clip(given, -(2**33), 2**33))
    np.testing.assert_array_equal(pooled, given.reshape(2, 2, 2, 2, 2, 3).max((2, 4)))
