"""Threads that share variables: updates are serialized, readers see whole states."""

from __future__ import annotations

import gc
import os
import sys
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import waiting
from backplane import backend as K
from backplane.core import variable
from trust.threads import in_threads


def test_no_update_is_lost(engine: Any) -> None:
    v = K.variable(np.zeros((50, 50)))
    add = K.function([], [], updates=[K.update_add(v, K.ones_like(v) * 1.0)])
    own = [K.function([], [], updates=[K.update_add(v, 2.0 * K.ones_like(v))]) for _ in range(4)]

    def work() -> None:
        mine = own.pop()
        for _ in range(40):
            add([])
            mine([])

    in_threads(4, work)
    np.testing.assert_array_equal(K.get_value(v), 480.0)


def test_readers_see_whole_states(engine: Any) -> None:
    """A trainer with steps in place and others, beside readers of all kinds."""
    side = 300
    x = K.placeholder((side, side))
    w, m, count = K.zeros((side, side)), K.zeros((side, side)), K.variable(0.0)
    (g,) = K.gradients(K.sum(w * x), [w])
    new_m = 0.0 * m - 0.1 * g
    updates = [(m, new_m), (w, w + new_m), (count, count + 1.0)]
    step = K.function([x], [], updates=updates)
    read = K.function([], [K.max(w), K.min(w), count])
    fed, done = np.full((side, side), -10.0, "float32"), threading.Event()
    roles = iter(["train", "call", "values", "one", "call"])

    def work() -> None:
        role = next(roles)
        if role == "train":
            try:
                for _ in range(150):
                    step([fed])
            finally:
                done.set()
        while not done.is_set():
            if role == "call":
                found = read([])
            elif role == "values":
                values = K.batch_get_value([w, count])
                found = [values[0].max(), values[0].min(), values[1]]
            else:
                value = K.get_value(w)
                found = [value.max(), value.min()]
            assert len({round(float(n), 2) for n in found}) == 1

    in_threads(5, work)
    assert float(K.get_value(count)) == 150


def test_a_first_step_comes_while_somebody_reads(
    engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first function that writes over variables' memory is made, and runs, between a reader's
    look at the values and its copies of them. Until then readers need no lock.
    """
    w, count = K.variable(np.zeros((300, 300))), K.variable(0.0)
    (g,) = K.gradients(-0.5 * K.sum(w), [w])
    updates = [(w, w - g), (count, count + 0.5)]
    steps, copied = iter(range(3)), variable._copied

    def late(values: Any) -> np.ndarray:
        for _ in steps:
            in_threads(1, lambda: K.function([], [], updates=updates)([]))
        return copied(values)

    monkeypatch.setattr(variable, "_copied", late)
    found = K.batch_get_value([w, count])
    assert {found[0].min(), found[0].max(), found[1].item()} in ({0.0}, {1.5})


def test_values_that_are_set_together_are_read_together(engine: Any) -> None:
    v, w, done = K.variable(0.0), K.variable(0.0), threading.Event()
    K.function([], [], updates=[(v, v + 0.0), (w, w + 0.0)])([])
    read = K.function([], [v, w])
    roles = iter(["write", "read", "get"])

    def work() -> None:
        role = next(roles)
        if role == "write":
            for i in range(200):
                K.batch_set_value([(v, float(i)), (w, float(i))])
            done.set()
        while not done.is_set():
            one, two = read([]) if role == "read" else K.batch_get_value([v, w])
            assert one == two

    in_threads(3, work)


def test_each_draw_is_new(engine: Any) -> None:
    f = K.function([], [K.random_uniform((4,), seed=5)])
    found = in_threads(4, lambda: [tuple(f([])[0].tolist()) for _ in range(40)])
    draws = {draw for draws in found for draw in draws}
    assert len(draws) == 160
    alone = K.function([], [K.random_uniform((4,), seed=5)])
    assert {tuple(alone([])[0].tolist()) for _ in range(160)} == draws


def test_a_call_that_fails_draws_nothing(engine: Any) -> None:
    x = K.placeholder((None, None))
    noise = K.random_uniform((2,), seed=5)
    f = K.function([x], [noise + K.sum(K.dot(x, K.constant(np.ones((2, 2)))))])
    first = f([np.zeros((1, 2))])[0]
    with pytest.raises(ValueError, match=r"\w"):
        f([np.zeros((1, 3))])
    second = f([np.zeros((1, 2))])[0]
    g = K.function([], [K.random_uniform((2,), seed=5)])
    np.testing.assert_allclose([g([])[0], g([])[0]], [first, second], rtol=1e-6)


def test_more_domains_than_python_nests(engine: Any) -> None:
    ones = [K.variable(float(i)) for i in range(30)]
    for v in ones:
        K.function([], [], updates=[(v, v + 1.0)])([])
    x = K.placeholder(())
    total = K.function([x], [K.sum(K.stack(ones)) + x], updates=[(v, v + x) for v in ones])
    expected = sum(range(1, 31))
    assert total([1.0])[0] == expected + 1
    assert total([1.0])[0] == expected + 31


def test_the_model_goes_with_its_last_name(engine: Any) -> None:
    """Memory of variables is given back at once, not when Python looks for cycles."""
    gc.collect()
    gc.disable()
    try:
        x, w = K.placeholder((None, 8)), K.variable(np.ones((8, 3)))
        m, phase = K.zeros((8, 3)), K.learning_phase()
        y = K.in_train_phase(K.dropout(K.tanh(K.dot(x, w)), 0.5), K.dot(x, w), phase)
        (g,) = K.gradients(K.sum(y), [w])
        new_m = 0.9 * m - 0.1 * g
        f = K.function([x, phase], K.sum(y), updates=[(m, new_m), (w, w + new_m)])
        for training in (0, 1, 1):
            f([np.ones((4, 8)), training])
        K.eval(K.sum(w))
        gone = [weakref.ref(v) for v in (w, m)]
        del x, w, m, y, g, new_m, f
        K.clear_session()
        assert [v() for v in gone] == [None, None]
    finally:
        gc.enable()


DRAWS = """
import os
import numpy as np
from backplane import backend as K
v = K.variable(1.0)
unseeded, seeded = K.random_uniform((4,)), K.random_uniform((4,), seed=3)
f = K.function([], [unseeded, seeded], updates=[(v, v + 1.0)])
f([])
draws = []
for _ in range(2):
    ends = os.pipe()
    child = os.fork()
    if not child:
        os.write(ends[1], np.concatenate(f([])).tobytes())
        os._exit(0)
    draws.append(np.frombuffer(os.read(ends[0], 64), "float32").reshape(2, 4))
    os.waitpid(child, 0)
draws.append(f([]))
print([len({d[i].tobytes() for d in draws}) for i in range(2)])
"""

HELD = """
import os, threading
from backplane import backend as K
v = K.variable(1.0)
f = K.function([], [], updates=[(v, v + 1.0)])
f([])
held, done = threading.Event(), threading.Event()
def hold():
    with v.domain.lock:
        held.set()
        done.wait()
other = threading.Thread(target=hold)
other.start()
held.wait()
child = os.fork()
if not child:
    f([])
    os._exit(int(K.get_value(v)))
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
done.set()
other.join()
print(status)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.parametrize(("script", "said"), [(DRAWS, "[3, 1]"), (HELD, "3")])
def test_forked_children(script: str, said: str) -> None:
    """They draw other numbers, but where a seed was given, and wait for no thread of the parent."""
    done = waiting.run([sys.executable, "-c", script], check=True)
    assert done.stdout.strip() == said
