"""ONNX Runtime: steps of optimizers, and of rows of a table, in the memory of the variables."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import waiting
from backplane import backend as K
from backplane import engines
from backplane.compile import passes
from backplane.engines.onnxruntime.fast import frozen, updates

rng = np.random.default_rng(0)
START = rng.random((6, 3)).astype("float32")


@pytest.fixture(autouse=True)
def any_size(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Variables of any size are written in place."""
    monkeypatch.setattr(updates, "LARGE", 0)
    monkeypatch.setattr(updates, "MEAN", 0)
    with engines.use("cntk"):
        yield


def slope(table: Any, *indices: Any) -> Any:
    """The gradient of a loss that reads rows of the table twice as sines."""
    rows = K.concatenate([K.flatten(K.sin(K.gather(table, i))) for i in indices])
    return K.gradients(K.sum(rows), [table])[0]


def ids(*shape: int | None) -> Any:
    return K.placeholder(shape, dtype="int32")


def stepping() -> tuple[Any, Any]:
    """A table, and a step on the rows that it is given."""
    table, i = K.variable(START), ids(None)
    return table, K.function([i], [], updates=[(table, table - 0.5 * slope(table, i))])


def held(variable: Any) -> np.ndarray:
    """The array that is the variable's value."""
    return variable.values[engines.get("cntk")]


def moved(start: np.ndarray, *rows: int) -> np.ndarray:
    """What a step makes of a table."""
    found = start.copy()
    for row in rows:
        found[row] -= 0.5 * np.cos(start[row])
    return found


def close(a: Any, b: Any) -> None:
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_from_the_second_step_on_rows_are_written_in_place() -> None:
    table, step = stepping()
    step([np.array([1, 1, -2])])
    first = held(table)
    close(first, moved(START, 1, 1, -2))
    second = moved(first, 0, 5)
    step([np.array([0, 5])])
    assert np.shares_memory(held(table), first)
    assert held(table) is not first
    close(held(table), second)
    np.testing.assert_array_equal(held(table)[2:4], START[2:4])


@pytest.mark.parametrize("off", [(), ("optimizer_steps",)])
def test_steps_are_the_same_without_it(off: tuple[str, ...]) -> None:
    tables = [K.variable(START[:k]) for k in (6, 4)]
    i, j, rate = ids(None, 2), ids(), K.placeholder(())
    pairs = [(t, t - rate * slope(t, i, j)) for t in tables]
    f = K.function([i, j, rate], [K.sum(rate) * 2], updates=pairs)
    wanted = [START[:k] for k in (6, 4)]
    with passes.without(*off):
        for rows in ([[0, 2], [2, -1]], [[3, 1], [1, 1]]):
            assert f([np.array(rows), np.array(2), 0.5])[0] == 1.0
            wanted = [moved(t, *np.ravel(rows), 2) for t in wanted]
            for t, w in zip(tables, wanted, strict=True):
                close(K.get_value(t), w)


def test_a_call_reads_the_old_rows() -> None:
    table, i, j = K.variable(START), ids(None), ids(None)
    f = K.function([i, j], [K.gather(table, j)], [(table, table - 0.5 * slope(table, i))])
    for _ in range(3):
        before = K.get_value(table)
        np.testing.assert_array_equal(f([np.array([0, 1]), np.array([1, 2])])[0], before[1:3])
        close(K.get_value(table), moved(before, 0, 1))


def test_the_whole_old_table_may_be_read_or_returned() -> None:
    table, i = K.variable(START), ids(None)
    new = table - 0.5 * slope(table, i)
    total = K.function([i], [K.sum(table)], updates=[(table, new)])
    whole = K.function([i], [K.reshape(table, (3, 6))], updates=[(table, new)])
    for f in (total, total, whole, whole):
        before = K.get_value(table)
        (found,) = f([np.array([4])])
        kept = found.copy()
        close(found, before.sum() if f is total else before.reshape(3, 6))
        close(K.get_value(table), moved(before, 4))
        f([np.array([4])])
        np.testing.assert_array_equal(found, kept)


def test_what_was_handed_out_stays() -> None:
    table, step = stepping()
    other, copy = K.variable(np.zeros((6, 3))), K.function([], [table])
    step([np.array([0])])
    K.function([], [], updates=[(other, table)])([])
    kept = [K.get_value(table), copy([])[0], K.eager(K.identity)(table), held(other)]
    wanted = [np.array(x) for x in kept]
    step([np.array([0])])
    assert not np.array_equal(K.get_value(table), wanted[0])
    for x, w in zip(kept, wanted, strict=True):
        np.testing.assert_array_equal(x, w)


