"""The jax engine: conversions, 64 bits, JAX's transformations, memory, loops, random numbers."""

from __future__ import annotations

import contextlib
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import waiting

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402

from backplane import backend as K  # noqa: E402
from backplane import engines  # noqa: E402
from backplane.core.graph import Graph, Placeholder  # noqa: E402
from backplane.core.registry import primitive  # noqa: E402
from backplane.core.spec import Spec  # noqa: E402
from backplane.engines.jax import ENGINE, memory  # noqa: E402
from backplane.engines.jax.random import threefry2x32, words_at_once, words_in_parts  # noqa: E402
from backplane.engines.programs import Program  # noqa: E402
from interrupting import Interrupt, handling  # noqa: E402

rng = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def on_jax() -> Iterator[None]:
    with engines.use("jax"):
        yield
    assert not jax.config.jax_enable_x64


def lowering(name: str, *specs: Spec, **params: Any) -> Callable[..., Any]:
    """The lowering of a primitive as a function of its operands."""
    entry = ENGINE.table[name]
    if entry.builds:
        return entry.function(list(specs), **params)
    return lambda *values: entry.function(*values, **params)


def floats(*shape: int) -> np.ndarray:
    return rng.normal(size=shape).astype(np.float32)


# --- values ---------------------------------------------------------------------------------------

DTYPES = ["bool", "uint8", "uint32", "int32", "int64", "uint64", "float16", "float32", "float64"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_conversions_keep_dtype_and_content(dtype: str) -> None:
    array = (np.arange(6).reshape(2, 3) * 1.1).astype(dtype)
    value = ENGINE.from_numpy(array)
    assert ENGINE.spec_of(value) == Spec((2, 3), dtype)
    assert not value.weak_type
    back = ENGINE.to_numpy(value)
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)


def test_bfloat16() -> None:
    value = ENGINE.from_numpy(np.array([1.0, 2.5]), "bfloat16")
    assert ENGINE.spec_of(value) == Spec((2,), "bfloat16")
    assert ENGINE.to_numpy(value).astype(np.float32).tolist() == [1.0, 2.5]


def test_conversions_copy() -> None:
    array = np.zeros(8_000_000, np.float32)
    value = ENGINE.from_numpy(array)
    array[::-1000] += 1
    back = ENGINE.to_numpy(value)
    assert back.sum() == 0
    back += 1
    assert ENGINE.to_numpy(value).sum() == 0


def test_a_value_made_while_jax_traces_is_no_part_of_the_trace() -> None:
    v = K.variable(np.array([1.0, 2.0]))

    @jax.jit
    def add(x: Any) -> Any:
        return x + v.read(ENGINE)

    assert add(jnp.zeros(2)).tolist() == [1, 2]
    assert v.read(ENGINE).tolist() == [1, 2]
    assert K.get_value(v).tolist() == [1, 2]


def test_the_class_of_arrays_is_not_learned_from_a_trace() -> None:
    memory.array_type.cache_clear()
    np.testing.assert_allclose(jax.jit(K.tanh)(jnp.ones(2)), np.tanh(np.ones(2)), rtol=1e-6)
    assert jax.jit(lambda x: x + (memory.array_type() is type(jnp.ones(2))))(1) == 1
    assert memory.array_type() is type(jnp.ones(2))


def test_traced_values_have_specs() -> None:
    seen = []

    def look(x: Any) -> Any:
        assert ENGINE.owns(x)
        seen.append(ENGINE.spec_of(x))
        return x

    jax.jit(jax.vmap(look))(jnp.zeros((4, 2, 3)))
    assert seen == [Spec((2, 3), "float32")]
    assert not ENGINE.owns(np.zeros(3))


def test_no_other_engine_is_imported_and_no_setting_changed() -> None:
    code = """
import sys, jax
before = dict(jax.config.values)
import backplane.engines.jax
assert dict(jax.config.values) == before
assert not {"torch", "tensorflow", "pytensor", "onnxruntime"} & set(sys.modules)
"""
    waiting.run([sys.executable, "-c", code], check=True)


# --- 64 bits --------------------------------------------------------------------------------------


