"""The TensorFlow engine: conversions, its import, programs, random numbers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import waiting
from lean import lean

pytest.importorskip("tensorflow")
import tensorflow as tf

from backplane import backend as K
from backplane import engines
from backplane.compile.program import clear_programs
from backplane.core.spec import Spec
from backplane.engines.programs import Program
from backplane.engines.tensorflow import ENGINE, engine
from backplane.engines.tensorflow.fast import direct
from engines import lowerings
from spying import Spy

lower = partial(lowerings.lower, ENGINE)
rng = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def on_tensorflow() -> Iterator[None]:
    with engines.use("tensorflow"):
        yield


def floats(*shape: int, dtype: str = "float64") -> Any:
    return tf.constant(rng.normal(size=shape), dtype)


# --- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["bool", "uint8", "uint32", "int64", "float16", "float32"])
@pytest.mark.parametrize("shape", [(), (2, 3), (0, 2), (200, 300)])
def test_conversions_keep_dtype_and_content(dtype: str, shape: tuple[int, ...]) -> None:
    array = np.asarray(rng.integers(0, 2, shape)).astype(dtype)
    value = ENGINE.from_numpy(array)
    assert ENGINE.owns(value)
    assert ENGINE.spec_of(value) == Spec(shape, dtype)
    back = ENGINE.to_numpy(value)
    assert type(back) is np.ndarray
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)


@pytest.mark.parametrize("size", [16, 100_000])
def test_conversions_copy(size: int) -> None:
    # Several arrays, because only those that happen to be aligned would be shared.
    for _ in range(8):
        array = np.zeros(size)
        value = ENGINE.feed(array)
        array[:] = 1
        ENGINE.to_numpy(value)[:] = 2
        np.testing.assert_array_equal(value, np.zeros(size))


@pytest.mark.parametrize("kind", ["read-only", "reversed", "big-endian"])
@pytest.mark.parametrize("size", [3, 100_000])
def test_feed_takes_any_array(kind: str, size: int) -> None:
    array = np.arange(float(size))
    if kind == "read-only":
        array.flags.writeable = False
    elif kind == "reversed":
        array = array[::-1]
    else:
        array = array.astype(">f8")
    np.testing.assert_array_equal(ENGINE.to_numpy(ENGINE.feed(array)), array)


def test_from_numpy_casts() -> None:
    value = ENGINE.from_numpy(np.array([1.5, -2.0]), "bfloat16")
    assert value.dtype == tf.bfloat16
    np.testing.assert_array_equal(ENGINE.to_numpy(value).astype("float32"), [1.5, -2.0])


def test_variables_of_tensorflow_are_values() -> None:
    v = tf.Variable([1.0, 2.0])
    assert ENGINE.owns(v)
    assert ENGINE.spec_of(v) == Spec((2,), "float32")
    np.testing.assert_array_equal(lower("add", v, v), [2, 4])


def test_unknown_rank_is_an_error_that_says_what_to_do() -> None:
    @tf.function(input_signature=[tf.TensorSpec(None)])
    def function(x: Any) -> Any:
        with pytest.raises(ValueError, match=r"tf\.ensure_shape"):
            ENGINE.spec_of(x)
        return x

    function.get_concrete_function()


# --- the import -----------------------------------------------------------------------------------


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return waiting.run(
        [sys.executable, "-c", code],
        env=lean({**os.environ, **environment}),
        check=True,
    )


IMPORT = "import backplane.engines.tensorflow as e, os, sys; e.ENGINE.from_numpy"


@pytest.mark.slow
def test_import_is_quiet_and_imports_no_other_engine() -> None:
    code = f"""{IMPORT}
print([n for n in ("jax", "torch", "onnxruntime") if f"backplane.engines.{{n}}" in sys.modules])"""
    without = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    found = waiting.run([sys.executable, "-c", code], env=lean(without), check=True)
    assert found.stderr == ""
    assert found.stdout == "[]\n"


@pytest.mark.slow
def test_import_leaves_the_users_log_level_and_stderr_alone() -> None:
    code = f"""{IMPORT}
