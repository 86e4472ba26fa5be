"""Whatever interrupts a call, all variables are old or all are new, and nothing is swallowed."""

from __future__ import annotations

import signal
from typing import Any

import numpy as np
import pytest

from backplane import engines
from backplane.compile import calls
from interrupting import Alarm, Interrupt, handling
from trust.attack import alarms, threads
from trust.faults import Injector
from trust.models import SIDE, Model

MOST_UNROLLED = calls.MOST_UNROLLED


@pytest.mark.parametrize("most", [MOST_UNROLLED, 0], ids=["unrolled", "in loops"])
def test_a_signal_at_any_time(
    engine: Any, alarm: Alarm, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "MOST_UNROLLED", most)
    model = Model(SIDE)
    model.step([model.x])
    model.step([model.x])
    rng = np.random.default_rng(0)
    for _ in range(40):
        before, done = model.steps()[0], 0
        try:
            alarm.set(rng.uniform(1e-4, 6e-3))
            while not alarm.rang:
                model.step([model.x])
                done += 1
        except Interrupt:
            pass
        found = model.steps()
        assert set(found) <= {before + done, before + done + 1}
        assert len(set(found)) == 1


@pytest.mark.parametrize("name", ["numpy", "theano"])
def test_an_allocation_that_fails(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first step copies; where there is no memory for that, nothing has been written. These are
    the engines whose optimizer steps allocate by NumPy.
    """
    from backplane.engines.arrays.fast import updates

    blocks = updates._blocks

    def failing(*kinds: Any, scratch: int) -> Any:
        yield next(blocks(*kinds, scratch=scratch))
        raise MemoryError

    with engines.use(name):
        model = Model(SIDE)
        with monkeypatch.context() as patched:
            patched.setattr(updates, "_blocks", failing)
            with pytest.raises(MemoryError):
                model.step([model.x])
        assert set(model.steps()) == {0.0}
        model.step([model.x])
        assert set(model.steps()) == {1.0}


def test_a_signal_in_each_call_of_a_feed(engine: Any) -> None:
    """A library's C code that calls Python must hand on what a handler raises there. TensorFlow's
    constructor of tensors does not: it makes a `SystemError` of it.
    """
    array = np.ones((3, SIDE), "float32")
    engine.from_numpy(array)
    with handling(signal.SIGTERM):
        for number in range(1, 1000):
            injector = Injector("call", number, lambda: signal.raise_signal(signal.SIGTERM))
            try:
                with injector.armed():
                    engine.from_numpy(array)
            except Interrupt:
                continue
            assert not injector.reached
            return
    raise AssertionError("a feed makes a thousand calls")


def test_the_attack_finds_nothing() -> None:
    """The command that counts; `python -m trust --attack 30` does more of it, on every engine."""
    found = alarms(0.3)
    assert found.pop("raised") > 0
    assert set(found) <= {"dropped"}
    made, lost = threads(0.1)
    assert made > 0
    assert lost == 0
