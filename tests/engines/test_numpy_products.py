"""The NumPy engine: products of arrays of any layout, and of matrices in compressed rows."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from backplane.engines.arrays import linear
from backplane.engines.numpy import ENGINE
from engines import lowerings

lower = partial(lowerings.lower, ENGINE)
rng = np.random.default_rng(0)


@pytest.mark.parametrize("shape", [(6, 8), (5, 6, 8)])
def test_products_of_arrays_that_blas_cannot_read(shape: tuple[int, ...]) -> None:
    y = rng.standard_normal((*shape[:-2], 8, 3)).astype("float32")
    whole = rng.standard_normal((*shape[:-1], 16)).astype("float32")
    views = (np.broadcast_to(np.float32(2), shape), whole[..., ::2], whole[..., 7::-1])
    for x in (*views, np.broadcast_to(whole[..., :1], shape)):
        result = lower("matmul", x, y, transpose_x=False, transpose_y=False)
        np.testing.assert_allclose(result, x.astype("float64") @ y, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
def test_products_of_compressed_rows_without_scipy(dtype: str) -> None:
    dense = (rng.random((50, 200)) < 0.1) * rng.integers(1, 9, (50, 200))
    dense[3] = rng.integers(1, 9, 200)  # a long row
    dense[[0, 7, 49]] = 0
    dense = dense.astype(dtype)
    rows, columns = np.nonzero(dense)
    offsets = np.concatenate([[0], np.cumsum(np.count_nonzero(dense, 1))])
    places = [columns.astype("int32"), offsets.astype("int32"), rows, np.zeros(200, "int8")]
    for y in (rng.integers(0, 9, (200, 3)).astype(dtype), np.ones((200, 0), dtype)):
        found = linear._by_lengths(dense[rows, columns], *places, y)
        np.testing.assert_array_equal(found, dense @ y, strict=True)
    none = np.zeros(0, "int32"), np.zeros(1, "int32"), np.zeros(0, "int32"), np.zeros(2, "int8")
    assert linear._by_lengths(np.zeros(0, dtype), *none, np.ones((2, 3), dtype)).shape == (0, 3)
    with pytest.raises(ValueError, match="200 columns"):
        linear._by_lengths(dense[rows, columns], *places, np.ones((199, 3), dtype))


def test_the_layout_of_compressed_rows_goes_with_the_matrix() -> None:
    y = rng.random((6, 2))
    before = len(linear._layouts)
    for count in (2, 3, 1):  # New arrays may be where those of the last matrix were.
        columns = np.arange(count, dtype="int32")
        offsets = np.array([0, 0, count], "int32")
        rows, across = np.ones(count, "int32"), np.zeros(6, "int8")
        for factor in (1.0, 2.0):
            values = np.full(count, factor)
            found = linear._by_lengths(values, columns, offsets, rows, across, y)
            np.testing.assert_allclose(found, [[0, 0], factor * y[:count].sum(0)])
            assert len(linear._layouts) == before + 1
        del columns, offsets
        assert len(linear._layouts) == before
