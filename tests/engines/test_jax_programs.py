"""The programs that JAX compiles: how many, whose memory they take, and its persistent cache."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import waiting

jax = pytest.importorskip("jax")

from backplane import backend as K  # noqa: E402
from backplane import engines  # noqa: E402
from backplane.compile import passes  # noqa: E402
from backplane.core.graph import toposort  # noqa: E402
from backplane.core.spec import Spec  # noqa: E402
from backplane.engines import kernels  # noqa: E402
from backplane.engines.jax import ENGINE  # noqa: E402
from backplane.engines.programs import Program  # noqa: E402
from backplane.ops.control import scan_  # noqa: E402
from backplane.ops.linear import matmul  # noqa: E402

PROGRAMS = Path(__file__).parents[1] / "programs" / "test_programs.py"
rng = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def on_jax() -> Iterator[None]:
    with engines.use("jax"):
        yield
    assert not jax.config.jax_enable_x64


def test_variables_take_no_program_of_their_own() -> None:
    counts = []
    listen = lambda event, seconds, **_: counts.append(event)  # noqa: E731
    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        value = ENGINE.from_numpy(rng.random((3, 17)), "float64")
        assert np.asarray(value).shape == (3, 17)
        assert [e for e in counts if "compile" in e] == []
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def test_new_values_take_over_the_memory_of_the_old_ones() -> None:
    """Whatever the order of updates: JAX pairs memory with results in the order of both."""
    x = K.placeholder((2, 3))
    vs = [K.variable(rng.random((64, 64))) for _ in range(4)]
    updates = [(vs[i], vs[i] * float(i + 2) + K.sum(x)) for i in (2, 0, 3, 1)]
    f = K.function([x], [K.dot(vs[1], vs[2])], updates=updates)
    feed = [np.ones((2, 3), "float32")]
    f(feed)
    before = [v.values[ENGINE].unsafe_buffer_pointer() for v in vs]
    f(feed)
    assert [v.values[ENGINE].unsafe_buffer_pointer() for v in vs] == before


def test_a_variable_that_takes_anothers_value_has_memory_of_its_own() -> None:
    a, b = K.variable(np.ones(3)), K.variable(np.zeros(3))
    K.function([], [], updates=[(b, a)])([])
    K.function([], [], updates=[K.update_add(a, np.ones(3))])([])
    assert K.get_value(b).tolist() == [1, 1, 1]
    assert K.get_value(a).tolist() == [2, 2, 2]


def test_variables_hand_on_their_memory_in_silence() -> None:
    v = K.variable(np.ones((64, 64)))
    f = K.function([], [K.sum(v)], updates=[(v, v * 2.0)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f([])
        before = v.read(ENGINE)
        place = before.unsafe_buffer_pointer()
        assert f([])[0] == 2 * 64 * 64
    assert before.is_deleted()
    assert v.read(ENGINE).unsafe_buffer_pointer() == place


def test_results_outlive_the_memory_they_came_from() -> None:
    v = K.variable(np.ones((64, 64)))
    w = K.variable(np.zeros((64, 64)))
    f = K.function([], [v], updates=[(v, w), (w, v)])
    (one,), (zero,) = f([]), f([])
    one += 5
    f([])
    assert (one.mean(), zero.mean()) == (6, 0)
    assert K.get_value(w).mean() == 1


def test_a_variable_updated_with_what_does_not_read_it() -> None:
    v = K.variable(np.ones(3))
    x = K.placeholder((3,))
    f = K.function([x], [], updates=[(v, x)])
    fed = np.zeros(3, np.float32)
    f([fed])
    fed += 1
    f([fed + 1])
    assert K.get_value(v).tolist() == [2, 2, 2]


def test_no_memory_is_handed_on_while_jax_looks_for_nan() -> None:
    spec = Spec((2,), "float32")
    program = Program(lambda v: (v / v,), [spec], [spec], state={0: 0})
    with jax.debug_nans(True):
        run = ENGINE.compile(program)
        value = ENGINE.from_numpy(np.zeros(2, np.float32))
        with pytest.raises(FloatingPointError):
            run(value)
    assert not value.is_deleted()


def test_an_eager_result_outlives_the_variable_it_was_read_from() -> None:
    v = K.variable(np.ones(1000))
    kept = K.eager(K.identity)(v)
    K.function([], [K.sum(v)], updates=[K.update_add(v, np.ones(1000))])([])
    assert float(kept.sum()) == 1000.0
    assert float(K.get_value(v).sum()) == 2000.0


def test_feeds_may_change_after_a_call_without_outputs() -> None:
    x, v = K.placeholder(shape=(4_000_000,)), K.variable(np.zeros(()))
    f = K.function([x], [], updates=[(v, K.sum(K.tanh(x)))])
    for _ in range(5):
        fed = np.zeros(4_000_000, "float32")
        f([fed])
        fed[:] = 1.0
        assert K.get_value(v) == 0.0


STEP = """if True:
    import jax
    from backplane import backend as K
    import numpy as np

    events = []
    jax.monitoring.register_event_listener(lambda event, **_: events.append(event))
    x, w, k = K.placeholder((None, 6, 6, 2)), K.variable(np.ones((36, 3))), K.variable(np.ones((3, 3, 2, 4)))
    y = K.pool2d(K.relu(K.conv2d(x, k, padding="same")), (2, 2), strides=(2, 2))
    y = K.dropout(K.reshape(y, (-1, 36)), 0.5)
    loss = K.mean(K.categorical_crossentropy(K.zeros((5, 3)), K.softmax(K.dot(y, w))))
    updates = [(v, v - 0.1 * g) for v, g in zip([w, k], K.gradients(loss, [w, k]))]
    K.function([x], [loss], updates=updates)([np.ones((5, 6, 6, 2))])
    print(*[len([e for e in events if e.endswith(end)]) for end in ("cache_hits", "cache_misses")])
    """  # noqa: E501


def test_another_process_finds_programs_in_the_persistent_cache(tmp_path: Path) -> None:
    environment: dict[str, Any] = {
        **os.environ,
        "KERAS_BACKEND": "jax",
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }

    def run(seed: str) -> list[int]:
        environment["PYTHONHASHSEED"] = seed
        found = waiting.run(
            [sys.executable, "-c", STEP],
            env=environment, check=True,
        )  # fmt: skip
        return [int(n) for n in found.stdout.split()]

    hits, misses = run("1")
    assert hits == 0
    assert misses > 0
    assert run("2") == [misses, 0]


def test_the_persistent_cache_serves(tmp_path: Path) -> None:
    code = f"""