print(os.environ["TF_CPP_MIN_LOG_LEVEL"], file=sys.stderr)"""
    assert run_python(code, TF_CPP_MIN_LOG_LEVEL="0").stderr.endswith("0\n")


# --- programs -------------------------------------------------------------------------------------


def test_a_program_is_traced_once_for_all_sizes() -> None:
    traces = []

    def function(x: Any, w: Any) -> tuple[Any, ...]:
        traces.append(x.shape)
        return lower("matmul", x, w, transpose_x=False, transpose_y=False), x

    run = ENGINE.compile(
        Program(function, [Spec((None, 3), "float64"), Spec((3, 2), "float64")], [])
    )
    w = floats(3, 2)
    for batch in (1, 5, 0):
        x = floats(batch, 3)
        y, same = run(x, w)
        np.testing.assert_allclose(y, x.numpy() @ w.numpy())
        np.testing.assert_array_equal(same, x)
    assert len(traces) == 1


def test_what_is_evaluated_makes_a_graph_if_it_is_long_and_only_after_some_calls(
    spied: Spy,
) -> None:
    clear_programs()
    graphs = spied(direct, "call")
    w = K.variable(rng.normal(size=(3, 3)))
    short, deep = K.tanh(K.dot(w, w) + 1.0), w
    for _ in range(9):
        deep = K.tanh(deep)
    expected = [K.eval(y) for y in (short, deep)]
    for _ in range(engine.FEW):
        assert graphs == []
        for y, want in zip((short, deep), expected, strict=True):
            np.testing.assert_allclose(K.eval(y), want, rtol=1e-6)
    for y in (deep, K.foldl(lambda a, row: K.tanh(a) + row, w)):
        K.eval(y)
        assert len(graphs) == 1
        graphs.clear()
    K.function([], [short])([])
    assert len(graphs) == 1


def test_a_failing_evaluation_names_the_users_line() -> None:
    x = K.placeholder((None, 2))
    rows = K.gather(K.transpose(x), K.constant([2], dtype="int32"))
    with pytest.raises(IndexError, match="out of range") as caught:
        rows.eval(None, {x: np.zeros((4, 2))})
    (note,) = caught.value.__notes__
    assert f"{__file__}:" in note
    assert "'gather'" in note


def test_a_program_may_hold_large_constants_and_run_inside_a_tf_function() -> None:
    large = floats(300)
    run = ENGINE.compile(Program(lambda x: (x + large,), [Spec((300,), "float64")], []))
    x = floats(300)
    outside, inside = run(x)[0], tf.function(lambda x: run(x)[0])(x)
    np.testing.assert_array_equal(outside, x + large)
    np.testing.assert_array_equal(inside, x + large)


def test_without_the_short_ways_the_public_ones_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct, "context", None)
    run = ENGINE.compile(Program(lambda x: (x * 2, x), [Spec((None,), "float64")], []))
    doubled, _ = run(ENGINE.from_numpy(np.arange(3.0)))
    np.testing.assert_array_equal(ENGINE.to_numpy(doubled), [0, 2, 4])


def test_xla_is_an_option() -> None:
    def function(x: Any) -> tuple[Any, ...]:
        return (lower("tanh", x),)

    spec = Spec((3,), "float64")
    run = ENGINE.compile(Program(function, [spec], [spec], options={"compile": True}))
    x = floats(3)
    np.testing.assert_allclose(run(x)[0], np.tanh(x))


def test_k_functions_run_inside_a_tf_function() -> None:
    @tf.function(input_signature=[tf.TensorSpec((None, 3))])
    def function(x: Any) -> Any:
        return K.mean(x, axis=-1) + K.sum(x)

    x = floats(4, 3, dtype="float32")
    expected = x.numpy().mean(-1) + x.numpy().sum()
    np.testing.assert_allclose(function(x), expected, rtol=1e-5)


# --- random numbers -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["random_uniform", "random_normal"])
def test_samples_follow_from_the_key(name: str) -> None:
    def draw(*words: int) -> Any:
        key = ENGINE.from_numpy(np.array(words, np.uint32))
        return lower(name, key, shape=(1000,), dtype="float32").numpy()

    first = draw(1, 2, 3, 4)
    np.testing.assert_array_equal(first, draw(1, 2, 3, 4))
    for other in ((2, 2, 3, 4), (1, 3, 3, 4), (1, 2, 4, 4), (1, 2, 3, 5)):
        assert len(np.intersect1d(first, draw(*other))) < 5


@pytest.mark.parametrize("configured", ["theano", "cntk"])
def test_it_loads_beside_an_engine_whose_name_keras_3_refuses(configured: str) -> None:
    program = (
        "from backplane import backend as K\n"
        "with K.engine('tensorflow'):\n"
        "    print(K.eval(K.ones((1,)) + 1.0))\n"
        "import os; print(os.environ['KERAS_BACKEND'])"
    )
    environment = {**os.environ, "KERAS_BACKEND": configured}
    run = waiting.run([sys.executable, "-c", program], env=lean(environment))
    assert run.stdout.split("\n")[:2] == ["[2.]", configured], run.stderr


def test_the_counter_of_a_traced_function_is_part_of_the_random_state():
    traced = tf.function(lambda x: K.dropout(x, 0.5, seed=1))
    x = tf.ones(32)
    traced(x)
    state = K.random_state()
    first, second = traced(x).numpy(), traced(x).numpy()
    K.set_random_state(state)
    assert (traced(x).numpy() == first).all()
    assert (first != second).any()
    del traced
    K.set_random_state(state)
