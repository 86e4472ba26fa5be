"""Steps of optimizers for the rows of a table that a batch reads: which keep to them, and what they
compute.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from backplane.compile import passes
from backplane.compile.fuse import rows
from backplane.compile.fuse.updates import keep_to_rows
from backplane.compile.passes.simplify import simplify
from backplane.core.graph import toposort
from backplane.ops.updates import merged_rows, rows_set, rows_write
from devices.placing import skip_where_errors_end_the_device

RNG = np.random.default_rng(3)
HAS = SimpleNamespace(table={"rows_set": None})
SHAPE = (7, 3)


@pytest.fixture(autouse=True)
def _small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of the tests are small."""
    monkeypatch.setattr(rows, "LARGE", 2)


# --- ways to write steps --------------------------------------------------------------------------
# Each takes a table, two states, and a gradient, and gives pairs of variables and new values.


def adagrad(p: Any, a: Any, b: Any, g: Any) -> Any:
    a_t = a + K.square(g)
    return [(a, a_t), (p, p - 0.1 * g / (K.sqrt(a_t) + 1e-7))]


def keras_3_adagrad(p: Any, a: Any, b: Any, g: Any) -> Any:
    a_t = g * g + a
    return [(a, a_t), (p, p - (K.constant(0.1) * g) / K.sqrt(1e-7 + a_t))]


def adagrad_by_power(p: Any, a: Any, b: Any, g: Any) -> Any:
    a_t = a + K.pow(g, 2)
    return [(a, a_t), (p, p - g * K.pow(a_t + 1e-6, -0.5) * 0.1)]


def adagrad_of_rows(p: Any, a: Any, b: Any, g: Any) -> Any:
    """One number for each row, as recommender systems have it."""
    row = K.zeros((SHAPE[0], 1))
    new = row + K.mean(K.square(g), axis=-1, keepdims=True)
    return [(row, new), (p, p - 0.1 * g / (K.sqrt(new) + 1e-3))]


def clipped_adagrad(p: Any, a: Any, b: Any, g: Any) -> Any:
    return adagrad(p, a, b, K.clip(g, -0.5, 0.5))


def adagrad_of_a_clipped_norm(p: Any, a: Any, b: Any, g: Any) -> Any:
    norm = K.sqrt(K.sum(K.square(g)))
    return adagrad(p, a, b, K.switch(norm >= 0.5, g * 0.5 / norm, g))


def adagrad_with_decay(p: Any, a: Any, b: Any, g: Any) -> Any:
    rate, iterations = K.variable(0.1), K.variable(3.0)
    rate = rate * (1.0 / (1.0 + 0.01 * iterations))
    a_t = a + K.square(g)
    return [(a, a_t), (p, p - rate * g / (K.sqrt(a_t) + K.epsilon()))]


def constrained_adagrad(p: Any, a: Any, b: Any, g: Any) -> Any:
    """Only the state keeps its other rows: those of the table may be negative."""
    (state, (table, new)) = adagrad(p, a, b, g)
    return [state, (table, K.maximum(new, 0.0))]


def sign_descent(p: Any, a: Any, b: Any, g: Any) -> Any:
    return [(p, p - 0.01 * K.sign(g))]


def maximal(p: Any, a: Any, b: Any, g: Any) -> Any:
    """A largest gradient for each element."""
    a_t = K.maximum(K.abs(a), K.abs(g))
    return [(b, b + K.abs(g) * a_t), (p, p - 0.1 * g / (a_t + 1e-3))]


STAY: list[Callable[..., Any]] = [
    adagrad, keras_3_adagrad, adagrad_by_power, adagrad_of_rows, clipped_adagrad,
    adagrad_of_a_clipped_norm, adagrad_with_decay, sign_descent, maximal,
]  # fmt: skip


def momentum(p: Any, a: Any, b: Any, g: Any) -> Any:
    a_t = 0.9 * a - 0.1 * g
    return [(a, a_t), (p, p + a_t)]


def rms_prop(p: Any, a: Any, b: Any, g: Any) -> Any:
    a_t = 0.9 * a + 0.1 * K.square(g)
    return [(a, a_t), (p, p - 0.1 * g / (K.sqrt(a_t) + 1e-7) - 0.01 * p)]


def decayed_adagrad(p: Any, a: Any, b: Any, g: Any) -> Any:
    return adagrad(p, a, b, g + 0.01 * p)


def over_zero(p: Any, a: Any, b: Any, g: Any) -> Any:
    """0 / 0 for rows that nobody has read."""
    a_t = a + K.square(g)
    return [(p, p - 0.1 * g / K.sqrt(a_t))]


def mixing_rows(p: Any, a: Any, b: Any, g: Any) -> Any:
    return [(p, p - g * K.cumsum(g, axis=0))]


def reversing_rows(p: Any, a: Any, b: Any, g: Any) -> Any:
    return [(p, p - K.square(K.reverse(g, axes=0)))]


