"""The state of random numbers: in files of `K.save_state`, and by itself."""

import gc
import json
import os
import sys

import numpy as np
import pytest

import waiting
from backplane import backend as K
from backplane import engines
from backplane.backend import _state_files
from documents.covering import covers

pytestmark = pytest.mark.usefixtures("seeds")


@pytest.fixture
def seeds():
    """Seeds as they are at the start of a process. Functions of other tests, whose state could
    vanish between two looks at it, go first.
    """
    gc.collect()
    yield
    K.set_random_seed(None)


def program(seed=None, rate=0.5) -> tuple:
    """A model with dropout before and in a loop, and noise; the training step; a second function
    that draws from one of its random tensors.
    """
    x, y = K.placeholder((None, 4)), K.placeholder((None, 1))
    w, v = K.variable(np.ones((4, 4))), K.variable(np.ones((4, 1)))
    mask = K.dropout(K.ones((1, 4)), rate, seed=seed)

    rows = K.map_fn(lambda row: K.dropout(row, rate, seed=seed), K.dot(x, w))
    state = K.foldl(lambda a, row: a + K.dropout(row, 0.25), rows, K.zeros((4,)))
    h = rows * mask + K.random_normal(K.shape(x), stddev=0.1) + 0.01 * state
    loss = K.mean(K.square(K.dot(K.dropout(h, rate), v) - y))
    updates = [(p, p - 0.01 * g) for p, g in zip((w, v), K.gradients(loss, [w, v]), strict=True)]
    return {"w": w, "v": v}, K.function([x, y], [loss], updates=updates), K.function([], [mask])


def losses(train, first: int, last: int) -> list[float]:
    found = []
    for i in range(first, last):
        rng = np.random.default_rng(i)
        found.append(float(train([rng.normal(size=(8, 4)), rng.normal(size=(8, 1))])[0]))
    return found


@covers("save_state", "load_state", "random_state", "set_random_state", "set_random_seed")
@pytest.mark.parametrize("portable", [True, False])
def test_training_with_dropout_resumes_where_it_stopped(engine, portable, tmp_path):
    K.set_random_seed(3, portable=portable)
    weights, train, mask = program()
    losses(train, 0, 3)
    mask([])
    K.save_state(tmp_path / "state", weights)
    expected = [losses(train, 3, 6), mask([])[0].tolist(), K.eval(K.random_uniform((3,))).tolist()]
    K.set_random_seed(3, portable=portable)
    again, resumed, mask = program()
    K.load_state(tmp_path / "state", again)
    found = [losses(resumed, 3, 6), mask([])[0].tolist(), K.eval(K.random_uniform((3,))).tolist()]
    assert found == expected


def test_the_same_program_goes_back(engine, tmp_path):
    weights, train, mask = program(seed=5)
    losses(train, 0, 2)
    K.save_state(tmp_path / "state", weights)
    expected = losses(train, 2, 4), mask([])[0].tolist()
    K.load_state(tmp_path / "state", weights)
    assert (losses(train, 2, 4), mask([])[0].tolist()) == expected
    K.load_state(tmp_path / "state", weights, random_state=False)
    assert losses(train, 2, 4) != expected[0]


def test_another_engine_goes_on(engine, tmp_path):
    K.set_random_seed(3, portable=True)
    weights, train, _ = program()
    losses(train, 0, 2)
    K.save_state(tmp_path / "state", weights)
    expected = losses(train, 2, 4)
    with engines.use("numpy"):
        K.set_random_seed(3, portable=True)
        again, resumed, _ = program()
        K.load_state(tmp_path / "state", again)
        np.testing.assert_allclose(losses(resumed, 2, 4), expected, rtol=1e-4)


SCRIPT = """
import os, sys
import numpy as np
from backplane import backend as K

def run(steps, file=None, resume=None, seeding="", early=False):
    exec(seeding)
    x = K.placeholder((None, 4))
    w, count = K.variable(np.ones((4, 2)), name="w"), K.variable(0, dtype="int32", name="count")
    state = {"w": w, "count": count}
    h = K.dropout(K.dot(x, w), 0.5)
    if resume and early:
        K.load_state(resume, state)
    loss = K.mean(K.square(K.dropout(h, 0.25, seed=1) + K.random_normal((1, 2), seed=1)))
    loss = loss + K.mean(K.dropout(h, 0.5))
    updates = [(w, w - 0.01 * K.gradients(loss, [w])[0]), K.update_add(count, 1)]
    train = K.function([x], [loss], updates)
    if resume and not early:
        K.load_state(resume, state)
    found = []
    for i in range(int(K.get_value(count)), steps):
        found.append(float(train([np.random.default_rng(i).normal(size=(8, 4))])[0]))
        if file and i == 3:
            K.save_state(file, state)
    return found, K.eval(K.random_uniform((2,))).tolist()
"""


