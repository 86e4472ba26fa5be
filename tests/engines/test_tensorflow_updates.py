"""Variables that TensorFlow programs replace in place: same values, and nothing changes if a call
fails."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from backplane import backend as K  # noqa: E402
from backplane import engines  # noqa: E402
from backplane.engines.tensorflow import updates  # noqa: E402

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


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The chains that are made kernels of XLA while the test runs."""
    made: list[Any] = []
    make = updates._kernel

    def spy(steps: Any, *args: Any) -> Any:
        made.append(steps)
        return make(steps, *args)

    monkeypatch.setattr(updates, "_kernel", spy)
    return made


@pytest.mark.parametrize(("shape", "count"), [(SHAPE, 1), ((300, 300), 1), ((40, 5), 0)])
def test_an_optimizer_in_one_kernel_computes_what_numpy_does(
    shape: tuple[int, ...], count: int, kernels: list[Any]
) -> None:
    found, wanted = trained("tensorflow", shape), trained("numpy", shape)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5 * np.abs(b).max())
    assert len(kernels) == count
    # Three moments' worth of steps, each once: 2 · m, 1 · g, …; none of the gradient's product.
    assert all(10 <= len(steps) <= 14 for steps in kernels)


@pytest.mark.parametrize("compile_", [True, False])
def test_without_the_kernel_the_values_are_the_same(compile_: bool, kernels: list[Any]) -> None:
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


def test_chains_with_a_step_in_common_are_one_kernel(kernels: list[Any]) -> None:
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