def plain_descent(p: Any, a: Any, b: Any, g: Any) -> Any:
    """Sums need no old rows: others replace it."""
    return [(p, p - 0.1 * g)]


MOVE: list[Callable[..., Any]] = [
    momentum, rms_prop, decayed_adagrad, over_zero, mixing_rows, reversing_rows, plain_descent
]  # fmt: skip


def lookups(table: Any, *indices: Any) -> Any:
    """A loss that reads rows of a table."""
    return K.sum(K.concatenate([K.flatten(K.sin(K.gather(table, i))) for i in indices]))


def found(step: Callable[..., Any], *dtypes: str) -> int:
    """How many variables keep their other rows."""
    p, a, b = [K.variable(RNG.random(SHAPE)) for _ in range(3)]
    (g,) = K.gradients(lookups(p, *[K.placeholder((None,), dtype=d) for d in dtypes]), [p])
    updates = step(p, a, b, g)
    news = simplify([new for _, new in updates])
    state = {v: i for i, (v, _) in enumerate(updates)}
    results = keep_to_rows(news, state, {}, HAS)  # type: ignore[arg-type]
    return sum(t.op is rows_set for t in results)


@pytest.mark.parametrize("dtypes", [("int32",), ("int32", "int64")])
@pytest.mark.parametrize("step", STAY, ids=lambda step: step.__name__)
def test_steps_that_keep_to_rows(step: Any, dtypes: Any) -> None:
    p, a, b, g = [K.variable(RNG.random(SHAPE)) for _ in range(4)]
    assert found(step, *dtypes) == len(step(p, a, b, g))


@pytest.mark.parametrize("step", MOVE, ids=lambda step: step.__name__)
def test_steps_that_do_not(step: Any) -> None:
    assert found(step, "int32") == 0
    assert found(constrained_adagrad, "int32") == 1


def test_the_gradient_is_not_spread() -> None:
    p, a, b = [K.variable(RNG.random(SHAPE)) for _ in range(3)]
    (g,) = K.gradients(lookups(p, K.placeholder((None,), dtype="int32")), [p])
    updates = adagrad(p, a, b, g)
    results = keep_to_rows([t for _, t in updates], {a: 0, p: 1}, {}, HAS)  # type: ignore[arg-type]
    ops = [node.op.name for node in toposort(results) if node.op is not None]
    assert "scatter_add" not in ops
    assert ops.count("merged_rows") == 1
    assert ops.count("gather") == 3


def test_small_tables_are_computed_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "LARGE", 22)
    assert found(adagrad, "int32") == 0