def test_a_call_that_fails_changes_nothing() -> None:
    table, other = K.variable(START), K.variable(START)
    i, j = ids(None), ids(None)
    pairs = [(table, table - slope(table, i)), (other, other - slope(other, j))]
    f = K.function([i, j], [], updates=pairs)
    f([np.array([0]), np.array([1])])
    before = K.get_value(table), K.get_value(other)
    with pytest.raises(IndexError):
        f([np.array([0]), np.array([6])])
    for v, was in zip((table, other), before, strict=True):
        np.testing.assert_array_equal(K.get_value(v), was)
    # Nobody looks these rows up, because the slope does not depend on them.
    linear = K.gradients(K.sum(K.gather(table, i)), [table])[0]
    g = K.function([i], [], updates=[(table, table - linear)])
    g([np.array([0])])
    was = K.get_value(table)
    with pytest.raises(IndexError):
        g([np.array([0, -7])])
    np.testing.assert_array_equal(K.get_value(table), was)


def test_a_session_with_constants_sees_new_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frozen, "CALLS", 0)
    table, step = stepping()
    x = K.placeholder((None, 3))
    f = K.function([x], [K.dot(x, K.transpose(table))])
    points = rng.random((2, 3)).astype("float32")
    for rows in ([0], [0, 3], [5], [5]):
        step([np.array(rows)])
        for _ in range(4):
            close(f([points])[0], points @ K.get_value(table).T)


def test_readers_see_whole_steps() -> None:
    """A step moves all rows of a table of equal numbers alike."""
    rows = np.arange(4000)
    table, i = K.variable(np.zeros((4000, 8))), ids(None)
    (g,) = K.gradients(K.sum(K.gather(table, i)), [table])
    step = K.function([i], [], updates=[(table, table - g)])
    spread = K.function([], [K.max(table) - K.min(table)])
    step([rows])
    found, done = [], threading.Event()

    def read() -> None:
        while not done.is_set():
            found.append(float(spread([])[0]))

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(30):
        step([rows])
    done.set()
    waiting.joined(reader)
    assert found
    assert set(found) == {0.0}


def test_loops_and_functions_of_arrays_beside_a_step() -> None:
    table, i, x = K.variable(START), ids(None), K.placeholder((None, 3))
    doubled = K.native(lambda a: 2 * a, K.gather(table, i))
    summed = K.foldl(lambda a, row: a + row, x)
    f = K.function([i, x], [doubled, summed], [(table, table - 0.5 * slope(table, i))])
    rows = rng.random((4, 3)).astype("float32")
    for _ in range(2):
        before = K.get_value(table)
        first, second = f([np.array([2, 3]), rows])
        close(first, 2 * before[2:4])
        close(second, rows.sum(0))
        close(K.get_value(table), moved(before, 2, 3))


def test_steps_on_a_device_and_of_the_librarys_tensors_replace_the_table() -> None:
    with K.device("cpu:0"):
        table, step = stepping()
        for rows in ([0, 0], [1, 2]):
            before = K.get_value(table)
            step([np.array(rows)])
            close(K.get_value(table), moved(before, *rows))


# --- steps of whole variables ---------------------------------------------------------------------


def plain(p: Any, g: Any) -> list[Any]:
    return [(p, p - 0.1 * g)]


def with_momentum(p: Any, g: Any) -> list[Any]:
    m = K.zeros(K.int_shape(p))
    new = 0.9 * m - 0.1 * g
    return [(m, new), (p, p + new)]


def nesterov(p: Any, g: Any) -> list[Any]:
    m = K.zeros(K.int_shape(p))
    new = 0.9 * m - 0.1 * g
    return [(m, new), (p, p + 0.9 * new - 0.1 * g)]


def adam(p: Any, g: Any) -> list[Any]:
    m, v = K.zeros(K.int_shape(p)), K.zeros(K.int_shape(p))
    m_t, v_t = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * K.square(g)
    return [(m, m_t), (v, v_t), (p, p - 0.1 * m_t / (K.sqrt(v_t) + 1e-7))]


