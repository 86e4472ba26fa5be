"""Sums with gradients of lookups, as additions to the rows of a table."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from backplane.compile.fuse.rows import add_rows
from backplane.compile.passes.simplify import simplify
from backplane.core.graph import toposort
from backplane.ops.updates import rows_add
from core.evaluate import leaf

RNG = np.random.default_rng(5)
HAS = SimpleNamespace(table={"rows_add"})
HAS_NOT = SimpleNamespace(table=set())


def kinds(*outputs: Any, engine: Any = HAS) -> list[str]:
    found = add_rows(simplify(outputs), engine)
    return [node.op.name for node in toposort(found) if node.op is not None]


def gradient(table: Any, *indices: Any) -> Any:
    loss = K.py_sum(K.sum(K.square(K.gather(table, i))) for i in indices)
    return K.gradients(loss, [table])[0]


def test_sums_that_are_found() -> None:
    table, i = leaf(5, 3), K.placeholder((None,), dtype="int32")
    j, rate = K.placeholder((), dtype="int32"), K.placeholder((), dtype="float64")
    g = gradient(table, i)
    for y in (table - 0.1 * g, table + g, g + table, table - rate * g / 2.0, -g * rate + table):
        found = kinds(y)
        assert "rows_add" in found
        assert "scatter_add" not in found
        assert "scatter_add" in kinds(y, engine=HAS_NOT)
    assert kinds(table - 0.1 * gradient(table, i, j)).count("rows_add") == 2


def test_sums_that_stay() -> None:
    table, i = leaf(5, 3), K.placeholder((None,), dtype="int32")
    g = gradient(table, i)
    scaled = 0.1 * g
    for outputs in (
        [table - scaled, scaled],  # somebody reads the gradient
        [g - table],
        [leaf(3) + g],  # broadcast
        [table - 0.1 * K.tanh(g)],
        [table - g / leaf(5, 3)],
        [table - 0.1 * K.gradients(K.sum(table[:, :2]), [table])[0]],
    ):
        assert "rows_add" not in kinds(*outputs)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("shape", [(), (4,), (2, 3)])
@pytest.mark.parametrize("rows", [(6,), (6, 2)])
def test_rows_are_added(engine: Any, dtype: str, shape: tuple, rows: tuple) -> None:
    x = RNG.integers(-4, 5, rows).astype(dtype)
    indices = RNG.integers(-6, 6, shape).astype("int32")
    g = RNG.integers(-4, 5, (*shape, *rows[1:])).astype(dtype)
    wanted = x.copy()
    np.add.at(wanted, indices, g)
    operands = [K.placeholder(a.shape, dtype=a.dtype.name) for a in (x, g, indices)]
    found = K.function(operands, [rows_add(*operands)])([x, g, indices])[0]
    np.testing.assert_array_equal(found, wanted)
