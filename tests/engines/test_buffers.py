"""Large arrays of loops are used again, and only when nobody else refers to them."""

from __future__ import annotations

import numpy as np
import pytest

from backplane import backend as K
from backplane.engines.arrays.fast import buffers

SHAPE, DTYPE = (64, 32, 32), np.dtype("float64")


@pytest.fixture(autouse=True)
def empty_buffers():
    buffers.LOOPS.clear()
    yield
    buffers.LOOPS.clear()


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def test_an_array_that_nobody_refers_to_is_used_again():
    first = buffers.LOOPS.empty(SHAPE, DTYPE)
    where = address(first)
    assert address(buffers.LOOPS.empty(SHAPE, DTYPE)) != where
    del first
    assert address(buffers.LOOPS.empty(SHAPE, DTYPE)) == where


@pytest.mark.parametrize(
    "hold", [lambda a: a[3:, 0], lambda a: memoryview(a), lambda a: a.reshape(-1).T, lambda a: [a]]
)
def test_a_view_keeps_it(hold):
    first = buffers.LOOPS.empty(SHAPE, DTYPE)
    where, view = address(first), hold(first)
    del first
    again = buffers.LOOPS.empty(SHAPE, DTYPE)
    assert address(again) != where
    del view, again
    found = {
        address(a) for a in [buffers.LOOPS.empty(SHAPE, DTYPE), buffers.LOOPS.empty(SHAPE, DTYPE)]
    }
    assert where in found


def test_small_and_very_large_arrays_are_not_kept(monkeypatch):
    buffers.LOOPS.empty((3,), DTYPE)
    monkeypatch.setattr(buffers.LOOPS, "most", SHAPE[0] * 32 * 32 * 8 - 1)
    buffers.LOOPS.empty(SHAPE, DTYPE)
    assert not buffers.LOOPS.kept


def test_no_more_is_kept_than_the_limit(monkeypatch):
    size = SHAPE[0] * 32 * 32 * 8
    monkeypatch.setattr(buffers.LOOPS, "most", 3 * size)
    held = [buffers.LOOPS.empty(SHAPE, DTYPE) for _ in range(10)]
    assert sum(a.nbytes for arrays in buffers.LOOPS.kept.values() for a in arrays) <= 3 * size
    assert len({address(a) for a in held}) == 10


def test_no_more_arrays_of_a_shape_are_kept_than_the_count():
    few = buffers.Buffers(count=2)
    held = [few.empty((3,), DTYPE) for _ in range(5)]
    assert [a is b for a, b in zip(few.kept[(3,), DTYPE], held[-2:], strict=True)] == [True] * 2
    where = address(held[-1])
    del held[-1]
    assert address(few.empty((3,), DTYPE)) == where


@pytest.mark.parametrize("name", ["numpy", "theano"])
def test_results_of_loops_stay_when_the_function_is_called_again(name):
    with K.engine(name):
        x = K.placeholder(shape=(None, 40, 64))
        outputs = K.rnn(lambda x, s: (K.tanh(x + s[0]), [x * s[0]]), x, [x[:, 0]])[1]
        f = K.function([x], [outputs])
        rng = np.random.default_rng(0)
        data = [rng.normal(size=(32, 40, 64)).astype("float32") for _ in range(3)]
        results = [f([d])[0] for d in data]
        copies = [r.copy() for r in results]
        assert f(data[:1])[0].nbytes >= buffers.SMALLEST
        for d, r, c in zip(data, results, copies, strict=True):
            np.testing.assert_array_equal(r, c)
            np.testing.assert_array_equal(f([d])[0], c)
