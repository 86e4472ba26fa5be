"""The mlx engine: conversions, float64, MLX's transformations, and what MLX does not check."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import waiting

mx = pytest.importorskip("mlx.core")

from backplane import backend as K  # noqa: E402
from backplane import engines  # noqa: E402
from backplane.core.spec import Spec  # noqa: E402
from backplane.engines.mlx import ENGINE, wide  # noqa: E402

rng = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def on_mlx() -> Iterator[None]:
    with engines.use("mlx"):
        yield


def floats(*shape: int) -> np.ndarray:
    return rng.normal(size=shape).astype(np.float32)


# --- values ---------------------------------------------------------------------------------------

DTYPES = ["bool", "uint8", "uint32", "int32", "int64", "uint64", "float16", "float32", "float64"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(2, 3), (), (0, 3)])
def test_conversions_keep_dtype_and_content(dtype: str, shape: tuple[int, ...]) -> None:
    array = (np.arange(np.prod(shape)).reshape(shape) * 1.1).astype(dtype)
    value = ENGINE.from_numpy(array)
    assert ENGINE.spec_of(value) == Spec(shape, dtype)
    back = ENGINE.to_numpy(value)
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)


def test_bfloat16() -> None:
    value = ENGINE.from_numpy(np.array([1.0, 2.5]), "bfloat16")
    assert ENGINE.spec_of(value) == Spec((2,), "bfloat16")
    back = ENGINE.to_numpy(value)
    assert back.dtype.name == "bfloat16"
    assert back.astype(np.float32).tolist() == [1.0, 2.5]


def test_arrays_in_any_layout() -> None:
    array = np.arange(6.0).reshape(2, 3)
    for given in (array.T, array[::-1], array[:, ::2], array.astype(">f8")):
        np.testing.assert_array_equal(ENGINE.to_numpy(ENGINE.from_numpy(given)), given)


def test_conversions_copy() -> None:
    array = np.zeros(4, np.float32)
    value = ENGINE.from_numpy(array)
    array += 1
    back = ENGINE.to_numpy(value)
    back += 2
    assert ENGINE.to_numpy(value).tolist() == [0] * 4


def test_assignments_of_users_do_not_reach_variables() -> None:
    given = mx.array([1.0, 2.0])
    v = K.variable(given)
    given[0] = 7
    lent = ENGINE.lend(v.read(ENGINE))
    lent[1] = 7
    assert K.get_value(v).tolist() == [1, 2]
    assert lent.tolist() == [1, 7]
    (y,) = K.function([], [v])([])
    y[0] = 5
    assert K.get_value(v).tolist() == [1, 2]


def test_no_other_engine_is_imported() -> None:
    code = """