def test_float64_is_real_in_functions() -> None:
    x = K.placeholder((None,), dtype="float64")
    (y,) = K.function([x], [K.exp(x) / 3.0])([np.array([1.0, 2.0])])
    assert y.dtype == np.float64
    np.testing.assert_allclose(y, np.exp([1.0, 2.0]) / 3, rtol=1e-15)


def test_float64_inside_of_a_float32_function() -> None:
    x = K.placeholder((2,))
    tiny = K.cast(K.cast(x, "float64") + 1e-12, "float64") - K.cast(x, "float64")
    (y,) = K.function([x], [K.cast(tiny * 1e12, "float32")])([np.ones(2, np.float32)])
    np.testing.assert_allclose(y, 1, rtol=1e-3)


def test_float64_is_real_in_eager_calls() -> None:
    x = ENGINE.from_numpy(np.array([0.1, 0.2, 0.3]))
    y = K.softmax(x)
    assert y.dtype == np.float64
    e = np.exp(np.array([0.1, 0.2, 0.3]))
    np.testing.assert_allclose(np.asarray(y), e / e.sum(), rtol=1e-14)


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit, jax.vmap], ids=["eager", "jit", "vmap"])
def test_argmax_is_int64(wrap: Any) -> None:
    x = jnp.array([[1.0, 3.0, 3.0], [2.0, 2.0, 1.0]])
    found = wrap(lambda x: K.argmax(x, axis=-1))(x)
    assert found.dtype == np.int64
    assert np.asarray(found).tolist() == [1, 0]


def test_programs_of_32_bits_do_not_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    entered = []
    monkeypatch.setattr(memory, "in_64_bits", lambda run: entered.append(run) or run)
    spec = Spec((2,), "float32")
    ENGINE.compile(Program(lambda x: (x,), [spec], [spec], dtypes=frozenset(["float32"])))
    assert entered == []
    both = frozenset(["float32", "int64"])
    ENGINE.compile(Program(lambda x: (x,), [spec], [spec], dtypes=both))
    assert len(entered) == 1


# --- types ----------------------------------------------------------------------------------------


def test_no_result_is_weakly_typed() -> None:
    weak = jnp.asarray(2.0)
    assert weak.weak_type
    results = [K.tanh(weak), K.zeros_like(weak), K.ones_like(weak), K.identity(weak)]
    assert [y.weak_type for y in results] == [False] * 4
    x = K.placeholder(())
    f = K.function([x], [x * 2])
    assert f([weak])[0].dtype == np.float32


def test_strict_promotion_is_respected() -> None:
    with jax.numpy_dtype_promotion("strict"):
        x = jnp.array([[1.0, -2.0]])
        for f in (K.relu, K.softmax, K.sigmoid, K.softplus, K.mean, K.logsumexp, K.round):
            assert f(x).dtype == np.float32


# --- JAX's transformations ------------------------------------------------------------------------


def loss(x: Any, kernel: Any) -> Any:
    y = K.relu(K.conv2d(x, kernel, padding="same"))
    y = K.pool2d(y, (2, 2), (2, 2), pool_mode="max") + K.pool2d(y, (2, 2), (2, 2), pool_mode="avg")
    return K.sum(K.softmax(K.batch_flatten(y)) ** 2)


