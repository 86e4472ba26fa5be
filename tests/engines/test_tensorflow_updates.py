"""Variables that TensorFlow programs replace in place: same values, and nothing changes if a call
fails."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from backplane import backend as K  # noqa: E402
from backplane import engines  # noqa: E402
from backplane.engines.tensorflow.fast import direct, updates  # noqa: E402
from spying import Call, Spy  # noqa: E402

SHAPE = (512, 512)


@pytest.fixture(autouse=True)
def on_tensorflow() -> Iterator[None]:
    with engines.use("tensorflow"):
        yield


def trained(engine: str, shape: tuple[int, ...], **options: Any) -> list[np.ndarray]:
    """A variable and its moments after three steps of Adam, and the outputs of the last step."""
    start = np.random.default_rng(1).normal(size=shape).astype("float32")
    with engines.use(engine):
        w, m, v = K.variable(start), K.zeros(shape), K.zeros(shape)
        rate, x = K.variable(0.01), K.placeholder(shape=(2, shape[0]))
        y = K.dot(x, w)
        (g,) = K.gradients(K.sum(K.square(y)), [w])
        m_t, v_t = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * K.square(g)
        new = w - rate * m_t / (K.sqrt(v_t) + 1e-7)
        step = K.function(
            [x], [y, K.sum(w)], [K.update(m, m_t), K.update(v, v_t), K.update(w, new)], **options
        )
        for _ in range(3):
            outputs = step([np.ones((2, shape[0]), "float32")])
        return [*outputs, *K.batch_get_value([w, m, v])]


def test_old_memory_is_free_before_the_first_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables are moved to where steps write over them, before a step needs memory."""
    moved: list[weakref.ref[Any]] = []
    held: list[Any] = []
    kept = updates.kept

    def watched(value: Any) -> Any:
        if isinstance(value, tf.Variable):  # The step has begun.
            held.extend([x for x in moved if x() is not None])
        else:
            moved.append(weakref.ref(value))
        return kept(value)

    monkeypatch.setattr(updates, "kept", watched)
    monkeypatch.setattr(type(engines.get("tensorflow")), "kept", staticmethod(watched))
    trained("tensorflow", SHAPE)
    assert len(moved) == 3
    assert not held


@pytest.fixture
def kernels(spied: Spy) -> list[Call]:
    """Where chains are made kernels of XLA while the test runs."""
    return spied(updates, "_kernel")


@pytest.mark.parametrize(("shape", "count"), [(SHAPE, 1), ((300, 300), 1), ((40, 5), 0)])
def test_an_optimizer_in_one_kernel_computes_what_numpy_does(
    shape: tuple[int, ...], count: int, kernels: list[Call]
) -> None:
    found, wanted = trained("tensorflow", shape), trained("numpy", shape)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5 * np.abs(b).max())
    assert len(kernels) == count
    # Three moments' worth of steps, each once: 2 · m, 1 · g, …; none of the gradient's product.
    assert all(10 <= len(made.args[0]) <= 14 for made in kernels)


@pytest.mark.parametrize("compile_", [True, False])
def test_without_the_kernel_the_values_are_the_same(compile_: bool, kernels: list[Call]) -> None:
    found, wanted = trained("tensorflow", SHAPE, compile=compile_), trained("numpy", SHAPE)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5 * np.abs(b).max())
    assert not kernels


def test_equal_chains_share_a_kernel() -> None:
    before = updates._kernel.cache_info()
    a, b = K.zeros(SHAPE), K.ones(SHAPE)
    rate = K.placeholder(shape=())
    news = [K.update(w, (w * rate + 0.25) * rate - w * 3.5 + 0.125) for w in (a, b)]
    step = K.function([rate], [], news)
    step([2.0])
    np.testing.assert_array_equal(K.get_value(a), np.full(SHAPE, 0.625))
    np.testing.assert_array_equal(K.get_value(b), np.full(SHAPE, 1.125))
    after = updates._kernel.cache_info()
    assert after.misses - before.misses == 1
    assert after.hits - before.hits == 1


def test_chains_with_a_step_in_common_are_one_kernel(kernels: list[Call]) -> None:
    a, b = K.zeros(SHAPE), K.ones(SHAPE)
    shared = (a + b) * 2.0 - 1.0
    K.function([], [], [K.update(a, shared * b), K.update(b, shared + a)])([])
    np.testing.assert_array_equal(K.get_value(a), np.ones(SHAPE))
    np.testing.assert_array_equal(K.get_value(b), np.ones(SHAPE))
    assert len(kernels) == 1