import sys
import backplane.engines.mlx
assert not {"jax", "torch", "tensorflow", "pytensor", "onnxruntime"} & set(sys.modules)
"""
    waiting.run([sys.executable, "-c", code], check=True)


# --- float64 --------------------------------------------------------------------------------------

WIDE = [
    (wide.exp, np.exp, np.exp),
    (wide.sin, np.sin, np.cos),
    (wide.cos, np.cos, lambda x: -np.sin(x)),
    (wide.sigmoid, lambda x: 1 / (1 + np.exp(-x)), lambda x: np.exp(-x) / (1 + np.exp(-x)) ** 2),
]


@pytest.mark.parametrize(
    ("function", "oracle", "slope"), WIDE, ids=["exp", "sin", "cos", "sigmoid"]
)
def test_float64_is_real(
    function: Callable[..., Any], oracle: Callable[..., Any], slope: Callable[..., Any]
) -> None:
    """MLX itself computes these in float32."""
    x = np.linspace(-20, 20, 401)
    value = ENGINE.from_numpy(x)
    np.testing.assert_allclose(np.array(function(value)), oracle(x), rtol=1e-13, atol=1e-15)
    found = mx.grad(lambda v: mx.sum(function(v)))(value)
    np.testing.assert_allclose(np.array(found), slope(x), rtol=1e-12, atol=1e-15)
    _, (tangent,) = mx.jvp(function, [value], [mx.ones_like(value)])
    np.testing.assert_allclose(np.array(tangent), slope(x), rtol=1e-12, atol=1e-15)


def test_float64_through_k() -> None:
    x = np.array([0.1, 0.2, 0.3])
    y = K.softmax(ENGINE.from_numpy(x))
    assert y.dtype == mx.float64
    np.testing.assert_allclose(np.array(y), np.exp(x) / np.exp(x).sum(), rtol=1e-14)


def test_float64_runs_on_the_processor_whatever_the_default_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    streams = []
    stream = mx.stream
    monkeypatch.setattr(mx, "stream", lambda s: streams.append(s) or stream(s))
    for dtype, expected in (("float32", []), ("float64", [mx.cpu])):
        x = K.placeholder((2,), dtype=dtype)
        K.function([x], [x + 1.0])([np.ones(2)])
        assert streams == expected


# --- MLX's transformations ------------------------------------------------------------------------


def loss(x: Any, kernel: Any) -> Any:
    y = K.relu(K.conv2d(x, kernel, padding="same"))
    y = K.pool2d(y, (2, 2), (2, 2), pool_mode="max") + K.pool2d(y, (2, 2), (2, 2), pool_mode="avg")
    return K.sum(K.softmax(K.batch_flatten(y)) ** 2)


def expected_gradients(x: np.ndarray, kernel: np.ndarray) -> list[np.ndarray]:
    """By K's own gradients, on NumPy."""
    with engines.use("numpy"):
        inputs = [K.placeholder(x.shape), K.placeholder(kernel.shape)]
        return K.function(inputs, K.gradients(loss(*inputs), inputs))([x, kernel])


@pytest.mark.parametrize("wrap", [lambda f: f, mx.compile], ids=["eager", "compile"])
def test_grad_goes_through_k(wrap: Callable[..., Any]) -> None:
    x, kernel = floats(2, 6, 6, 3), floats(3, 3, 3, 4)
    found = wrap(mx.grad(loss, (0, 1)))(mx.array(x), mx.array(kernel))
    for a, b in zip(found, expected_gradients(x, kernel), strict=True):
        np.testing.assert_allclose(np.array(a), b, rtol=1e-4, atol=1e-6)


def test_native_tensors_in_native_tensors_out() -> None:
    y = K.mean(mx.array([[1.0, 2.0], [3.0, 4.0]]), axis=0)
    assert isinstance(y, mx.array)
    assert y.tolist() == [2, 3]


def test_compile() -> None:
    x = floats(4, 3)
    found = mx.compile(lambda x: K.softmax(K.dot(x, K.transpose(x))))(mx.array(x))
    np.testing.assert_allclose(np.array(found), np.array(K.softmax(mx.array(x @ x.T))), rtol=1e-5)


def test_vmap() -> None:
    x = floats(4, 3)
    found = mx.vmap(lambda row: K.sum(K.tanh(row)))(mx.array(x))
    np.testing.assert_allclose(np.array(found), np.tanh(x).sum(1), rtol=1e-5)


def test_second_order() -> None:
    x = mx.array([0.5, -1.0])
    slope = mx.grad(lambda x: K.sum(x**3))
    assert mx.grad(lambda x: mx.sum(slope(x)))(x).tolist() == [3, -6]


def test_kinks_of_the_tape() -> None:
    x = mx.array([-1.0, 0.0, 2.0])
    assert mx.grad(lambda x: K.sum(K.relu(x)))(x).tolist() == [0, 0, 1]
    assert mx.grad(lambda x: K.sum(x * K.stop_gradient(x)))(x).tolist() == [-1, 0, 2]


def test_indexing_without_reading_values_can_be_compiled() -> None:
    x = mx.array(floats(5, 3))
    i = mx.array([4, -1, 0])
    found = mx.compile(lambda x, i: K.gather(x, i))(x, i)
    np.testing.assert_array_equal(np.array(found), np.array(x)[[4, -1, 0]])


# --- programs -------------------------------------------------------------------------------------