def reference(x: Any, kernel: Any) -> Any:
    layout = ("NHWC", "HWIO", "NHWC")
    y = jax.nn.relu(lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=layout))
    window = ((1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    largest = lax.reduce_window(y, -jnp.inf, lax.max, *window)
    mean = lax.reduce_window(y, 0.0, lax.add, *window) / 4
    return jnp.sum(jax.nn.softmax((largest + mean).reshape(x.shape[0], -1)) ** 2)


def test_grad_jit_and_vmap_go_through_k() -> None:
    x, kernel = jnp.asarray(floats(2, 6, 6, 3)), jnp.asarray(floats(3, 3, 3, 4))
    expected = jax.grad(reference, (0, 1))(x, kernel)
    for wrap in (lambda f: f, jax.jit):
        for a, b in zip(wrap(jax.grad(loss, (0, 1)))(x, kernel), expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    rows = jax.vmap(lambda row: loss(row[None], kernel))(x)
    np.testing.assert_allclose(rows.sum(), reference(x, kernel), rtol=1e-5)


def test_forward_mode_and_second_order() -> None:
    x = jnp.array([-1.0, 0.5, 2.0])
    hessian = jax.hessian(lambda x: K.sum(K.sigmoid(x) ** 2))(x)
    expected = jax.hessian(lambda x: jnp.sum(jax.nn.sigmoid(x) ** 2))(x)
    np.testing.assert_allclose(hessian, expected, atol=1e-6)


def test_kinks_of_the_tape() -> None:
    x = jnp.array([-1.0, 0.0, 2.0])
    assert jax.grad(lambda x: K.sum(K.relu(x)))(x).tolist() == [0, 0, 1]
    tied = jnp.ones((1, 2, 2, 1))
    pooled = jax.grad(lambda x: K.sum(K.pool2d(x, (2, 2), (2, 2))))(tied)
    assert pooled.ravel().tolist() == [1, 0, 0, 0], "the first maximum wins"


def test_stop_gradient_stops_the_tape() -> None:
    x = jnp.array([3.0])
    assert jax.grad(lambda x: K.sum(x * K.stop_gradient(x)))(x).tolist() == [3]


def test_print_runs_in_compiled_programs(capfd: pytest.CaptureFixture[str]) -> None:
    x = K.placeholder((2,))
    f = K.function([x], [K.print_tensor(x, "x is")])
    for _ in range(2):
        f([np.array([1.0, 2.0], np.float32)])
    jax.effects_barrier()
    assert capfd.readouterr().out.count("x is") == 2


# --- memory ---------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("pool", [9, 32, 64])
def test_large_windows_with_nan_have_it_as_maximum(pool: int) -> None:
    image = rng.standard_normal((1, 2 * pool, 2 * pool, 3), "float32")
    image[0, 5, 7, 2] = np.nan
    x = K.placeholder(image.shape)
    y = K.pool2d(x, (pool, pool), (pool, pool))
    maxima, slope = K.function([x], [y, K.gradients(y, [x])[0]])([image])
    assert np.argwhere(np.isnan(maxima)).tolist() == [[0, 0, 0, 2]]
    assert slope[0, :pool, :pool, 2].nonzero() == ([5], [7])


def test_the_persistent_cache_serves(tmp_path: Any) -> None:
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
    import os

    command = [sys.executable, "-c", code]
    done = waiting.run(command, env={**os.environ, **environment}, check=True)
    return done.stdout.strip()


# --- loops ----------------------------------------------------------------------------------------


def test_an_eager_loop_is_traced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    traced = []
    original = ENGINE.callable(_doubling())

    def counting(*values: Any) -> Any:
        traced.append(1)
        return original(*values)

    monkeypatch.setattr(type(ENGINE), "callable", lambda self, graph: counting)
    entry = ENGINE.table["scan"]
    options = {"carry": 1, "xs": 1, "reverse": False, "length": None, "wanted": (True, True)}
    run = entry.function([], body=_doubling(), **options)
    for start in (1.0, 2.0, 3.0):
        final, stack = run(jnp.float32(start), jnp.zeros((3,)))
        assert float(final) == 8 * start
        assert stack.tolist() == [start, 2 * start, 4 * start]
    assert len(traced) == 1


def _doubling() -> Graph:
    state, x = Placeholder(Spec((), "float32")), Placeholder(Spec((), "float32"))
    y = primitive("add")(state, x)
    return Graph([state, x], [primitive("add")(y, y), y])


def test_stacks_that_nobody_reads_are_left_away() -> None:
    options = {"carry": 1, "xs": 1, "reverse": False, "length": None, "wanted": (True, False)}
    run = ENGINE.table["scan"].function([], body=_doubling(), **options)
    final, stack = run(jnp.float32(1), jnp.zeros((3,)))
    assert (float(final), stack) == (8, None)


# --- random numbers -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "block", "answer"),
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((2**32 - 1,) * 2, (2**32 - 1,) * 2, (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_threefry_gives_the_known_answers(key: Any, block: Any, answer: Any) -> None:
    """Of Random123, kat_vectors."""
    words = [jnp.uint32(w) for w in (*key, *block)]
    assert tuple(map(int, threefry2x32((words[0], words[1]), *words[2:]))) == answer


@pytest.mark.parametrize("count", [0, 1, 2, 7, 8])
def test_words_in_parts_are_the_same(count: int) -> None:
    key = jnp.uint32(1), jnp.uint32(2)
    np.testing.assert_array_equal(words_in_parts(key, count), words_at_once(key, count))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_samples_have_their_distribution(dtype: str) -> None:
    key = np.array([1, 2, 3, 4], np.uint32)
    with jax.enable_x64(True):
        uniform = lowering("random_uniform", shape=(4, 5001), dtype=dtype)(key)
        normal = lowering("random_normal", shape=(4, 5001), dtype=dtype)(key)
    assert (uniform.dtype.name, normal.dtype.name) == (dtype, dtype)
    u, n = np.asarray(uniform).astype(np.float64), np.asarray(normal).astype(np.float64)
    assert u.min() >= 0
    assert u.max() < 1
    np.testing.assert_allclose([u.mean(), u.var()], [0.5, 1 / 12], atol=0.01)
    np.testing.assert_allclose([n.mean(), n.var(), (n**4).mean()], [0, 1, 3], atol=0.15)


def test_samples_do_not_depend_on_the_mode() -> None:
    key = np.array([1, 2, 3, 4], np.uint32)
    draw = lowering("random_normal", shape=(7,), dtype="float32")
    with jax.enable_x64(True):
        wide = np.asarray(draw(key))
    np.testing.assert_array_equal(wide, draw(key))
    np.testing.assert_allclose(jax.jit(draw)(key), wide, rtol=1e-6)


def test_an_eager_result_outlives_the_variable_it_was_read_from() -> None:
    with engines.use("jax"):
        v = K.variable(np.ones(1000))
        kept = K.eager(K.identity)(v)
        K.function([], [K.sum(v)], updates=[K.update_add(v, np.ones(1000))])([])
        assert float(kept.sum()) == 1000.0
        assert float(K.get_value(v).sum()) == 2000.0


def test_feeds_may_change_after_a_call_without_outputs() -> None:
    with engines.use("jax"):
        x, v = K.placeholder(shape=(4_000_000,)), K.variable(np.zeros(()))
        f = K.function([x], [], updates=[(v, K.sum(K.tanh(x)))])
        for _ in range(5):
            fed = np.zeros(4_000_000, "float32")
            f([fed])
            fed[:] = 1.0
            assert K.get_value(v) == 0.0


def test_no_signal_leaves_64_bit_types_on() -> None:
    """At each line of JAX's context manager, while it is entered and left."""
    value = np.ones(2)
    ENGINE.from_numpy(value)
    for number in range(1, 100):
        left = [number]

        def trace(frame: Any, event: str, _: Any, left: list[int] = left) -> Any:
            if frame.f_code.co_filename != jax._src.config.__file__:
                return None
            left[0] -= event == "line"
            if event == "line" and not left[0]:
                signal.raise_signal(signal.SIGTERM)
            return trace

        before = sys.gettrace()
        with handling(signal.SIGTERM), contextlib.suppress(Interrupt):
            sys.settrace(trace)
            try:
                ENGINE.from_numpy(value)
            finally:
                sys.settrace(before)
        assert not jax.config.jax_enable_x64
        if left[0] > 0:
            assert number > 5
            return
    raise AssertionError("a call enters the context manager for ever")


@pytest.mark.parametrize(
    ("wide", "narrow"), [("int64", "int32"), ("int64", "int16"), ("int32", "int8")]
)
def test_bits_of_narrowed_integers(wide, narrow):
    """XLA ends the process in `&` and `|` of signed integers that the same program has narrowed."""
    x, y = (K.placeholder((None,), dtype=wide) for _ in range(2))
    a, b = K.cast(x, narrow), K.cast(y, narrow)
    left, right = np.arange(-20, 30, dtype=wide), np.arange(3, 53, dtype=wide)
    both, either, one = K.function([x, y], [a & b, a | b, a ^ b])([left, right])
    np.testing.assert_array_equal(both, (left & right).astype(narrow))
    np.testing.assert_array_equal(either, (left | right).astype(narrow))
    np.testing.assert_array_equal(one, (left ^ right).astype(narrow))
