"""Indices on torch: the kernels refuse negative ones, K counts them from the end."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

pytest.importorskip("torch")
import torch

from backplane import backend as K
from backplane import engines
from backplane.engines.torch import indexing


@pytest.fixture(autouse=True)
def on_torch() -> Iterator[None]:
    with engines.use("torch"):
        yield


def test_an_index_into_rows_without_elements() -> None:
    with pytest.raises(IndexError, match=r"K\.gather: an index is out of range"):
        K.gather(np.zeros((1, 0)), np.array([0, 1]))


@pytest.mark.parametrize("index", ["int32", "int64"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bool"])
@pytest.mark.parametrize("shape", [(5,), (5, 1), (5, 3), (5, 2, 3)])
def test_indices_are_looked_at_only_where_the_kernel_refuses_them(
    shape: tuple[int, ...], dtype: str, index: str
) -> None:
    x = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    table, indices = K.placeholder(shape, dtype=dtype), K.placeholder((None, 2), dtype=index)
    rows = K.function([table, indices], [K.gather(table, indices)])
    flat = K.function([table, indices], [K.gather(table, indices[:, 0])])
    for given in ([[0, 4]], [[-1, 3], [-5, 0]], [[2, 2], [4, -3]]):
        places = np.array(given, index)
        np.testing.assert_array_equal(rows([x, places])[0], x[places])
        np.testing.assert_array_equal(flat([x, places])[0], x[places[:, 0]])
    for wrong in (5, -6, 2**31 - 1):
        for function in (rows, flat):
            with pytest.raises(IndexError, match=r"K\.gather: an index is out of range"):
                function([x, np.array([[wrong, 0]], index)])


@pytest.mark.parametrize("index", ["int32", "int64"])
def test_rows_of_tables_that_negative_indices_name_are_updated(index: str) -> None:
    p, indices = K.variable(np.zeros((70_000, 2))), K.placeholder((None,), dtype=index)
    (g,) = K.gradients(K.sum(K.gather(p, indices)), [p])
    step = K.function([indices], [], updates=[K.update_sub(p, 0.5 * g)])
    step([np.array([1, -1, 1], index)])
    wanted = np.zeros((70_000, 2))
    wanted[[1, -1]] = [[-1.0], [-0.5]]
    np.testing.assert_array_equal(K.get_value(p), wanted)
    for wrong in (70_000, -70_001):
        with pytest.raises(IndexError, match="out of range"):
            step([np.array([wrong], index)])
    np.testing.assert_array_equal(K.get_value(p), wanted)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8])
def test_indices_of_rows_are_checked(dtype: torch.dtype) -> None:
    x = torch.arange(12.0).reshape(4, 3)
    fine = torch.tensor([[3, 0], [1, 3]], dtype=dtype)
    assert indexing.rows_of(x, fine).tolist() == [3, 0, 1, 3]
    assert indexing.rows_of(x[:0], fine[:0]).tolist() == []
    wrong = [[0, 4]] if dtype == torch.uint8 else [[0, 4], [-5, 0], [-1, 4]]
    for indices in wrong:
        with pytest.raises((IndexError, RuntimeError)):
            indexing.rows_of(x, torch.tensor(indices, dtype=dtype))
    if dtype != torch.uint8:
        assert indexing.rows_of(x, torch.tensor([-1, 0, -4], dtype=dtype)).tolist() == [3, 0, 0]
