"""Whatever interrupts a call, all variables are old or all are new, and nothing is swallowed."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from backplane import engines

SIDE = 300
"""Weights that every engine takes for large: TensorFlow keeps such variables in place."""


class Interrupt(BaseException):
    """What the handler of a signal raises."""


@pytest.fixture
def alarm() -> Iterator[Callable[[float], None]]:
    """A function that sends a signal after so many seconds."""

    def interrupt(*_: Any) -> None:
        raise Interrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds)  # type: ignore[return-value]
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


class Model:
    """A training step that adds one to every element of its variables: by descent with and without
    momentum, in large and small ones, by plain updates, and in a variable that nobody reads.
    """

    def __init__(self, side: int) -> None:
        x, count = K.placeholder((side, side)), K.variable(0.0)
        self.x = np.full((side, side), -10.0, "float32")
        large, small, last = K.zeros((side, side)), K.zeros((3,)), K.variable(0.0)
        moved, speed = K.zeros((side, side)), K.zeros((side, side))
        loss = K.sum(large * x) + K.sum(small * x[0, :3]) + K.sum(moved * x)
        gradients = K.gradients(loss, [large, small, moved])
        new_speed = 0.0 * speed - 0.1 * gradients[2]
        updates = [(v, v - 0.1 * g) for v, g in zip([large, small], gradients[:2], strict=True)]
        updates += [(speed, new_speed), (moved, moved + new_speed)]
        updates += [K.update_add(count, 1.0), (last, K.sum(x[0, :1]) / -10.0 + count)]
        self.variables = [large, small, moved, count, last]
        self.step = K.function([x], [loss], updates=updates)
        self.read = K.function([], [K.max(v) for v in self.variables])

    def steps(self) -> list[float]:
        """How many steps have been done, which every element must say."""
        found = [float(v.max()) for v in K.batch_get_value(self.variables)]
        found += [float(v.min()) for v in K.batch_get_value(self.variables)]
        assert [float(v) for v in self.read([])] == found[: len(self.variables)]
        return [round(v, 3) for v in found]


def test_a_signal_at_any_time(engine: Any, alarm: Callable[[float], None]) -> None:
    model = Model(SIDE)
    model.step([model.x])
    model.step([model.x])
    rng = np.random.default_rng(0)
    for _ in range(40):
        before, done = model.steps()[0], 0
        try:
            alarm(rng.uniform(1e-4, 6e-3))
            while True:
                model.step([model.x])
                done += 1
        except Interrupt:
            pass
        found = model.steps()
        assert set(found) <= {before + done, before + done + 1}
        assert len(set(found)) == 1


@pytest.mark.parametrize("side", [3, SIDE])
def test_a_signal_at_each_line(engine: Any, alarm: Callable[[float], None], side: int) -> None:
    model = Model(side)
    for _ in range(3):
        model.step([model.x])
    for number in range(10_000):
        known = model.steps()[0]
        left = [number]

        def trace(frame: Any, event: str, _: Any, left: list[int] = left) -> Any:
            if "backplane" not in frame.f_code.co_filename:
                return None
            if event == "line":
                left[0] -= 1
                if left[0] == 0:
                    signal.raise_signal(signal.SIGALRM)
            return trace

        interrupted = False
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            model.step([model.x])
        except Interrupt:
            interrupted = True
        finally:
            sys.settrace(before)
        found = model.steps()
        assert len(set(found)) == 1
        assert found[0] in ((known, known + 1) if interrupted else (known + 1,))
        if left[0] > 0:
            assert number > 5
            return
        assert interrupted or not number


@pytest.mark.parametrize("name", ["numpy", "theano"])
def test_an_allocation_that_fails(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first step copies; where there is no memory for that, nothing has been written. These are
    the engines whose optimizer steps allocate by NumPy.
    """
    from backplane.engines.arrays import updates

    blocks = updates._blocks

    def failing(*kinds: Any) -> Any:
        yield next(blocks(*kinds))
        raise MemoryError

    with engines.use(name):
        model = Model(SIDE)
        with monkeypatch.context() as patched:
            patched.setattr(updates, "_blocks", failing)
            patched.setattr(updates, "_whole", lambda *_: None)
            with pytest.raises(MemoryError):
                model.step([model.x])
        assert set(model.steps()) == {0.0}
        model.step([model.x])
        assert set(model.steps()) == {1.0}
