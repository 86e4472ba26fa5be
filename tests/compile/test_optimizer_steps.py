"""Steps of optimizers in programs: which are found, what they compute, and of which rows."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from backplane.compile.fuse.updates import find_updates
from backplane.compile.passes.simplify import simplify
from backplane.core.registry import PRIMITIVES
from compile.optimizer_steps import (
    IDS,
    KERNELS,
    WAYS,
    classic_adam,
    descent,
    found,
    momentum,
    variables,
    without_kernels,
)
from devices.placing import skip_where_errors_end_the_device

rng = np.random.default_rng(0)


# --- ways to write them ---------------------------------------------------------------------------


@pytest.mark.parametrize(("way", "names"), WAYS, ids=IDS)
def test_steps_are_found_however_they_are_written(way: Any, names: list[str]) -> None:
    p, m, v, w = variables(4)
    assert found(way(p, m, v, K.sin(w))) == names


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("way", [way for way, _ in WAYS], ids=IDS)
def test_steps_compute_what_was_written(engine: Any, way: Any, dtype: str) -> None:
    K.set_floatx(dtype)
    starts = [rng.random((2, 3)), rng.random((2, 3)), rng.random((2, 3))]
    feeds = [rng.standard_normal((2, 3)).astype(dtype) for _ in range(4)]

    def run(shape: tuple[int, ...]) -> list[Any]:
        state = [K.variable(a.reshape(shape)) for a in starts]
        g = K.placeholder((2, 3))
        step = K.function([g], [K.sum(state[0])], updates=way(*state, K.reshape(g, shape)))
        losses = [step([feed])[0] for feed in feeds]
        return [np.array(losses), *[K.get_value(s).ravel() for s in state]]

    with without_kernels(engine):
        wanted = run((6,))
    tolerance = 1e-5 if dtype == "float32" else 1e-12
    for got, right in zip(run((2, 3)), wanted, strict=True):
        np.testing.assert_allclose(got, right, rtol=tolerance, atol=tolerance * 0.1)


def test_parameters_with_equal_numbers_share_a_node() -> None:
    ps, ms = variables(3), variables(3)
    updates: list[Any] = []
    for i, (p, m) in enumerate(zip(ps, ms, strict=True)):
        m_t = 0.9 * m - (0.01 if i else 0.02) * K.sin(p)
        updates += [(m, m_t), (p, p + m_t)]
    news = [value for _, value in updates]
    results = find_updates(simplify(news), {v: i for i, (v, _) in enumerate(updates)}, KERNELS)  # type: ignore[arg-type]
    assert len({t.inputs[0] for t in results}) == 2


@pytest.mark.parametrize("number", [0.9, 0.95, 0.123456, 0.9994321])
def test_only_complements_make_adam(number: float) -> None:
    p, m, v, w = variables(4)
    g = K.sin(w)

    def adam(rest: float) -> list[str]:
        m_t, v_t = number * m + rest * g, 0.5 * v + 0.5 * g * g
        return found([(m, m_t), (v, v_t), (p, p - 0.1 * m_t / (K.sqrt(v_t) + 1e-7))])

    assert adam(1 - number) == ["adam_update 1"]
    assert adam((1 - number) * 1.01) == []


# --- rows of tables -------------------------------------------------------------------------------


def lookups(table: Any, *indices: Any) -> Any:
    """A loss that reads rows of a table."""
    return K.sum(K.concatenate([K.flatten(K.sin(K.gather(table, i))) for i in indices]))


def test_steps_by_the_gradients_of_lookups_are_found() -> None:
    table, other = variables(2, (5, 3))
    i, j = (K.placeholder((None,), dtype="int32") for _ in range(2))
    (g,) = K.gradients(lookups(table, i), [table])
    assert found([(table, table - 0.1 * g)]) == ["rows_update 1"]
    (both,) = K.gradients(lookups(table, i, j), [table])
    assert found([(table, table - 0.1 * both)]) == ["rows_update 1"]
    updates = [(p, p - 0.1 * K.gradients(lookups(p, i), [p])[0]) for p in (table, other)]
    assert found(updates) == ["rows_update 2"]
    # Every row moves: by a penalty on weights, or by momentum.
    assert found([(table, table - 0.1 * (g + 0.02 * table))]) == ["gradient_update 1"]
    m_t = 0.9 * other - 0.01 * g
    assert found([(other, m_t), (table, table + m_t)]) == ["momentum_update 1"]


@pytest.mark.parametrize("shape", [(5,), (5, 3), (5, 2, 3)])
def test_only_the_rows_that_are_read_move(engine: Any, shape: tuple[int, ...]) -> None:
    """Rows that are named twice move twice; negative indices count from the end."""
    start = rng.random(shape).astype("float32")
    table = K.variable(start)
    i, j = K.placeholder((None, 2), dtype="int32"), K.placeholder((), dtype="int32")
    (g,) = K.gradients(lookups(table, i, j), [table])
    step = K.function([i, j], [], updates=[(table, table - 0.5 * g)])
    wanted = start.copy()
    for rows in ([[0, 2], [2, -1]], [[4, 1], [1, 1]]):
        slope = np.cos(wanted)
        step([np.array(rows), np.array(2)])
        for row in (*np.ravel(rows), 2):
            wanted[row] -= 0.5 * slope[row]
    np.testing.assert_allclose(K.get_value(table), wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(K.get_value(table)[3], start[3])


@pytest.mark.parametrize("shape", [(0, 3), (0,), (4, 0)])
def test_a_step_of_an_empty_table(engine: Any, shape: tuple[int, ...]) -> None:
    table, i = K.variable(np.ones(shape)), K.placeholder((None,), dtype="int32")
    loss = K.sum(K.square(K.gather(table, i)))
    (g,) = K.gradients(loss, [table])
    step = K.function([i], [loss], updates=[(table, table - 0.1 * g)])
    for _ in range(2):
        assert step([np.zeros(shape[0] // 2, "int32")]) == [0]
    assert K.get_value(table).shape == shape


def test_a_wrong_index_changes_nothing(engine: Any, request: pytest.FixtureRequest) -> None:
    skip_where_errors_end_the_device(engine, request)
    table, other = variables(2, (5, 3))
    i = K.placeholder((None,), dtype="int32")
    g, h = K.gradients(K.sum(K.gather(table, i)) + K.sum(K.gather(other, i)), [table, other])
    step = K.function([i], [], updates=[(table, table - g), (other, other - h)])
    step([np.array([0, 1, 1])])
    before = [K.get_value(v) for v in (table, other)]
    refused = False
    try:
        step([np.array([0, 7])])
    except (IndexError, RuntimeError, ValueError):
        refused = True
    # Where steps write over the table, a wrong index must be found before.
    assert refused or not engine.updates_in_place({})
    if refused:
        for was, v in zip(before, (table, other), strict=True):
            np.testing.assert_array_equal(K.get_value(v), was)


# --- the primitives -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "numbers", "kinds", "params"),
    [
        ("gradient_update", (0.1,), 2, {}),
        ("momentum_update", (0.9, -0.1, 1.0), 3, {"nesterov": False}),
        ("momentum_update", (0.0, -0.1, 0.5), 3, {"nesterov": True}),
        ("adam_update", (0.1, 0.9, 0.999, 1e-7), 4, {}),
        ("adam_update", (0.1, 1.0, 0.5, 1e-7), 4, {}),
        ("average_update", (0.9, 0.1), 2, {}),
    ],
)
def test_lowerings_compute_the_decompositions(
    engine: Any, name: str, numbers: Any, kinds: int, params: Any
) -> None:
    op = PRIMITIVES[name]
    # No variables: outside of updates, a step would change them.
    tensors = [K.constant(rng.random(s)) for _ in range(kinds) for s in ((2, 3), (4,))]
    scalars = [K.constant(x) for x in numbers]
    assert op.decomposition is not None
    wanted = op.decomposition(*scalars, *tensors, **params)
    for a, b in zip(op(*scalars, *tensors, **params), wanted, strict=True):
        np.testing.assert_allclose(K.eval(a), K.eval(b), rtol=1e-5)


def test_a_kernel_takes_the_order_in_memory_of_its_gradient(engine: Any) -> None:
    """Steps of all kinds, one after the other, whose gradients come in different orders."""
    start = rng.random((3, 3, 2, 4)).astype("float32")
    w, m, v = K.variable(start), K.zeros(start.shape), K.zeros(start.shape)
    x, c = K.placeholder((None, 12, 12, 2)), K.placeholder(start.shape)
    by_conv = K.gradients(K.sum(K.square(K.conv2d(x, w))), [w])[0]
    data = rng.random((8, 12, 12, 2)).astype("float32") * 0.1
    other = rng.random(start.shape).astype("float32")
    results = []
    for replaced in (True, False):
        K.batch_set_value([(w, start), (m, 0 * start), (v, 0 * start)])
        with nullcontext() if replaced else without_kernels(engine):
            steps = [
                K.function([x, c], [K.sum(w)], updates=way(w, m, v, g))
                for way in (classic_adam, momentum, descent)
                for g in (by_conv + 0 * c, c + 0 * by_conv, by_conv)
            ]
            for _ in range(2):
                for step in steps:
                    step([data, other])
        results.append([K.get_value(t) for t in (w, m, v)])
    for got, wanted in zip(*results, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=2e-4, atol=1e-5)