def test_variables_may_swap_and_outputs_are_old_values() -> None:
    a, b = K.zeros(SHAPE), K.ones(SHAPE)
    swap = K.function([], [a, b * 1.0], [K.update(a, b), K.update(b, a)])
    for turn in range(3):
        first, second = swap([])
        np.testing.assert_array_equal(first, np.full(SHAPE, turn % 2))
        np.testing.assert_array_equal(second, np.full(SHAPE, 1 - turn % 2))
    np.testing.assert_array_equal(K.get_value(a), np.ones(SHAPE))


def test_a_failing_call_changes_nothing() -> None:
    w, x = K.ones(SHAPE), K.placeholder(shape=(None, 3))
    new = ((w * 2.0 + 1.0) * 3.0 - w) * 0.5
    step = K.function([x], [K.max(x, axis=0)], [K.update(w, new)])
    step([np.ones((2, 3))])
    np.testing.assert_array_equal(K.get_value(w), np.full(SHAPE, 4))
    with pytest.raises(ValueError, match="no elements"):
        step([np.ones((0, 3))])
    np.testing.assert_array_equal(K.get_value(w), np.full(SHAPE, 4))


def test_values_that_were_read_stay_as_they_were() -> None:
    w = K.ones(SHAPE)
    step = K.function([], [], [K.update(w, ((w * 2.0 + 1.0) * 3.0 - w) * 0.5)])
    look = K.function([], [w])
    step([])
    array, (shown,) = K.get_value(w), look([])
    native = K.eager(K.identity)(w)
    step([])
    for held in (array, shown, native):
        np.testing.assert_array_equal(held, np.full(SHAPE, 4))
    np.testing.assert_array_equal(look([])[0], np.full(SHAPE, 11.5))


def test_values_may_be_set_between_calls_and_read_on_another_engine() -> None:
    w = K.ones(SHAPE)
    step = K.function([], [], [K.update(w, ((w * 2.0 + 1.0) * 3.0 - w) * 0.5)])
    other = K.function([], [], [K.update(w, w + 1.0)])
    step([])
    other([])
    np.testing.assert_array_equal(K.get_value(w), np.full(SHAPE, 5))
    K.set_value(w, np.zeros(SHAPE))
    step([])
    with engines.use("numpy"):
        K.function([], [], [K.update(w, w * 2.0)])([])
    step([])
    np.testing.assert_array_equal(K.get_value(w), np.full(SHAPE, 9))


def test_an_error_names_the_line_that_built_what_failed() -> None:
    x, i = K.placeholder((None, 3)), K.placeholder((None,), dtype="int32")
    f = K.function([x, i], [K.relu(K.gather(x * 2.0, i))])  # this line
    with pytest.raises(IndexError, match="out of range") as caught:
        f([np.ones((2, 3)), np.array([4])])
    (note,) = caught.value.__notes__
    assert "while running 'gather'" in note
    assert note.splitlines()[0].endswith("# this line")


def test_an_error_beside_an_update_names_its_line_too() -> None:
    w, i = K.ones(SHAPE), K.placeholder((None,), dtype="int32")
    new = ((w * 2.0 + 1.0) * 3.0 - w) * 0.5
    f = K.function([i], [K.gather(w, i)], [K.update(w, new)])  # here
    with pytest.raises(IndexError) as caught:
        f([np.array([SHAPE[0]])])
    assert caught.value.__notes__[0].splitlines()[0].endswith("# here")
    np.testing.assert_array_equal(K.get_value(w), np.ones(SHAPE))


# --- rows of tables -------------------------------------------------------------------------------

ROWS = (40_000, 2)


@pytest.fixture
def graphs(spied: Spy) -> Callable[[], list[Counter[str]]]:
    """How often each operation is in the programs that are traced while the test runs."""
    calls = spied(direct, "call")

    def counted() -> list[Counter[str]]:
        made = [call.args[0].graph.get_operations() for call in calls]
        return [Counter([op.type for op in operations]) for operations in made]

    return counted


