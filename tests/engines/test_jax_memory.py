"""Variables whose memory JAX programs take: whatever goes wrong, all are old or all are new."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import waiting
from interrupting import Alarm, Interrupt

jax = pytest.importorskip("jax")

from backplane import backend as K  # noqa: E402
from backplane import engines  # noqa: E402
from backplane.compile import calls  # noqa: E402
from backplane.compile.program import clear_programs  # noqa: E402
from backplane.engines.jax import memory  # noqa: E402

SIDE = 200


@pytest.fixture(autouse=True, params=[calls.MOST_UNROLLED, 0], ids=["unrolled", "in loops"])
def on_jax(request: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """JAX, with calls that read and write variables line by line or by loops."""
    monkeypatch.setattr(calls, "MOST_UNROLLED", request.param)
    with engines.use("jax"):
        yield


def model() -> tuple[Any, Any, Any]:
    """Two variables and a function that adds one to both."""
    v, w = K.variable(np.ones((SIDE, SIDE))), K.variable(np.ones((SIDE, SIDE)))
    return v, w, K.function([], [K.sum(K.dot(v, w))], updates=[(v, v + 1.0), (w, w + 1.0)])


def first_elements(*variables: Any) -> list[float]:
    return [float(K.get_value(v)[0, 0]) for v in variables]


# What is raised while Python collects garbage is lost in JAX's own callback.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_leaves_all_variables_old_or_all_new(alarm: Alarm) -> None:
    v, w, step = model()
    read = K.function([], [v[0, 0], w[0, 0]])
    step([])
    rng = np.random.default_rng(0)
    for _ in range(60):
        known = first_elements(v, w)
        try:
            alarm.set(rng.uniform(1e-4, 3e-3))
            while not alarm.rang:
                step([])
        except Interrupt:
            pass
        one, two = first_elements(v, w)
        assert one == two >= known[0]
        assert read([]) == [one, two]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_of_the_first_call(alarm: Alarm) -> None:
    for part in (0.1, 0.3, 0.5, 0.7, 0.9, 1.0, 1.1):
        clear_programs()
        v, w, step = model()
        try:
            alarm.set(part * 0.05)
            step([])
            alarm.off()
        except Interrupt:
            pass
        one, two = first_elements(v, w)
        assert one == two


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_leaves_no_64_bit_types_on(alarm: Alarm) -> None:
    run = memory.in_64_bits(lambda: (jax.config.jax_enable_x64,))
    assert run() == (True,)
    rng = np.random.default_rng(0)
    for _ in range(500):
        try:
            alarm.set(rng.uniform(1e-5, 1e-4))
            while not alarm.rang:
                run()
        except Interrupt:
            pass
        assert not jax.config.jax_enable_x64


def test_signals_are_deferred_and_not_lost() -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    try:
        with memory.deferred_signals():
            signal.raise_signal(signal.SIGINT)
            assert seen == []
        assert seen == [signal.SIGINT]
        signal.raise_signal(signal.SIGINT)
        assert len(seen) == 2
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_failing_callback_leaves_variables_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    v, w, _ = model()
    step = K.function([], [K.sum(K.print_tensor(v, "v"))], updates=[(v, v + 1.0), (w, w + 1.0)])

    class Broken:
        def write(self, text: str) -> None:
            raise OSError("closed")

    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", Broken())
            with pytest.raises(jax.errors.JaxRuntimeError, match="closed"):
                step([])
        assert first_elements(v, w) == [1, 1]
    step([])
    assert first_elements(v, w) == [2, 2]


def test_a_thread_reads_while_another_one_trains() -> None:
    v, w, step = model()
    predict = K.function([], [v[0, 0]])
    step([]), predict([])
    done, found = threading.Event(), []

    def read() -> None:
        while not done.is_set():
            found.append(float(K.get_value(v)[0, 0]))
            found.append(float(predict([])[0]))

    thread = threading.Thread(target=read)
    thread.start()
    try:
        for _ in range(100):
            step([])
    finally:
        done.set()
        waiting.joined(thread)
    assert found == sorted(found)
    assert first_elements(v, w) == [102, 102]


def test_threads_that_train_the_same_variables_do_not_fail() -> None:
    v, w, step = model()
    step([])
    threads = [threading.Thread(target=lambda: [step([]) for _ in range(20)]) for _ in range(3)]
    for thread in threads:
        thread.start()
    waiting.joined(*threads)
    assert len(threads) == 3
    assert np.isfinite(first_elements(v, w)).all()


SHORTAGE = """if True:
    import numpy as np, resource
    from backplane import backend as K

    v, x = K.variable(np.ones((3, 3))), K.placeholder((None,))
    table = K.cumsum(K.expand_dims(x, 1) * K.expand_dims(x, 0) + v[0, 0], axis=0)
    functions = [
        K.function([x], [table]),
        K.function([x], [K.sum(table)], updates=[(v, v + 0.0 * K.mean(table))]),
        K.function([x], [], updates=[(v, v + 0.0 * K.mean(table))]),
    ]
    for f in functions:
        f([np.ones(10, "float32")])
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 29), -1))
    for f in functions:
        try:
            f([np.ones(200_000, "float32")])
        except Exception as error:
            print("raised" if "emory" in str(error) or isinstance(error, MemoryError) else error)
        assert K.get_value(v).tolist() == [[1] * 3] * 3
        f([np.ones(11, "float32")])
    """


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits the memory of a process")
def test_shortage_of_memory_raises_and_changes_nothing() -> None:
    import os

    environment = {**os.environ, "KERAS_BACKEND": "jax"}
    done = waiting.run(
        [sys.executable, "-c", SHORTAGE],
        env=environment,
        check=True,
    )
    assert done.stdout.split() == ["raised"] * 3