def in_a_process(call: str, folder) -> list:
    """What a call of `run` gives in a process of its own."""
    code = f"{SCRIPT}\nimport json\nprint(json.dumps({call}))"
    done = waiting.run([sys.executable, "-c", code], cwd=folder, check=True)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    ("seeding", "early"),
    [
        ("K.set_random_seed(7, portable=True)", False),
        ("K.set_random_seed(7)", True),
        ("np.random.seed(3)", False),
        ("", True),
        ("", False),
    ],
)
def test_another_process_goes_on(seeding, early, tmp_path):
    """With seeds that were drawn from anywhere, and whether or not the graph is there already."""
    given = f"seeding={seeding!r}, early={early}"
    expected, sample = in_a_process(f"run(8, file='state', {given})", tmp_path)
    found, again = in_a_process(f"run(8, resume='state', {given})", tmp_path)
    assert found == expected[4:]
    if "K.set" in seeding:  # NumPy's own generator is no part of the state.
        assert again == sample


def test_a_forked_child_goes_on(tmp_path):
    """A child whose unseeded tensors would draw other numbers."""
    code = """
import json
expected = run(8, file="state")
if os.fork() == 0:
    print(json.dumps(run(8, resume="state")), flush=True)
    os._exit(0)
os.wait()
print(json.dumps(expected))
"""
    done = waiting.run(
        [sys.executable, "-c", SCRIPT + code],
        cwd=tmp_path, check=True,
    )  # fmt: skip
    found, expected = map(json.loads, done.stdout.splitlines()[-2:])
    assert found[0] == expected[0][4:]


def test_a_state_by_itself(engine, tmp_path):
    weights, train, _ = program(seed=1)
    losses(train, 0, 2)
    state, values = K.random_state(), K.batch_get_value(list(weights.values()))
    np.savez(tmp_path / "state.npz", random=state, **{f"v{i}": v for i, v in enumerate(values)})
    expected = losses(train, 2, 4)
    with np.load(tmp_path / "state.npz") as saved:
        K.batch_set_value([(v, saved[f"v{i}"]) for i, v in enumerate(weights.values())])
        K.set_random_state(saved["random"])
    assert losses(train, 2, 4) == expected
    K.set_random_state(state.encode())
    assert K.random_state() == state


def test_seeds_of_tensors_that_are_made_later(engine):
    K.set_random_seed(5)
    state = K.random_state()
    a = [K.eval(K.random_normal((2,))), K.eval(K.dropout(K.ones((8,)), 0.5))]
    K.set_random_state(state)
    b = [K.eval(K.random_normal((2,))), K.eval(K.dropout(K.ones((8,)), 0.5))]
    assert all((m == n).all() for m, n in zip(a, b, strict=True))


def test_eager_calls_go_on(engine):
    @K.eager
    def draw():
        return np.asarray(K.eval(K.random_normal((2,))))

    K.set_random_seed(5)
    draw()
    state = K.random_state()
    a = draw()
    K.set_random_state(state)
    assert (draw() == a).all()


def test_a_failed_call_draws_nothing(engine):
    x = K.placeholder((None,))
    y = K.function([x], [K.dropout(x, 0.5, seed=1) + K.constant([1.0, 2.0])])
    y([np.ones(2)])
    state = K.random_state()
    with pytest.raises(Exception, match=r"shape|axis|size"):
        y([np.ones(3)])
    assert K.random_state() == state


def test_two_models_with_the_same_seeds_are_told_apart():
    """In the process that has saved them; and a new model takes those that were made last."""
    x = K.ones((16,))
    first, second = (K.function([], [K.dropout(x, 0.5, seed=1)]) for _ in range(2))
    first([])
    state = K.random_state()
    a, b = first([])[0], second([])[0]
    K.set_random_state(state)
    third = K.function([], [K.dropout(x, 0.5, seed=1)])
    assert (first([])[0] == a).all()
    assert (second([])[0] == b).all()
    K.set_random_state(state)
    assert (third([])[0] == b).all()
    assert (a != b).any()


def test_files_of_older_versions(tmp_path):
    v = K.variable([1.0])
    (tmp_path / "state").write_bytes(_state_files.packed({"v": np.ones(1, "float32") * 2}))
    with pytest.warns(UserWarning, match=r"K\.load_state: .*without the state of random numbers"):
        K.load_state(tmp_path / "state", {"v": v})
    assert K.get_value(v).tolist() == [2.0]
    K.load_state(tmp_path / "state", {"v": v}, random_state=False)
    os.utime(tmp_path / "state", ns=(1, 1))
    with pytest.warns(UserWarning, match=r"without the state of random numbers"):
        K.load_state(tmp_path, {"v": v})


@pytest.mark.parametrize("wrong", ["", "{}", "[1]", '{"version": 2}', None, 3, b"\xff"])
def test_wrong_states(wrong):
    before = K.random_state()
    with pytest.raises((TypeError, ValueError), match=r"K\.set_random_state: state must be"):
        K.set_random_state(wrong)
    good = json.loads(before)
    with pytest.raises(ValueError, match=r"K\.set_random_state: state must be .* version 9"):
        K.set_random_state(json.dumps({**good, "version": 9}))
    for part in ([[0, 1]], [[0, -1, 0, True, True]], [[0, "a", 0, True, True]]):
        with pytest.raises(ValueError, match=r"K\.set_random_state"):
            K.set_random_state(json.dumps({**good, "tensors": part}))
    assert K.random_state() == before
