"""ONNX Runtime: values, loops, unknown sizes, random numbers, start-up, primitives of the host."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import waiting
from backplane import backend as K
from backplane import engines
from backplane.compile.program import clear_programs
from backplane.core.registry import PRIMITIVES
from backplane.core.spec import Spec
from backplane.engines.onnxruntime import ENGINE, engine, library
from backplane.ops.elementwise import bitcast
from engines.lowerings import compute

rng = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def on_onnxruntime() -> Any:
    with engines.use("cntk"):
        yield


# --- values ---------------------------------------------------------------------------------------


def test_sums_of_float16_at_positions():
    """Gradients of a max-pooling with overlapping windows, and of a gather."""
    x, v = K.placeholder((1, 5, 5, 1), dtype="float16"), K.placeholder((4, 2), dtype="float16")
    pooled = K.sum(K.pool2d(x, (3, 3), (1, 1)))
    picked = K.sum(K.square(K.gather(v, K.constant([0, 2, 0], dtype="int32"))))
    with K.engine("cntk"):
        f = K.function([x, v], [*K.gradients(pooled, [x]), *K.gradients(picked, [v])])
        at_pixels, at_rows = f([np.arange(25).reshape(1, 5, 5, 1), np.ones((4, 2))])
    assert at_pixels.dtype == at_rows.dtype == np.float16
    assert at_pixels[0, 2:, 2:, 0].tolist() == [[1] * 3] * 3
    assert at_rows.tolist() == [[4, 4], [0, 0], [2, 2], [0, 0]]


def test_tensors_of_onnx_runtime_go_in_and_come_out() -> None:
    x = ort.OrtValue.ortvalue_from_numpy(np.array([-1.0, 2.0], "float32"))
    y = K.relu(x)
    assert ENGINE.owns(y)
    assert ENGINE.spec_of(y) == Spec((2,), "float32")
    np.testing.assert_array_equal(ENGINE.to_numpy(y), [0, 2])
    p = K.placeholder((2,))
    np.testing.assert_array_equal(K.function([p], [p * 2.0])([x])[0], [-2, 4])


def test_arrays_give_arrays() -> None:
    y = K.relu(np.array([-1.0, 2.0]))
    assert type(y) is np.ndarray
    assert not ENGINE.owns(y)


def test_a_result_without_axes_is_a_tensor_too() -> None:
    total = K.sum(ort.OrtValue.ortvalue_from_numpy(np.ones((2, 2), "float32")))
    assert total.shape() == []
    assert float(total.numpy()) == 4


def test_results_outlive_their_session_and_share_no_memory() -> None:
    p = K.placeholder((3,))
    f = K.function([p], [p + 1.0, K.reshape(p, (3, 1))])
    x = np.arange(3, dtype="float32")
    first, view = f([x])
    second, _ = f([x + 10])
    clear_programs()
    del f
    view[:] = -1
    np.testing.assert_array_equal(first, [1, 2, 3])
    np.testing.assert_array_equal(second, [11, 12, 13])
    np.testing.assert_array_equal(x, [0, 1, 2])


def test_a_call_that_fails_leaves_variables_alone() -> None:
    v = K.variable([1.0, 2.0])
    i = K.placeholder((1,), dtype="int32")
    f = K.function([i], [K.gather(v, i)], [K.update_add(v, [1.0, 1.0])])
    with pytest.raises(IndexError, match="out of data bounds"):
        f([[5]])
    np.testing.assert_array_equal(K.get_value(v), [1, 2])
    f([[1]])
    np.testing.assert_array_equal(K.get_value(v), [2, 3])


def test_an_error_names_the_line_that_built_what_failed() -> None:
    x, i = K.placeholder((None, 3)), K.placeholder((None,), dtype="int32")
    f = K.function([x, i], [K.relu(K.gather(x * 2.0, i))])  # this line
    with pytest.raises(IndexError, match="out of range") as caught:
        f([np.ones((2, 3)), np.array([4])])
    (note,) = caught.value.__notes__
    assert "while running 'gather'" in note
    assert note.splitlines()[0].endswith("# this line")


# --- loops ----------------------------------------------------------------------------------------


def test_a_loop_of_unknown_length_may_have_no_steps() -> None:
    xs = K.placeholder((None, 3))
    total = K.foldl(lambda a, x: a + x, xs, initializer=K.zeros((3,)))
    f = K.function([xs], [total])
    np.testing.assert_array_equal(f([np.ones((4, 3))])[0], [4, 4, 4])
    np.testing.assert_array_equal(f([np.ones((0, 3))])[0], [0, 0, 0])
    np.testing.assert_array_equal(f([np.ones((2, 3))])[0], [2, 2, 2])


# --- sums at repeated indices ---------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("axis", [0, 1])
def test_sums_at_repeated_indices_lose_nothing(
    threads: int, axis: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "THREADS", threads)
    clear_programs()
    indices = rng.integers(-3, 3, 5000)
    g = np.ones((5000, 16) if axis == 0 else (16, 5000), "float32")
    shape = (3, 16) if axis == 0 else (16, 3)
    want = np.zeros(shape, "float32")
    np.add.at(want, (indices,) if axis == 0 else (slice(None), indices), g)
    for _ in range(5):
        got = compute("scatter_add", g, indices, shape=shape, axis=axis)
        np.testing.assert_array_equal(got, want)
    clear_programs()


# --- convolution ----------------------------------------------------------------------------------


NUMPY = {"strides": (2, 1), "padding": "same", "dilation": (1, 2), "groups": 2}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("window", [(1, 1), (3, 3), (5, 2)])
def test_convolutions_of_unknown_sizes(dtype: str, window: tuple[int, int]) -> None:
    x = rng.standard_normal((2, 7, 8, 4)).astype(dtype)
    kernel = rng.standard_normal((*window, 2, 6)).astype(dtype)
    g = rng.standard_normal((2, 4, 8, 6)).astype(dtype)

    def run() -> list[np.ndarray]:
        p = [K.placeholder((None, None, None, a.shape[-1]), dtype=dtype) for a in (x, g)]
        k = K.placeholder(kernel.shape, dtype=dtype)
        y = PRIMITIVES["conv"](p[0], k, **NUMPY)
        sizes = [PRIMITIVES["dim"](p[0], axis=i) for i in range(3)]
        params = {**NUMPY, "shape": (None, None, None, 4)}
        by_x = PRIMITIVES["conv_input_grad"](p[1], k, *sizes, **params)
        by_k = PRIMITIVES["conv_kernel_grad"](*p, kernel_shape=kernel.shape, **NUMPY)
        return K.function([p[0], k, p[1]], [y, by_x, by_k])([x, kernel, g])

    found = run()
    with engines.use("numpy"):
        wanted = run()
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4 if dtype == "float32" else 1e-12, atol=1e-5)


# --- random numbers -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_samples_are_what_they_should_be(dtype: str) -> None:
    key = np.array([1, 2, 3, 4], "uint32")
    n = 200_001
    u = compute("random_uniform", key, shape=(n,), dtype=dtype).astype("float64")
    z = compute("random_normal", key, shape=(n,), dtype=dtype).astype("float64")
    assert 0 <= u.min() < 1e-3
    assert 1 - 1e-3 < u.max() < 1
    counts = np.histogram(u, 64, (0, 1))[0]
    assert ((counts - n / 64) ** 2 / (n / 64)).sum() < 111  # chi² of 63, p ≈ 2e-4
    assert abs(np.corrcoef(u[:-1], u[1:])[0, 1]) < 0.01
    half = n // 2
    assert abs(np.corrcoef(u[:half], u[half : 2 * half])[0, 1]) < 0.01
    assert abs(np.corrcoef(z[:half], z[half : 2 * half])[0, 1]) < 0.01
    for power, want in ((1, 0), (2, 1), (3, 0), (4, 3)):
        assert (z**power).mean() == pytest.approx(want, abs=0.06)


def test_other_keys_give_other_samples() -> None:
    params = {"shape": (1000,), "dtype": "float32"}
    draws = [
        compute("random_uniform", np.array(words, "uint32"), **params)
        for words in ((1, 2, 3, 4), (0, 2, 3, 4), (1, 0, 3, 4), (1, 2, 0, 4), (1, 2, 3, 0))
    ]
    for i, a in enumerate(draws):
        for b in draws[:i]:
            assert abs(np.corrcoef(a, b)[0, 1]) < 0.15
    again = compute("random_uniform", np.array([1, 2, 3, 4], "uint32"), **params)
    np.testing.assert_array_equal(draws[0], again)


# --- compilation ----------------------------------------------------------------------------------


def deep(layers: int) -> float:
    """Seconds of this thread to compile a network of that depth with its gradients and updates."""
    x = K.placeholder((None, 4))
    h, weights = x, []
    for _ in range(layers):
        weights.append(K.variable(np.eye(4)))
        h = K.tanh(K.dot(h, weights[-1]))
    grads = K.gradients(K.mean(h), weights)
    f = K.function(
        [x], [K.mean(h)], [K.update_sub(w, g) for w, g in zip(weights, grads, strict=True)]
    )
    before = time.thread_time()
    f([np.ones((1, 4))])
    return time.thread_time() - before


def test_compilation_time_is_about_linear_in_depth() -> None:
    deep(5)
    short, long = min(deep(25) for _ in range(3)), min(deep(100) for _ in range(2))
    assert long < 8 * short


def test_large_models_without_convolutions_are_not_optimized(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    optimized: list[bool] = []
    make = engine.session

    def spy(model: bytes, threads: int, optimize: bool, *more: Any) -> Any:
        optimized.append(optimize)
        return make(model, threads, optimize, *more)

    monkeypatch.setattr(engine, "session", spy)
    monkeypatch.setattr(engine, "MANY", 2)
    x, k = K.placeholder((2, 4, 3)), K.placeholder((2, 3, 3))
    y = K.sin(K.cos(x * 2.0))
    for z in (x * 2.0, y, K.conv1d(y, k, data_format="channels_last")):
        K.function([x, k], [z])([np.ones((2, 4, 3)), np.ones((2, 3, 3))])
    assert optimized == [True, False, True]


def test_the_engine_imports_no_other_library_and_says_nothing() -> None:
    code = (
        "import sys, numpy as np; from backplane import engines; e = engines.get('cntk');"
        "print([m for m in ('jax', 'tensorflow', 'pytensor', 'torch') if m in sys.modules])"
    )
    found = waiting.run([sys.executable, "-c", code], check=True)
    assert found.stdout.strip() == "[]"
    assert found.stderr == ""


def test_sessions_of_the_user_are_left_alone() -> None:
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Relu", ["x"], ["y"])], "g",
        [onnx.helper.make_tensor_value_info("x", 1, [2])],
        [onnx.helper.make_tensor_value_info("y", 1, [2])],
    )  # fmt: skip
    opset = onnx.helper.make_opsetid("", library.OPSET)
    model = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=library.IR_VERSION)
    session = ort.InferenceSession(model.SerializeToString())
    assert session.run(None, {"x": np.array([-1, 1], "float32")})[0].tolist() == [0, 1]


# --- where kernels or optimizers of ONNX Runtime err ----------------------------------------------


@pytest.mark.parametrize("form", ["result", "operands", "transposed"])
def test_products_with_a_factor_keep_the_precision_of_float64(form: str) -> None:
    a, b = rng.random((5, 6)), rng.random((6, 7))
    x, y = K.placeholder(a.shape, dtype="float64"), K.placeholder(b.shape, dtype="float64")
    z, want = {
        "result": (K.dot(x, y) / 3, a @ b / 3),
        "operands": (K.dot(x * 0.3, y * 0.7), (a * 0.3) @ (b * 0.7)),
        "transposed": (K.dot(x, K.transpose(K.transpose(y))) * 0.1, a @ b * 0.1),
    }[form]
    np.testing.assert_allclose(K.function([x, y], [z])([a, b])[0], want, rtol=1e-14)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("axes", [(1, 1), (2, 2)])
def test_products_of_stacks_over_no_elements_are_zero(axes: tuple[int, int], known: bool) -> None:
    shapes = [(3, 0, 20), (3, 0, 40)] if axes == (1, 1) else [(3, 20, 0), (3, 40, 0)]
    x, y = (K.placeholder(shape if known else (None, None, None)) for shape in shapes)
    f = K.function([x, y], [K.batch_dot(x, y, axes=axes)])
    for _ in range(8):
        (z,) = f([np.ones(shape, np.float32) for shape in shapes])
        assert z.shape == (3, 20, 40)
        assert not z.any()
        z[...] = 77  # for whoever has this memory next


def test_sigmoid_is_exact_far_from_zero() -> None:
    x = K.placeholder((None,))
    y = K.log(K.sigmoid(x))
    f = K.function([x], [K.sigmoid(x), y, K.gradients(K.sum(y), [x])[0]])
    at = np.array([-80, -40, -20, -18, -15, -8, 0, 8], np.float32)
    value, logarithm, slope = f([at])
    want = 1 / (1 + np.exp(-at.astype(np.float64)))
    np.testing.assert_allclose(value, want, rtol=1e-6)
    np.testing.assert_allclose(logarithm, np.log(want), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(slope, 1 - want, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("fold", [K.foldl, K.foldr])
def test_folds_without_steps_have_gradients_of_the_right_shape(fold: Any) -> None:
    x, w, start = (K.placeholder((None,) * rank) for rank in (3, 2, 2))
    y = fold(lambda a, row: K.tanh(K.dot(row, w)) + a * K.sum(row), x, initializer=start)
    f = K.function([x, w, start], [y, *K.gradients(K.sum(y), [x, w, start])])
    for steps in (0, 2, 0):
        found = f([np.ones((steps, 3, 4)), np.ones((4, 4)), np.ones((3, 4))])
        assert [a.shape for a in found] == [(3, 4), (steps, 3, 4), (4, 4), (3, 4)]


def test_float32_sums_up_to_many_elements_keep_their_digits() -> None:
    x = K.placeholder((None,))
    (y,) = K.function([x], [K.cumsum(x)])([np.full(10**6, 0.1, np.float32)])
    np.testing.assert_allclose(y[-1], 1e5, rtol=1e-5)


# --- primitives that the host computes ------------------------------------------------------------


def test_loops_and_branches_around_what_the_host_computes() -> None:
    x, flag = K.placeholder(shape=(3, 2)), K.placeholder(shape=(), dtype="bool")
    bits = K.map_fn(lambda row: bitcast(row * 2.0, dtype="int32"), x, dtype="int32")
    branch = K.switch(flag, lambda: bitcast(x, dtype="int32"), lambda: K.cast(x, "int32"))
    given = rng.normal(size=(3, 2)).astype("float32")
    for chosen in (True, False):
        found = K.function([x, flag], [bits, branch])([given, np.array(chosen)])
        np.testing.assert_array_equal(found[0], (given * 2).view("int32"))
        wanted = given.view("int32") if chosen else given.astype("int32")
        np.testing.assert_array_equal(found[1], wanted)


def test_what_the_host_computes_cannot_be_exported(tmp_path: Path) -> None:
    x = K.placeholder(shape=(None, 2))
    f = K.function([x], [bitcast(x, dtype="int32") + 1])
    with pytest.raises(ValueError, match="bitcast, which ONNX has no operation for"):
        f.to_onnx(tmp_path / "bits.onnx")