def test_functions_compiled_by_mlx() -> None:
    x, w = K.placeholder((None, 3)), K.variable(floats(3, 2))
    y = K.sum(K.tanh(K.dot(x, w)) ** 2)
    outputs = [y, *K.gradients(y, [w])]
    plain, compiled = K.function([x], outputs), K.function([x], outputs, compile=True)
    for batch in (4, 2, 4):
        data = floats(batch, 3)
        for a, b in zip(plain([data]), compiled([data]), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5)


def test_updates_are_computed_when_a_call_returns() -> None:
    v = K.variable(np.zeros(2))
    step = K.function([], [], updates=[K.update_add(v, [1.0, 1.0])])
    for _ in range(2000):
        step([])
    assert K.get_value(v).tolist() == [2000, 2000], "else the graph would have grown"


def test_threads() -> None:
    v, x = K.variable(np.ones(3)), K.placeholder((3,))
    f = K.function([x], [K.tanh(x) * v], updates=[K.update_add(v, x)])
    found: list[Any] = []

    def run() -> None:
        found.extend(f([np.ones(3)]))
        found.append(np.array(K.tanh(mx.ones(3))))

    for _ in range(2):
        thread = threading.Thread(target=run)
        thread.start()
        waiting.joined(thread)
    np.testing.assert_allclose(found[2], 2 * found[0])
    np.testing.assert_allclose(found[1], found[0])
    assert K.get_value(v).tolist() == [3, 3, 3]


def test_samples_follow_the_key() -> None:
    def key(*words: int) -> Any:
        return ENGINE.from_numpy(np.array(words, np.uint32))

    sample = ENGINE.table["random_uniform"].function
    for dtype in ("float16", "float32", "float64"):
        keys = [key(1, 0, 0, 0), key(1, 0, 1, 0), key(1, 0, 0, 1), key(2, 0, 0, 0), key(1, 1, 0, 0)]
        drawn = [np.array(sample(k, shape=(1000,), dtype=dtype)) for k in keys]
        np.testing.assert_array_equal(sample(keys[0], shape=(1000,), dtype=dtype), drawn[0])
        for i, a in enumerate(drawn):
            assert a.min() >= 0
            assert a.max() < 1
            assert all((a != b).mean() > 0.9 for b in drawn[:i])
    drawn64 = drawn[0]
    assert len(np.unique(drawn64)) == 1000
    assert (drawn64 != drawn64.astype(np.float32)).mean() > 0.9, "more digits than float32 has"


# --- what MLX does not look at --------------------------------------------------------------------


def test_indices_out_of_range_touch_no_memory() -> None:
    gather, scatter = ENGINE.table["gather"], ENGINE.table["scatter_add"]
    i = mx.array([1, 5, -3, -1])
    found = gather.function([Spec((2,), "float32")], axis=0)(mx.array([1.0, 2.0]), i)
    np.testing.assert_array_equal(np.array(found), [2, np.nan, np.nan, 2])
    added = scatter.function(mx.ones(4), i, shape=(2,), axis=0)
    assert added.tolist() == [0, 2]
    empty = gather.function([Spec((0, 2), "float32")], axis=0)(mx.zeros((0, 2)), i)
    assert empty.shape == (4, 2)
    assert np.isnan(np.array(empty)).all()


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8"])
def test_divisions_of_integers_end_no_process(dtype: str) -> None:
    least = np.iinfo(dtype).min
    x = np.array([7, 7, least, least, 5], dtype)
    y = np.array([0, 2, 0, -1 if least else 1, -1 if least else 1]).astype(dtype)
    for name, oracle in (("floordiv", np.floor_divide), ("mod", np.remainder)):
        lowering = ENGINE.table[name].function([Spec((5,), dtype)] * 2)
        found = np.array(lowering(ENGINE.from_numpy(x), ENGINE.from_numpy(y)))
        with np.errstate(all="ignore"):
            expected = oracle(x, y)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, expected)