import jax, numpy as np
jax.config.update("jax_compilation_cache_dir", {str(tmp_path)!r})
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
from backplane import backend as K
x, w = K.placeholder((None, 8, 8, 2)), K.variable(np.ones((3, 3, 2, 4)))
f = K.function([x], [K.conv2d(x, w)], updates=[(w, w * 2.0)])
hits = []
jax.monitoring.register_event_listener(
    lambda name, **_: hits.append(name) if name.endswith("cache_hits") else None)
f([np.ones((1, 8, 8, 2), np.float32)])
print(len(hits))
"""
    environment = {"KERAS_BACKEND": "jax", "KERAS_HOME": str(tmp_path / "home")}
    found = [_printed(code, environment) for _ in range(2)]
    assert found[0] == "0"
    assert int(found[1]) > 0


def _printed(code: str, environment: dict[str, str]) -> str:
    command = [sys.executable, "-c", code]
    done = waiting.run(command, env={**os.environ, **environment}, check=True)
    return done.stdout.strip()


@pytest.mark.slow
def test_whole_programs_with_all_optimizations() -> None:
    """As users compile them: the other tests tell XLA to compile quickly (`conftest.py`)."""
    thorough = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "0", "XLA_FLAGS": ""}
    done = waiting.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--engines=jax", PROGRAMS],
        env={**os.environ, **thorough},
    )
    assert done.returncode == 0, done.stdout


def test_only_predictions_keep_products_of_inputs_in_loops() -> None:
    x, w, u = [K.variable(rng.normal(size=n)) for n in ((2, 5, 3), (3, 4), (4, 4))]

    def step(row: Any, states: Any) -> Any:
        h = K.tanh(K.dot(row, w) + K.dot(states[0], u))
        return h, [h]

    loss = K.sum(K.rnn(step, x, [K.zeros((2, 4))])[0])
    products = []
    for outputs in ([loss], [loss, *K.gradients(loss, [w])]):
        with kernels.forced(jax__loops=np.inf):
            found = passes.optimized(outputs, passes.Job(ENGINE)).outputs
        first = next(t for t in toposort(found) if t.op is scan_)
        inside = toposort(first.params["body"].outputs)
        products.append(sum(t.op is matmul for t in inside))
    assert products == [2, 1]
