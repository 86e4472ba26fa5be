"""The jax engine: conversions, 64 bits, JAX's transformations, loops."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import waiting

pytest.importorskip("jax")
import jax
import jax.numpy as jnp
from jax import lax

from backplane import backend as K
from backplane import engines
from backplane.core.graph import Graph, Placeholder
from backplane.core.registry import primitive
from backplane.core.spec import Spec
from backplane.engines.jax import ENGINE, memory
from backplane.engines.programs import Program
from interrupting import Interrupt, handling

rng = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def on_jax() -> Iterator[None]:
    with engines.use("jax"):
        yield
    assert not jax.config.jax_enable_x64


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
