"""ONNX Runtime: steps that write to rows of a table in the memory of the table."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from backplane import engines
from backplane.compile import passes
from backplane.engines.onnxruntime import frozen, updates

rng = np.random.default_rng(0)
START = rng.random((6, 3)).astype("float32")


@pytest.fixture(autouse=True)
def any_size(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tables of any size are written in place."""
    monkeypatch.setattr(updates, "LARGE", 0)
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
    reader.join()
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
