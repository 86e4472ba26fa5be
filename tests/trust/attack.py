"""Interrupts K functions, and calls them from many threads, for as long as one likes."""

from __future__ import annotations

import itertools
import signal
import time
from collections import Counter as Counts
from collections.abc import Callable

import numpy as np

from backplane import backend as K
from backplane.core.graph import Tensor
from interrupting import Interrupt
from trust.models import SIDE, THREADS, Counter, Model
from trust.threads import in_threads

LONGEST = 1.0
"""Seconds after which an alarm counts as lost: Python drops what a handler raises while it collects
garbage."""


def works() -> dict[str, Callable[[], object]]:
    """What is interrupted, by name: feeds of several dtypes, updates, reads, writes, loops, and the
    construction of graphs.
    """
    model = Model(SIDE)
    xs = [K.placeholder((None, 40), dtype=d) for d in ("float32", "float64", "int32", "bool")]
    values = [np.ones((40, 40), K.dtype(x)) for x in xs]
    variables = [K.variable(value, value.dtype.name) for value in values]
    feeds = K.function(xs, [K.identity(x) for x in xs])
    series = K.placeholder((4, 20, 8))

    def step(x: Tensor, states: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        y = K.tanh(x + states[0])
        return y, [y]

    steps = K.rnn(step, series, [K.zeros((4, 8))])
    loop, fed = K.function([series], [steps[0]]), np.ones((4, 20, 8), "float32")
    weights = K.zeros((8, 8))
    return {
        "feeds": lambda: feeds(values),
        "updates": lambda: model.step([model.x]),
        "whole states": model.steps,
        "reads": lambda: [K.get_value(v) for v in variables],
        "writes": lambda: [K.set_value(v, x) for v, x in zip(variables, values, strict=True)],
        "loops": lambda: loop([fed]),
        "graphs": lambda: K.gradients(K.sum(K.tanh(K.dot(series[:, 0], weights))), [weights]),
    }


def alarms(seconds: float) -> Counts[str]:
    """How many alarms ended a call as their handler wanted (`raised`), how many exceptions Python
    dropped (`dropped`), and what else came out, by its type. A state that is torn is an
    AssertionError of `Model.steps`.
    """

    def interrupt(*_: object) -> None:
        raise Interrupt

    kinds = works()
    for work in kinds.values():
        work()
    rng, found = np.random.default_rng(0), Counts[str]()
    end, handler = time.monotonic() + seconds, signal.signal(signal.SIGALRM, interrupt)
    try:
        for name in itertools.cycle(kinds):
            if time.monotonic() > end:
                return found
            found[_interrupted(kinds[name], rng.uniform(2e-5, 3e-3))] += 1
    finally:
        signal.signal(signal.SIGALRM, handler)
    raise AssertionError("there is work")


def _interrupted(work: Callable[[], object], after: float) -> str:
    begin = time.monotonic()
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, after)
            while time.monotonic() < begin + LONGEST:
                work()
            return "dropped"
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except Interrupt:
        return "raised"
    except Exception as error:  # noqa: BLE001 - this is what is looked for
        return type(error).__name__


def threads(seconds: float) -> tuple[int, int]:
    """How many updates `THREADS` threads have made with one function, and how many are lost."""
    counter, made = Counter(), 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        made += sum(map(len, in_threads(THREADS, counter.work)))
    return made, made - int(counter.total())