# --- what is computed -----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("step", [*STAY, constrained_adagrad], ids=lambda step: step.__name__)
def test_rows_are_those_of_the_whole_step(engine: Any, step: Any, dtype: str) -> None:
    """Rows that are named twice get the sum, in one lookup and in two; negative indices count from
    the end.
    """
    K.set_floatx(dtype)
    start = RNG.random(SHAPE)

    def run() -> list[np.ndarray]:
        p, a, b = [K.variable(x) for x in (start, np.abs(start), start)]
        i, j = K.placeholder((None, 2), dtype="int32"), K.placeholder((), dtype="int64")
        loss = lookups(p, i, j)
        (g,) = K.gradients(loss, [p])
        updates = step(p, a, b, g)
        function = K.function([i, j], [loss], updates=updates)
        losses = [
            function([np.array(x, "int32").reshape(-1, 2), np.array(y)])[0]
            for x, y in ([[0, 2, 2, -1], 2], [[4, 1, 1, 1], -7], [[], 6])
        ]
        return [np.array(losses), *[K.get_value(v) for v, _ in updates]]

    with passes.without("rows"):
        wanted = run()
    tolerance = 1e-5 if dtype == "float32" else 1e-12
    for got, right in zip(run(), wanted, strict=True):
        np.testing.assert_allclose(got, right, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("shape", [(5,), (5, 2, 3)])
def test_tables_of_other_ranks(engine: Any, shape: tuple[int, ...]) -> None:
    # New values are not near 0, where their relative error would be that of a difference.
    start = (0.5 + np.random.default_rng(0).random(shape)).astype("float32")
    p, a, i = K.variable(start), K.variable(start), K.placeholder((3,), dtype="int32")
    (g,) = K.gradients(lookups(p, i), [p])
    K.function([i], [], updates=adagrad(p, a, None, g))([np.array([1, 3, 1])])
    g = np.zeros_like(start)
    np.add.at(g, [1, 3, 1], np.cos(start[[1, 3, 1]]))
    sums = start + g**2
    np.testing.assert_allclose(K.get_value(a), sums, rtol=1e-5)
    np.testing.assert_allclose(K.get_value(p), start - 0.1 * g / np.sqrt(sums), rtol=1e-5)
    np.testing.assert_array_equal(K.get_value(p)[[0, 2, 4]], start[[0, 2, 4]])


def test_a_large_table(engine: Any) -> None:
    """Some engines keep large variables in another way."""
    start = (0.5 + np.random.default_rng(0).random((70_000, 8))).astype("float32")
    p, a = K.variable(start), K.variable(np.ones_like(start))
    i = K.placeholder((None,), dtype="int32")
    loss = lookups(p, i)
    (g,) = K.gradients(loss, [p])
    step = K.function([i], [loss], updates=adagrad(p, a, None, g))
    wanted, sums = start.copy(), np.ones_like(start)
    for batch in ([3, 69_999, 3], [-1, 5, 12_345], [3, 3, 3]):
        np.testing.assert_allclose(step([np.array(batch)])[0], np.sin(wanted[batch]).sum(), 1e-5)
        g = np.zeros_like(start)
        np.add.at(g, batch, np.cos(wanted[batch]))
        sums += g**2
        wanted -= (0.1 * g / np.sqrt(sums)).astype("float32")
    np.testing.assert_allclose(K.get_value(p), wanted, rtol=1e-5)
    np.testing.assert_allclose(K.get_value(a), sums, rtol=1e-5)


def test_a_wrong_index_changes_nothing(engine: Any, request: pytest.FixtureRequest) -> None:
    skip_where_errors_end_the_device(engine, request)
    p, a = K.variable(RNG.random(SHAPE)), K.variable(RNG.random(SHAPE))
    i = K.placeholder((None,), dtype="int32")
    (g,) = K.gradients(lookups(p, i), [p])
    step = K.function([i], [], updates=adagrad(p, a, None, g))
    step([np.array([0, 1, 1])])
    before = [K.get_value(v) for v in (p, a)]
    try:
        step([np.array([0, 9])])
    except (IndexError, RuntimeError, ValueError):
        for was, v in zip(before, (p, a), strict=True):
            np.testing.assert_array_equal(K.get_value(v), was)
    else:  # Such an index names no row.
        for was, v in zip(before, (p, a), strict=True):
            np.testing.assert_array_equal(K.get_value(v)[1:], was[1:])


def test_values_that_were_handed_out_stay(engine: Any) -> None:
    start = RNG.random(SHAPE).astype("float32")
    p, a, i = K.variable(start), K.variable(start), K.placeholder((None,), dtype="int32")
    (g,) = K.gradients(lookups(p, i), [p])
    step = K.function([i], [K.sum(p)], updates=adagrad(p, a, None, g))
    read = K.function([i], [p], updates=adagrad(p, a, None, g))
    first = K.eager(K.identity)(p)
    step([np.array([1])])
    second, copy = K.eager(K.reshape)(p, (3, 7)), K.get_value(p)
    third = read([np.array([1, 2])])[0]
    np.testing.assert_array_equal(engine.to_numpy(first), start)
    np.testing.assert_array_equal(engine.to_numpy(second).reshape(SHAPE), copy)
    np.testing.assert_array_equal(third, copy)
    assert (K.get_value(p)[1:3] != copy[1:3]).all()


# --- the primitives -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(0,), (1,), (6,), (2, 3)])
@pytest.mark.parametrize("row", [(), (2,), (2, 2)])
@pytest.mark.parametrize("kind", ["int32", "int64", "uint8"])
def test_rows_are_merged(engine: Any, dtype: str, shape: Any, row: Any, kind: str) -> None:
    indices = RNG.integers(0 if kind == "uint8" else -5, 5, shape).astype(kind)
    g = RNG.integers(-4, 5, (*shape, *row)).astype(dtype)
    operands = [K.placeholder(x.shape, dtype=x.dtype.name) for x in (g, indices)]
    sums, once = K.function(operands, merged_rows(*operands, size=5))([g, indices])
    table = np.zeros((5, *row), dtype)
    np.add.at(table, indices.astype("int64"), g)
    inside = once < 5
    assert once.min(initial=0) >= 0
    assert {*once[inside].tolist()} == {*(indices.astype("int64") % 5).ravel().tolist()}
    np.testing.assert_array_equal(sums[inside], table[once[inside]])


@pytest.mark.parametrize("op", [rows_set, rows_write], ids=["set", "write"])
@pytest.mark.parametrize("indices", [[], [3], [0, 4, 2], [1, 3, 1]])
@pytest.mark.parametrize("row", [(), (2,), (2, 3)])
def test_rows_are_set(engine: Any, op: Any, indices: list[int], row: Any) -> None:
    tables = [RNG.random((5, *row)).astype("float32") for _ in range(2)]
    at = np.array(indices, "int32")
    new = RNG.random((5, *row)).astype("float32")[at]
    xs = [K.constant(x) for x in tables]
    rest = K.constant(new), K.constant(at, dtype="int32")
    results = [op(x, *rest) for x in xs] if op is rows_set else op(*xs, *rest, *rest)
    for x, result in zip(tables, results, strict=True):
        wanted = x.copy()
        wanted[at] = new
        np.testing.assert_array_equal(K.eval(result), wanted)
