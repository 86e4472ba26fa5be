"""Many models, many calls, deep graphs. What they use must not grow with their number."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from backplane import backend as K


def resident() -> float:
    """Megabytes of this process in memory."""
    with open("/proc/self/statm") as stream:
        return int(stream.read().split()[1]) * 4096 / 1e6


def one_model(number: int) -> float:
    """Build a small model, train it twice, and forget it. Neighbours differ in their widths."""
    width = 3 + number % 7
    x = K.placeholder((None, 4))
    w, b = K.variable(np.full((4, width), 0.1)), K.zeros((width,))
    loss = K.mean(K.square(K.tanh(K.dot(x, w) + b)))
    updates = [(v, v - 0.1 * g) for v, g in zip([w, b], K.gradients(loss, [w, b]), strict=True)]
    train = K.function([x], [loss], updates=updates)
    fed = np.ones((2, 4), "float32")
    train([fed])
    return float(train([fed])[0])


class Growth(NamedTuple):
    """What the second half of a run added."""

    objects: int
    blocks: int
    megabytes: float


def growth(work: Callable[[int], Any], times: int) -> Growth:
    """Run `work` so often, and measure what grew in the second half."""
    measured = []
    for half in range(2):
        for i in range(times // 2):
            work(half * (times // 2) + i)
        gc.collect()
        measured.append((len(gc.get_objects()), sys.getallocatedblocks(), resident()))
    before, after = measured
    return Growth(*[b - a for a, b in zip(before, after, strict=True)])


def models(count: int) -> Growth:
    """Train so many models without `clear_session`."""
    return growth(one_model, count)


def calls(count: int) -> Growth:
    """Call one function with updates, feeds of several sizes and random numbers so often."""
    x, w = K.placeholder((None, 4)), K.variable(np.zeros((4, 3)))
    total = K.sum(K.dot(x, w) + K.random_uniform((3,), seed=1))
    train = K.function([x], [total], updates=[(w, w * 0.5 + K.mean(x))])
    fed = [np.ones((n, 4), "float32") for n in (1, 2, 3)]
    return growth(lambda i: train([fed[i % 3]]), count)


def chain(length: int) -> tuple[Any, Any]:
    """A graph of so many nodes, with the gradient as many again, as a function."""
    x, w = K.placeholder((None, 4)), K.variable(np.full((4,), 0.9))
    y = x
    for _ in range(length // 2):
        y = K.sin(y * w)
    return x, K.function([x], [K.sum(y), *K.gradients(K.sum(y), [w])])


def deep(length: int) -> list[np.ndarray]:
    """Build, compile and run a chain of so many nodes."""
    _, f = chain(length)
    results: list[np.ndarray] = f([np.ones((2, 4), "float32")])
    return results


def counted(work: Callable[[], Any]) -> int:
    """How many functions `work` calls, those in C too."""
    found = [0]

    def profile(_: Any, event: str, __: Any) -> None:
        if event in ("call", "c_call"):
            found[0] += 1

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found[0]


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """What `work` returns, and its seconds of processor time."""
    begin = time.process_time()
    result = work()
    return result, time.process_time() - begin