def test_products_of_integers_wrap() -> None:
    x = rng.integers(-100, 100, (3, 40)).astype(np.int8)
    y = rng.integers(-100, 100, (40, 2)).astype(np.int8)
    lowering = ENGINE.table["matmul"].function(
        [Spec(x.shape, "int8"), Spec(y.shape, "int8")], transpose_x=False, transpose_y=False
    )
    found = lowering(ENGINE.from_numpy(x), ENGINE.from_numpy(y))
    np.testing.assert_array_equal(np.array(found), x @ y)


def peak(part: Callable[[Any], Any] = lambda block: block, **options: Any) -> int:
    """The bytes by which a training step of 24 layers, four to a block, grows the memory."""
    x = h = K.placeholder((None, 64))
    weights = [K.variable(np.eye(64)) for _ in range(24)]
    for i in range(0, 24, 4):

        def block(h: Any, i: int = i) -> Any:
            for w in weights[i : i + 4]:
                h = K.relu(K.dot(h, w))
            return h

        h = part(block)(h)
    slopes = K.gradients(K.mean(K.square(h)), weights)
    updates = [(w, w - 0.1 * g) for w, g in zip(weights, slopes, strict=True)]
    train = K.function([x], [], updates, **options)
    for _ in range(2):
        mx.clear_cache()
        mx.reset_peak_memory()
        before = mx.get_active_memory()
        train([np.ones((2000, 64), "float32")])
    grown: int = mx.get_peak_memory() - before
    return grown


def test_a_batch_in_parts_takes_the_memory_of_a_part() -> None:
    """No part begins before the one before it is done, although MLX computes lazily."""
    whole = peak()
    # Measured: 25.2 MB, 8.3 MB, 2.7 MB.
    assert peak(accumulate=4) < whole / 2
    assert peak(accumulate=16) < whole / 4


def test_what_is_computed_again_is_not_kept() -> None:
    """The gradients of a block are done before the block before it is computed again."""
    assert peak(K.remat) < peak() * 0.7  # Measured: 12.9 MB and 25.2 MB.


@pytest.mark.parametrize("reverse", [False, True])
def test_float32_sums_up_to_many_elements_keep_their_digits(reverse: bool) -> None:
    """Also those of columns, and of lengths that blocks do not divide. MLX's own were 1 % off."""
    lower = ENGINE.table["cumsum"].function
    ends = lower(mx.full((10**6,), 0.1), axis=0, reverse=reverse)
    np.testing.assert_allclose(np.array(ends)[0 if reverse else -1], 1e5, rtol=1e-5)
    for shape, axis in (((2, 1000, 3), 1), ((128,), 0), ((4, 129), 1)):
        x = np.abs(floats(*shape))
        turned = np.flip(x, axis) if reverse else x
        sums = np.cumsum(turned, axis, "float64")
        expected = np.flip(sums, axis) if reverse else sums
        found = lower(mx.array(x), axis=axis, reverse=reverse)
        np.testing.assert_allclose(np.array(found), expected, rtol=1e-6)


# --- sparse matrices ------------------------------------------------------------------------------


def test_products_of_compressed_rows_in_a_trace() -> None:
    """NumPy cannot compute them there: no values are known."""
    dense = (rng.random((30, 40)) < 0.1) * floats(30, 40)
    rows, columns = np.nonzero(dense)
    offsets = np.concatenate([[0], np.cumsum(np.count_nonzero(dense, 1))])
    whole = [columns, offsets, rows, np.zeros(40)]
    places = [ENGINE.from_numpy(x.astype("int32")) for x in whole]
    values, y = ENGINE.from_numpy(dense[rows, columns]), ENGINE.from_numpy(floats(40, 3))
    specs = [ENGINE.spec_of(x) for x in (values, *places, y)]
    product = ENGINE.table["rows_matmul"].lowering(specs, {})
    for run in (product, mx.compile(product)):
        found = ENGINE.to_numpy(run(values, *places, y))
        np.testing.assert_allclose(found, dense @ ENGINE.to_numpy(y), rtol=1e-5, atol=1e-6)
        with pytest.raises(ValueError):
            mx.eval(run(values, *places, ENGINE.from_numpy(floats(39, 3))))