def looked_up(engine: str) -> list[np.ndarray]:
    """What a model of two tables predicts and loses, and the tables, while others use them too."""
    rng = np.random.default_rng(5)
    users, items = (rng.normal(size=ROWS).astype("float32") for _ in range(2))
    who = [np.array([3, -1, 3, 39_999, -39_999], "int64"), np.array([0, 7, 7, 7, -7], "int64")]
    what = np.array([[5, 5], [-5, 5], [1, 0], [2, 2], [9, 9]], "int32")
    with engines.use(engine):
        u, v = K.variable(users), K.variable(items)
        i = K.placeholder((None,), dtype="int64")
        j, k = K.placeholder((None, 2), dtype="int32"), K.placeholder((), dtype="int32")
        seen = K.sum(K.gather(v, j), axis=1) + K.gather(v, k)
        y = K.sum(K.gather(u, i) * seen * K.gather(u, K.abs(i)), axis=1)
        loss = K.mean(K.square(y - 1))
        news = [(p, p - 0.1 * g) for p, g in zip((u, v), K.gradients(loss, [u, v]), strict=True)]
        step, predict = K.function([i, j, k], [loss], news), K.function([i, j, k], [y])
        penalty, shrink = K.function([], [K.sum(K.square(u))]), K.function([], [], [(v, v * 0.5)])
        found = []
        for turn in range(4):
            batch = [who[turn % 2], what, -turn]
            found += [*step(batch), *predict(batch)]
            if turn == 1:
                found += penalty([])
                shrink([])
            if turn == 2:
                K.set_value(u, users * 0.5)
        return [*found, *K.batch_get_value([u, v])]


def test_rows_of_tables_are_updated_as_numpy_does(graphs: Callable[[], list[Counter[str]]]) -> None:
    found, wanted = looked_up("tensorflow"), looked_up("numpy")
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    steps = [ops for ops in graphs() if ops["ResourceScatterAdd"]]
    assert steps
    assert not any(ops["ReadVariableOp"] or ops["AssignVariableOp"] for ops in steps)
    # The tables are tensors at the first prediction, and variables after the first step.
    assert {ops["ResourceGather"] for ops in graphs() if ops["ResourceScatterAdd"] == 0} >= {4}


@pytest.mark.parametrize("known", [True, False], ids=["looked up", "not looked up"])
def test_an_index_behind_the_end_changes_no_table(known: bool) -> None:
    a, b = K.zeros(ROWS), K.zeros(ROWS)
    i, x = K.placeholder((None,), dtype="int32"), K.placeholder((None, 2))
    loss = K.sum(K.gather(a, i) * x) + K.sum(K.gather(b, 2 * i) * x)
    news = [(p, p - g) for p, g in zip((a, b), K.gradients(loss, [a, b]), strict=True)]
    step = K.function([i, x], [loss] if known else [], news)
    ones = np.ones((2, 2))
    for turn in range(1, 4):
        step([[1, 2], ones])
        with pytest.raises(IndexError, match="out of range"):
            step([[1, 30_000], ones])  # In the first table it is a row, in the second none.
        for table, rows in ((a, [1, 2]), (b, [2, 4])):
            wanted = np.zeros(ROWS)
            wanted[rows] = -turn
            np.testing.assert_array_equal(K.get_value(table), wanted)


def test_rows_that_were_read_stay_as_they_were() -> None:
    w, i = K.ones(ROWS), K.placeholder((None,), dtype="int32")
    whole = K.function([], [], [K.update(w, ((w * 2.0 + 1.0) * 3.0 - w) * 0.5)])
    (g,) = K.gradients(K.sum(K.gather(w, i)), [w])
    step, look = K.function([i], [], [K.update(w, w - g)]), K.function([], [w])
    whole([])
    for value in (4, 3, 2):
        array, (shown,), native = K.get_value(w), look([]), K.eager(K.identity)(w)
        step([[7, 0]])
        for held in (array, shown, native):
            np.testing.assert_array_equal(held[:2], [[value, value], [4, 4]])
    np.testing.assert_array_equal(look([])[0][6:9], [[4, 4], [1, 1], [4, 4]])


def test_a_new_table_that_somebody_reads_is_computed_whole(
    graphs: Callable[[], list[Counter[str]]],
) -> None:
    w, i = K.ones(ROWS), K.placeholder((None,), dtype="int32")
    (g,) = K.gradients(K.sum(K.square(K.gather(w, i))), [w])
    new = w - 0.25 * g
    step = K.function([i], [K.sum(new, axis=0)], [K.update(w, new)])
    for _ in range(3):
        (total,) = step([[7, 7]])
        np.testing.assert_allclose(total, 39_999, rtol=1e-6)
    np.testing.assert_array_equal(K.get_value(w)[6:9], [[1, 1], [0, 0], [1, 1]])
    assert not any(ops["ResourceScatterAdd"] for ops in graphs())
