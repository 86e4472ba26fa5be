"""Sixteen threads at once, tasks of asyncio, several engines, and processes."""

from __future__ import annotations

import asyncio
import os
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from backplane import engines
from mesh.processes import run_all
from trust.models import CALLS, THREADS, Counter
from trust.threads import in_threads

FORKING = [n for n in ("numpy", "torch", "theano") if engines.installed(n)]
"""The others' libraries have threads or locks of their own; docs/reliability.md says which."""


def test_one_function(engine: Any) -> None:
    """It has never been called: all threads meet in its compilation."""
    counter = Counter()
    seen = in_threads(THREADS, counter.work)
    assert counter.total() == THREADS * CALLS
    assert sorted(n for one in seen for n in one) == list(map(float, range(THREADS * CALLS)))


def test_many_functions_that_share_variables(engine: Any) -> None:
    first = Counter()
    amounts = list(range(1, THREADS + 1))
    own = [Counter(first.variables, float(n)) for n in amounts]
    in_threads(THREADS, lambda: own.pop().work())
    assert first.total() == CALLS * sum(amounts)


def test_many_functions_of_overlapping_variables(engine: Any) -> None:
    """Each function writes to two of them in a ring, so locks are taken in all orders."""
    ring = [K.variable(float(i)) for i in range(THREADS)]
    pairs = [(ring[i], ring[(i + 1) % THREADS]) for i in range(THREADS)]
    own = [K.function([], [], updates=[(a, b + 0.0), (b, a + 0.0)]) for a, b in pairs]
    swaps = list(own)

    def work() -> None:
        mine = swaps.pop()
        for _ in range(CALLS * 3):
            mine([])

    in_threads(THREADS, work)
    assert sorted(map(float, K.batch_get_value(ring))) == list(map(float, range(THREADS)))


def test_each_thread_builds_and_compiles(engine: Any) -> None:
    """Equal structures meet in the caches, others in the engine's compiler."""
    number = count()

    def work() -> float:
        mine = next(number)
        x = K.placeholder((None, 4))
        w = K.variable(np.full((4, 1 + mine % 4), 0.5))
        phase = K.learning_phase()
        y = K.in_train_phase(K.dot(x, w) * 2.0, K.dot(x, w), phase)
        (g,) = K.gradients(K.sum(y), [w])
        f = K.function([x, phase], [K.sum(y), g], updates=[(w, w - 0.0 * g)])
        fed = np.ones((2, 4), "float32")
        results = [float(f([fed, n])[0]) for n in (0, 1, 0)]
        width = 1 + mine % 4
        assert results == [4.0 * width, 8.0 * width, 4.0 * width]
        return float(f([fed, 1])[1].sum())

    found = in_threads(THREADS, work)
    assert sorted(found) == sorted(16.0 * (1 + i % 4) for i in range(THREADS))


def test_names_scopes_and_control_dependencies_stay_in_their_thread(engine: Any) -> None:
    number = count()

    def work() -> None:
        mine = f"scope{next(number)}"
        v = K.variable(1.0)
        for _ in range(20):
            with K.name_scope(mine):
                names = [K.placeholder((1,), name="x").name, (v * 2.0).name]
            assert all(name.split("/")[0] == mine for name in names), names

    in_threads(THREADS, work)


def test_several_engines_share_a_variable() -> None:
    """Each engine adds one to variables that the others have written just before."""
    names = [n for n in ("numpy", "torch", "theano", "cntk", "mlx") if engines.installed(n)]
    small, large = K.zeros((2,)), K.zeros((300, 300))

    def made(name: str) -> Counter:
        with engines.use(name):
            return Counter([large, small])

    own = {name: made(name) for name in names}
    in_threads(THREADS, lambda: own[engines.current().name].work(), names)
    assert next(iter(own.values())).total() == THREADS * CALLS


def test_tasks(engine: Any) -> None:
    """`asyncio.to_thread` takes the engine along, and tasks do not see each other's scopes."""
    counter = Counter()

    async def one(number: int) -> None:
        with K.name_scope(f"task{number}"):
            await asyncio.sleep(0)
            assert K.placeholder((1,), name="x").name.startswith(f"task{number}/")
            await asyncio.to_thread(counter.work, 3)
            assert await asyncio.to_thread(lambda: engines.current().name) == engine.name

    async def all_of_them() -> None:
        await asyncio.gather(*[one(i) for i in range(THREADS)])

    asyncio.run(all_of_them())
    assert counter.total() == THREADS * 3


FORKED = """
import os, sys, threading
from trust.models import Counter
counter = Counter()
counter.work()
done = threading.Event()
def train():
    while not done.is_set():
        counter.work(1)
threads = [threading.Thread(target=train) for _ in range(2)]
for t in threads:
    t.start()
codes = []
for _ in range(6):
    child = os.fork()
    if not child:
        try:
            before = counter.total()
            counter.work(5)
            fresh = Counter()
            fresh.work(2)
            os._exit(0 if counter.total() == before + 5 and fresh.total() == 2 else 3)
        finally:
            os._exit(4)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
done.set()
for t in threads:
    t.join()
print(codes)
"""

SPAWNED = """
import multiprocessing
import numpy as np
from backplane import backend as K
def work(variables, ends):
    from trust.models import Counter
    counter = Counter(variables)
    counter.work(2)
    ends.send((counter.total(), variables))
if __name__ == "__main__":
    from trust.models import Counter
    counter = Counter()
    counter.work(3)
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    child = context.Process(target=work, args=(counter.variables, there))
    child.start()
    total, back = here.recv()
    child.join()
    K.batch_set_value([(v, K.get_value(b)) for v, b in zip(counter.variables, back)])
    counter.work(1)
    print(child.exitcode, total, counter.total())
"""


def _said(script: str, engine: str, tmp_path: Path, **settings: str) -> str:
    file = tmp_path / "script.py"
    file.write_text(script)
    (done,) = run_all([[str(file)]], {"KERAS_BACKEND": engine, **settings}, 300)
    assert not done.code, done.output
    return done.printed.strip()


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.parametrize("name", FORKING)
def test_forks_beside_training_threads(name: str, tmp_path: Path) -> None:
    """A child has a whole state, and goes on from there, while the parent's threads train. The
    engine has threads of its own, too.
    """
    assert _said(FORKED, name, tmp_path, OMP_NUM_THREADS="2") == str([0] * 6)


@pytest.mark.slow
def test_spawned_processes(engine: Any, tmp_path: Path) -> None:
    """Variables travel to the child and back."""
    assert _said(SPAWNED, engine.name, tmp_path) == "0 5.0 6.0"
