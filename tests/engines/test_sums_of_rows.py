"""Rows added by index, few and many: values and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from backplane import backend as K

RNG = np.random.default_rng(3)
SHAPES = [(300, 9, 40), (300, 3, 40), (20, 9, 40), (300, 9, 5000), (5000, 16, 300)]


def added(rows: np.ndarray, ids: np.ndarray, size: int) -> np.ndarray:
    found = np.zeros((size, *rows.shape[1:]))
    np.add.at(found, ids, rows)
    return found


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32"])
@pytest.mark.parametrize(("count", "width", "size"), SHAPES)
def test_the_gradient_of_gather(engine: Any, count: int, width: int, size: int, dtype: str) -> None:
    if dtype in engine.missing_dtypes:
        return
    ids = RNG.integers(-size, size, count)
    rows = np.round(RNG.normal(size=(count, width)) * 4) / 4
    for kind in ("int32", "int64"):
        at = K.placeholder((None,), dtype=kind)
        given = K.placeholder((None, width), dtype=dtype)
        if dtype == "int32":
            outputs = [K.segment_sum(given, at, size)]
            want = added((rows * 4)[ids >= 0], ids[ids >= 0], size)
        else:
            table = K.zeros((size, width), dtype=dtype)
            outputs = K.gradients(K.sum(K.gather(table, at) * given), [table])
            want = added(rows, ids, size)
        values = (rows * 4).astype(dtype) if dtype == "int32" else rows
        [found] = K.function([given, at], outputs)([values, ids.astype(kind)])
        assert found.dtype.name == dtype
        # These sums are exact, but for the digits of the halves.
        loose = {"float16": 2e-3, "bfloat16": 2e-2}.get(dtype, 0)
        np.testing.assert_allclose(found.astype("float64"), want, rtol=loose, atol=loose)


@pytest.mark.parametrize("index", [40, -41, 2**31, -(2**40)])
def test_an_index_out_of_range(engine: Any, index: int) -> None:
    at = K.placeholder((None,), dtype="int64")
    table = K.variable(np.zeros((40, 9)))
    slope = K.gradients(K.sum(K.gather(table, at) * 2.0), [table])
    f = K.function([at], slope)
    ids = RNG.integers(0, 40, 300)
    ids[7] = index
    if "unchecked" in engine.capabilities:
        f([ids])
        return
    with pytest.raises(IndexError):
        f([ids])
