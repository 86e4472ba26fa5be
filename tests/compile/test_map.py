"""`f.map`: order, overlap, errors, and nothing left running."""

from __future__ import annotations

import contextlib
import gc
import io
import sys
import threading
import traceback
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import waiting
from backplane import backend as K
from backplane import engines


def readers() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name.startswith("backplane-reader")]


@pytest.fixture(autouse=True)
def nothing_left_running() -> Iterator[None]:
    yield
    assert readers() == []


def running_sum() -> tuple[Any, Any]:
    x, total = K.placeholder((None, 2)), K.variable([0.0, 0.0])
    new = total + K.sum(x, axis=0)
    return K.function([x], [new], updates=[(total, new)]), total


@pytest.mark.parametrize("prefetch", [0, 1, 2, 50])
def test_results_are_those_of_single_calls_in_order(engine: Any, prefetch: int) -> None:
    f, total = running_sum()
    feeds = [np.full((i % 4 + 1, 2), i, "float32") for i in range(9)]
    found = [y.tolist() for (y,) in f.map(([a] for a in feeds), prefetch=prefetch)]
    expected = np.cumsum([a.sum(0) for a in feeds], axis=0)
    np.testing.assert_allclose(found, expected)
    np.testing.assert_allclose(K.get_value(total), expected[-1])


def test_a_reader_may_use_its_array_again(engine: Any) -> None:
    x = K.placeholder((3,))
    f = K.function([x], [x * 2.0])

    def reader() -> Iterator[Any]:
        array = np.zeros(3, "float32")
        for i in range(6):
            array[:] = i
            yield [array]

    assert [y[0] for (y,) in f.map(reader(), prefetch=4)] == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]


def test_values_of_all_kinds(engine: Any) -> None:
    """Lists, other dtypes, the engine's own tensors, and the learning phase."""
    x = K.placeholder((2,))
    f = K.function([x, K.learning_phase()], [K.in_train_phase(x * 10.0, x)])
    own = K.eval(K.variable([5.0, 6.0]))
    items = [([1, 2], 0), [np.array([3.0, 4.0]), 1], [engine.from_numpy(own), 1], [own, 0], [own]]
    assert [y.tolist() for (y,) in f.map(items)] == [[1, 2], [30, 40], [50, 60], [5, 6], [5, 6]]


def test_single_values_in_and_out(engine: Any) -> None:
    x = K.placeholder((None,))
    f = K.function(x, K.sum(x))
    assert [y.item() for y in f.map([[1.0, 2.0], np.ones(3), [np.ones(4)]])] == [3.0, 3.0, 4.0]


def test_reading_and_computing_overlap() -> None:
    """While the first item is computed, the reader is at the second; it goes no further."""
    started = [threading.Event() for _ in range(9)]

    def reader() -> Iterator[Any]:
        for event in started:
            event.set()
            yield [np.zeros((1, 2))]

    f, _ = running_sum()
    results = f.map(reader(), prefetch=2)
    assert not started[0].is_set()
    next(results)
    assert started[2].wait(60)
    assert not started[3].wait(0.2)
    results.close()
    assert not started[3].is_set()


class TornFileError(Exception):
    """What a reader of a broken file raises."""


def read_from_a_torn_file() -> Iterator[Any]:
    yield [np.ones((1, 2))]
    yield [np.ones((1, 2))]
    raise TornFileError("block 3")


@pytest.mark.parametrize("prefetch", [0, 1, 5])
def test_an_error_of_the_reader_comes_in_its_place_with_its_traceback(prefetch: int) -> None:
    f, total = running_sum()
    results = f.map(read_from_a_torn_file(), prefetch=prefetch)
    assert len([next(results), next(results)]) == 2
    with pytest.raises(TornFileError, match="block 3") as raised:
        next(results)
    frames = [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]
    assert frames[-1] == "read_from_a_torn_file"
    assert K.get_value(total).tolist() == [2.0, 2.0]
    assert readers() == []
    assert list(results) == []


def test_a_value_that_does_not_fit_comes_in_its_place(engine: Any) -> None:
    f, total = running_sum()
    results = f.map([[np.ones((1, 2))], [np.ones((1, 3))], [np.ones((1, 2))]])
    next(results)
    with pytest.raises(ValueError, match="axis 1 has 3 elements instead of 2"):
        next(results)
    assert K.get_value(total).tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="takes 1 value"):
        next(f.map([[np.ones((1, 2)), 1.0]]))


def test_an_error_of_the_program_ends_the_thread(engine: Any) -> None:
    x, y = K.placeholder((None,)), K.placeholder((None,))
    f = K.function([x, y], [x + y])
    endless = iter(lambda: [np.ones(2), np.ones(3)], None)
    with pytest.raises(ValueError, match="shape"):
        next(f.map(endless))
    assert readers() == []


def test_a_consumer_that_stops_early_leaves_nothing() -> None:
    f, _ = running_sum()
    closed = []

    def endless() -> Iterator[Any]:
        try:
            while True:
                yield [np.ones((1, 2))]
        finally:
            closed.append(True)

    for _ in f.map(endless(), prefetch=3):
        break
    gc.collect()
    assert (readers(), closed) == ([], [True])
    with contextlib.suppress(ZeroDivisionError):
        for _ in f.map(endless()):
            assert len(readers()) == 1
            raise ZeroDivisionError
    gc.collect()
    assert (readers(), closed) == ([], [True, True])


def test_a_process_ends_with_a_stream_half_read() -> None:
    script = """
import itertools, numpy as np
from backplane import backend as K
x = K.placeholder((2,))
results = K.function([x], [x]).map([np.ones(2)] for _ in itertools.count())
next(results)
"""
    waiting.run([sys.executable, "-c", script], check=True)


def test_the_reader_sees_the_engine_of_the_consumer(engine: Any) -> None:
    def reader() -> Iterator[Any]:
        for _ in range(3):
            assert engines.current() is engine
            yield [np.ones((1, 2))]

    f, _ = running_sum()
    assert len(list(f.map(reader()))) == 3


@pytest.mark.parametrize("prefetch", [-1, 1.5, True, None])
def test_prefetch_is_a_number(prefetch: Any) -> None:
    f, _ = running_sum()
    with pytest.raises(ValueError, match="prefetch must be a whole number, 0 or more"):
        f.map([], prefetch=prefetch)


def test_only_what_can_be_iterated_over() -> None:
    f, _ = running_sum()
    with pytest.raises(TypeError, match="iterable must be a list"):
        f.map(3)


class Stream(io.StringIO):
    """A stream that may say that it is a terminal."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("sized", [True, False])
def test_progress_is_shown_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, sized: bool
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    f, _ = running_sum()
    items = [[np.ones((1, 2))]] * 4
    with contextlib.redirect_stderr(Stream(terminal)) as stream:
        list(f.map(items if sized else iter(items), progress=True))
    written = stream.getvalue()
    assert bool(written) == terminal
    assert not terminal or ("function" in written and "4/4" in written)