@pytest.mark.parametrize("way", [plain, with_momentum, nesterov, adam])
def test_whole_variables_are_written_in_place(way: Any) -> None:
    x = K.placeholder((None, 3))

    def trained() -> tuple[Any, list[Any], list[Any]]:
        weights = [K.variable(START[:3]), K.variable(START[3:4])]
        loss = K.mean(K.square(K.dot(x, weights[0]) + weights[1] - 1.0))
        pairs = [way(p, g) for p, g in zip(weights, K.gradients(loss, weights), strict=True)]
        step = K.function([x], [loss], updates=[pair for group in pairs for pair in group])
        return step, [v for group in pairs for v, _ in group], []

    (f, variables, losses), (plain_f, wanted, wanted_losses) = trained(), trained()
    feeds = [rng.normal(size=(4, 3)).astype("float32") for _ in range(4)]
    with passes.without("optimizer_steps"):
        for feed in feeds:
            wanted_losses.append(plain_f([feed])[0])
    losses.append(f([feeds[0]])[0])
    before = [held(v) for v in variables]
    kept = [K.get_value(v) for v in variables]
    copies = [x.copy() for x in kept]
    for feed in feeds[1:]:
        losses.append(f([feed])[0])
    close(losses, wanted_losses)
    for v, w, old, x_kept, copy in zip(variables, wanted, before, kept, copies, strict=True):
        close(K.get_value(v), K.get_value(w))
        assert np.shares_memory(held(v), old)
        np.testing.assert_array_equal(x_kept, copy)


def test_a_session_with_constants_sees_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frozen, "CALLS", 0)
    w, x = K.variable(START[:3]), K.placeholder((None, 3))
    y = K.dot(x, w)
    step = K.function([x], [], plain(w, K.gradients(K.sum(y * y), [w])[0]))
    f = K.function([x], [y])
    points = rng.random((2, 3)).astype("float32")
    for _ in range(4):
        step([points])
        for _ in range(4):
            close(f([points])[0], points @ K.get_value(w))


@pytest.mark.parametrize("limit", ["LARGE", "MEAN"])
def test_steps_of_small_variables_stay_as_they_are_written(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The decomposition of a step would compute more."""
    monkeypatch.setattr(updates, limit, 1 << 10)
    w, x = K.variable(START[:3]), K.placeholder((None, 3))
    pairs = adam(w, K.gradients(K.sum(K.dot(x, w)), [w])[0])
    step = K.function([x], [], pairs)
    written = K.function([x], [], pairs)
    step([START[:2, :3]])
    with passes.without("optimizer_steps"):
        written([START[:2, :3]])
        lines = str(written.source()).splitlines()
    assert "adam_update(" not in str(step.source())
    assert len(str(step.source()).splitlines()) == len(lines)


def test_a_step_by_what_is_fed_needs_no_session() -> None:
    p, g, rate = K.variable(START), K.placeholder((6, 3)), K.placeholder(())
    step = K.function([g, rate], [], [(p, p + rate * g)])
    slopes = rng.normal(size=(6, 3)).astype("float32")
    for _ in range(2):
        step([slopes, 0.5])
    close(K.get_value(p), START + slopes)


@pytest.mark.parametrize("rows", [40_000, 8_000])
@pytest.mark.parametrize("shape", [(), (1,), (5,)])
def test_tables_of_many_rows_are_written_by_rows_however_narrow(
    shape: tuple[int, ...], rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(updates, "LARGE", 1 << 18)
    start = rng.random((rows, *shape)).astype("float32")
    table, state, i = K.variable(start), K.variable(start), ids(None)
    g = slope(table, i)
    a = state + K.square(g)
    plain = K.function([i], [], updates=[(table, table - 0.5 * g)])
    plain([np.array([3, -1, 3], "int32")])
    wanted = moved(start, rows - 1)
    wanted[3] -= np.cos(start[3])
    close(K.get_value(table), wanted)
    if math.prod((rows, *shape)) >= 1 << 15:
        assert ("rows_update(" in str(plain.source())) == (rows >= updates.ROWS)
    adagrad = K.function(
        [i], [], updates=[(state, a), (table, table - 0.1 * g / (K.sqrt(a) + 1e-7))]
    )
    adagrad([np.array([2, 2, -2], "int32")])
    sums, found = start.copy(), wanted.copy()
    for row, times in ((2, 2), (rows - 2, 1)):
        slopes = times * np.cos(wanted[row])
        sums[row] += slopes**2
        found[row] -= 0.1 * slopes / (np.sqrt(sums[row]) + 1e-7)
    close(K.get_value(state), sums)
    close(K.get_value(table), found)
    with pytest.raises(IndexError):
        plain([np.array([rows], "int32")])
    close(K.get_value(table), found)
