"""The NumPy engine: conversions, floating-point errors, selection by bits, blocks, generators."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import ml_dtypes  # noqa: F401 - NumPy knows bfloat16 by it.
import numpy as np
import pytest
from scipy import special

import waiting
from backplane import backend as K
from backplane.compile.program import Request, compiled
from backplane.core.atomic import at_once
from backplane.core.graph import Graph, Placeholder
from backplane.core.registry import PRIMITIVES
from backplane.core.spec import DTYPES, HALVES, Spec
from backplane.engines.arrays import convolution, linear, pooling, windows
from backplane.engines.arrays import engine as quieting
from backplane.engines.arrays.elementwise import SMALL, masked, select
from backplane.engines.arrays.fast import updates
from backplane.engines.arrays.random import threefry2x32
from backplane.engines.numpy import ENGINE

rng = np.random.default_rng(0)


def lowering(name: str, *operands: Any, **params: Any) -> Callable[..., Any]:
    """The lowering of a primitive for operands such as these."""
    entry = ENGINE.table[name]
    if not entry.builds:
        return lambda *values: entry.function(*values, **params)
    return entry.function([ENGINE.spec_of(np.asarray(x)) for x in operands], **params)


def lower(name: str, *operands: Any, **params: Any) -> Any:
    """The value of a primitive, as a compiled program computes it."""
    function = lowering(name, *operands, **params)
    return quieting.without_warnings(lambda *values: (function(*values),))(*operands)[0]


def key(*words: int) -> np.ndarray:
    return np.array(words, np.uint32)


# --- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_conversions_keep_dtype_and_content(dtype: str) -> None:
    array = np.arange(6).reshape(2, 3).astype(dtype)
    value = ENGINE.from_numpy(array)
    assert ENGINE.owns(value)
    assert ENGINE.spec_of(value) == Spec((2, 3), dtype)
    np.testing.assert_array_equal(ENGINE.to_numpy(value), array)
    assert ENGINE.spec_of(array[1, 1]) == Spec((), dtype)


@pytest.mark.parametrize("dtype", [">f4", ">i8", "<u2"])
def test_arrays_of_another_byte_order_become_native(dtype: str) -> None:
    value = ENGINE.from_numpy(np.arange(3).astype(dtype))
    assert value.dtype.isnative
    np.testing.assert_array_equal(value, [0, 1, 2])


def test_only_to_numpy_copies() -> None:
    array = np.zeros(3)
    assert ENGINE.from_numpy(array) is ENGINE.feed(array) is array
    assert ENGINE.fetching(Spec((3,), "float64")) is None
    assert not np.shares_memory(ENGINE.to_numpy(array), array)


def test_scalars_are_fetched_as_arrays() -> None:
    fetched = ENGINE.fetching(Spec((), "float32"))(np.float32(2))
    assert type(fetched) is np.ndarray
    assert fetched.shape == ()
    assert ENGINE.owns(np.float32(2))


def test_every_primitive_has_a_lowering_or_a_decomposition() -> None:
    import backplane.ops  # noqa: F401  (declares them)

    table = ENGINE.table
    assert not set(table) - set(PRIMITIVES)
    missing = set(PRIMITIVES) - set(table)
    assert [name for name in missing if PRIMITIVES[name].decomposition is None] == []


def test_neither_other_engines_nor_generators_are_imported() -> None:
    code = """if True:
        import sys
        import numpy

        before = set(sys.modules)
        import backplane.engines.numpy

        others = {"torch", "jax", "tensorflow", "pytensor", "onnxruntime", "scipy"}
        assert not others & set(sys.modules)
        assert "numpy.random" not in set(sys.modules) - before
        """
    waiting.run([sys.executable, "-c", code], check=True)


# --- floating-point errors ------------------------------------------------------------------------


def failing(x: Any) -> tuple[Any, ...]:
    return (1 / x, np.log(x - 1))


@pytest.fixture(params=["context variable", "decorator"])
def quiet(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """`without_warnings` on NumPy 2, and on 1, where the error state is no context variable."""
    if request.param == "decorator":
        monkeypatch.setattr(quieting, "SILENCE", quieting.silence([]))
    return quieting.without_warnings


def test_programs_are_silent_whatever_the_user_has_set(quiet: Any) -> None:
    with np.errstate(all="raise"):
        inverse, logarithm = quiet(failing)(np.zeros(2))
        assert np.geterr()["divide"] == "raise"
    assert np.isinf(inverse).all()
    assert np.isnan(logarithm).all()


def test_the_error_state_is_restored_after_an_error(quiet: Any) -> None:
    before = np.geterr()

    def broken() -> tuple[Any, ...]:
        raise KeyError("inside")

    with pytest.raises(KeyError, match="inside"):
        quiet(broken)()
    assert np.geterr() == before


def test_programs_may_run_inside_each_other_and_in_threads(quiet: Any) -> None:
    inner = quiet(failing)
    outer = quiet(lambda x: (inner(x), failing(x)))
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(outer(np.zeros(2)))) for _ in range(4)]
    for thread in threads:
        thread.start()
    waiting.joined(*threads)
    assert len(found) == 4


def test_compiled_and_eager_programs_are_silent() -> None:
    x = Placeholder(Spec((2,), "float64"))
    y = PRIMITIVES["log"](x)
    for eager in (False, True):
        function, *_ = compiled(Request(ENGINE, [x], [y], eager=eager))
        with np.errstate(all="raise"):
            assert np.isinf(function(np.zeros(2))[0]).all()
            assert np.geterr()["divide"] == "raise"


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(10,), (1, 10), ()])
def test_sigmoid_and_softplus_at_extremes(dtype: str, shape: tuple[int, ...]) -> None:
    far = np.array([-np.inf, -1e4, -100, -20, 0, 20, 100, 1e4, np.inf, np.nan])
    inputs = [far.reshape(shape)] if shape else list(far)
    tolerance = {"float16": (1e-3, 1e-7), "float32": (2e-6, 1e-38), "float64": (1e-14, 1e-300)}
    rtol, atol = tolerance[dtype]
    for given in inputs:
        x = np.asarray(given, dtype)
        exact = x.astype("float64")
        with np.errstate(invalid="ignore"):
            softplus = np.maximum(exact, 0) + np.log1p(np.exp(-np.abs(exact)))
        for name, expected in (("sigmoid", special.expit(exact)), ("softplus", softplus)):
            operand = Placeholder(Spec(x.shape, dtype))
            function, *_ = compiled(Request(ENGINE, [operand], [PRIMITIVES[name](operand)]))
            (result,) = function(x)
            assert result.dtype == dtype
            np.testing.assert_allclose(result, expected.astype(dtype), rtol=rtol, atol=atol)


def test_erfinv_is_exact_to_the_ends() -> None:
    near_one = 1 - np.logspace(-16, -1, 500)
    x = np.concatenate(
        [np.linspace(-0.999, 0.999, 999), near_one, -near_one, np.logspace(-300, -1)]
    )
    np.testing.assert_allclose(lower("erfinv", x), special.erfinv(x), rtol=1e-14)
    single = x[np.abs(x) > 1e-30].astype("float32")
    single = single[np.abs(single) < 1]
    expected = special.erfinv(single.astype("float64"))
    np.testing.assert_allclose(lower("erfinv", single), expected, rtol=1e-6)
    ends = lower("erfinv", np.array([-1.0, 0.0, 1.0, 1.5, np.nan]))
    np.testing.assert_array_equal(ends, [-np.inf, 0, np.inf, np.nan, np.nan])


# --- selection by bits ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int16", "float16", "float32", "int64", "float64"]
)
@pytest.mark.parametrize("size", [7, 2 * SMALL])
def test_masked_and_select_are_where(dtype: str, size: int) -> None:
    mask = rng.random(size) > 0.5
    x, y = (rng.integers(0, 2, size).astype(dtype) for _ in range(2))
    for result, expected in (
        (masked(mask, x), np.where(mask, x, np.zeros((), dtype))),
        (masked(mask[:, None], x[:3]), np.where(mask[:, None], x[:3], np.zeros((), dtype))),
        (select(mask, x, y), np.where(mask, x, y)),
        (select(mask, x[0], y), np.where(mask, x[0], y)),
        (select(mask[:, None], x[:3], y[:1]), np.where(mask[:, None], x[:3], y[:1])),
        (select(mask, np.zeros((), dtype), np.ones((), dtype)), (~mask).astype(dtype)),
    ):
        assert result.dtype == dtype
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("size", [7, 2 * SMALL])
def test_masked_out_infinities_are_zeros(size: int) -> None:
    mask = rng.random(size) > 0.5
    for value in (np.inf, np.nan):
        x = np.full(size, value, "float32")
        expected = np.where(mask, x, 0)
        np.testing.assert_array_equal(masked(mask, x), expected)
        y = mask.astype("float32")
        np.testing.assert_array_equal(lower("mul_no_nan", x, y), expected)
        np.testing.assert_array_equal(lower("relu_grad", x, y), expected)


# --- products and sums ----------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(6, 8), (5, 6, 8)])
def test_products_of_arrays_that_blas_cannot_read(shape: tuple[int, ...]) -> None:
    y = rng.standard_normal((*shape[:-2], 8, 3)).astype("float32")
    whole = rng.standard_normal((*shape[:-1], 16)).astype("float32")
    views = (np.broadcast_to(np.float32(2), shape), whole[..., ::2], whole[..., 7::-1])
    for x in (*views, np.broadcast_to(whole[..., :1], shape)):
        result = lower("matmul", x, y, transpose_x=False, transpose_y=False)
        np.testing.assert_allclose(result, x.astype("float64") @ y, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "uint8"])
@pytest.mark.parametrize("axes", [(0,), (0, 1), (2,), (1, 2), (1,), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("shape", [(3, 4, 5), (0, 4, 5), (3, 4, 0)])
def test_sums_over_any_axes(dtype: str, axes: tuple[int, ...], shape: tuple[int, ...]) -> None:
    x = rng.integers(0, 9, shape).astype(dtype)
    for keepdims in (False, True):
        result = lower("sum", x, axes=axes, keepdims=keepdims)
        assert result.dtype == dtype
        np.testing.assert_array_equal(result, x.sum(axes, dtype, keepdims=keepdims))


def test_sums_of_float16_do_not_stop_at_2048() -> None:
    x = np.ones((3000, 2), "float16")
    np.testing.assert_array_equal(lower("sum", x, axes=(0,), keepdims=False), [3000, 3000])
    np.testing.assert_array_equal(lower("mean", 30 * x, axes=(0,), keepdims=False), [30, 30])


# --- indexing -------------------------------------------------------------------------------------


def test_sizes_may_be_python_ints() -> None:
    np.testing.assert_array_equal(lower("reshape", 5, shape=(1,)), [5])
    np.testing.assert_array_equal(lower("expand_dims", 5, axes=(0,)), [5])
    np.testing.assert_array_equal(lower("broadcast_to", 5, 2, shape=(None,)), [5, 5])
    assert lower("cast", 5, dtype="int32").dtype == "int32"


@pytest.mark.parametrize("dtype", ["int32", "uint8", "uint64"])
def test_gather_and_scatter_add(dtype: str) -> None:
    indices = np.array([[2, 0], [2, 2]]).astype(dtype)
    x = rng.standard_normal((2, 3, 4))
    taken = lower("gather", x, indices, axis=1)
    np.testing.assert_array_equal(taken, x[:, indices.astype(int)])
    added = lower("scatter_add", np.ones_like(taken), indices, 3, shape=(2, None, 4), axis=1)
    np.testing.assert_array_equal(added, np.broadcast_to([[[1.0], [0], [3]]], (2, 3, 4)))


def test_head_is_cut_at_a_computed_length() -> None:
    x = rng.standard_normal((2, 5))
    for length in (0, 3, 5):
        for given in (length, np.int32(length), np.array(length)):
            np.testing.assert_array_equal(lower("head", x, given, axis=1), x[:, :length])


def test_scatter_add_counts_from_the_end_and_checks_bounds() -> None:
    ones = np.ones(2, "float16")
    added = lower("scatter_add", ones, np.array([-1, 2]), shape=(3,), axis=0)
    np.testing.assert_array_equal(added, [0, 0, 2])
    assert added.dtype == "float16"
    with pytest.raises(IndexError):
        lower("scatter_add", ones, np.array([0, 3]), shape=(3,), axis=0)
    empty = lower("scatter_add", ones[:0], np.zeros(0, int), shape=(3,), axis=0)
    np.testing.assert_array_equal(empty, [0, 0, 0])


# --- windows --------------------------------------------------------------------------------------


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("cache", [1, 1000])
def test_blocks_do_not_change_convolutions(
    groups: int, cache: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = rng.standard_normal((3, 7, 6, 4))
    kernel = rng.standard_normal((3, 2, 4 // groups, 8))
    params: dict[str, Any] = {
        "strides": (2, 1), "padding": "same", "dilation": (1, 1), "groups": groups,
    }  # fmt: skip

    def all_three() -> list[np.ndarray]:
        y = lower("conv", x, kernel, **params)
        by_x = lower("conv_input_grad", y, kernel, shape=x.shape, **params)
        return [y, by_x, lower("conv_kernel_grad", x, y, kernel_shape=kernel.shape, **params)]

    whole = all_three()
    monkeypatch.setattr(windows, "CACHE", cache)
    for expected, result in zip(whole, all_three(), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("cache", [1, 1 << 19])
@pytest.mark.parametrize(
    ("sizes", "window", "strides", "padding", "dilation"),
    [
        ((5, 13), (3, 3), (1, 1), "same", (1, 1)),
        ((9, 26), (2, 4), (2, 1), "valid", (3, 1)),
        ((4, 26), (1, 3), (1, 1), ((0, 0), (2, 1)), (1, 2)),
        ((4, 5, 12), (2, 2, 2), (1, 2, 1), "same", (1, 1, 1)),
    ],
)
def test_both_forms_of_the_gradient_by_the_input_agree(
    cache: int, sizes: Any, window: Any, strides: Any, padding: Any, dilation: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(windows, "CACHE", cache)
    over = windows.Windows.of(sizes, window, strides, padding, dilation)
    g = rng.standard_normal((3, *over.counts, 4))
    kernel = rng.standard_normal((*window, 2, 4))
    by_taps, by_columns = (rng.standard_normal((3, *over.padded, 2)) for _ in range(2))
    by_columns[...] = by_taps
    convolution._add_by_taps(by_taps, g, kernel, over)
    convolution._add_by_columns(by_columns, g, kernel, over)
    np.testing.assert_allclose(by_columns, by_taps, rtol=1e-12, atol=1e-12)


def test_windows_over_one_channel_and_over_more_agree() -> None:
    """A second channel of zeros changes nothing."""
    x, kernel = rng.standard_normal((3, 7, 6, 1)), rng.standard_normal((3, 2, 1, 5))
    params: dict[str, Any] = {"strides": (2, 1), "padding": "same", "dilation": (1, 2), "groups": 1}
    wide = np.concatenate([kernel, np.zeros_like(kernel)], -2)
    deep = np.concatenate([x, np.zeros_like(x)], -1)
    y = lower("conv", x, kernel, **params)
    np.testing.assert_allclose(y, lower("conv", deep, wide, **params), rtol=1e-12, atol=1e-12)
    one = lower("conv_kernel_grad", x, y, kernel_shape=kernel.shape, **params)
    two = lower("conv_kernel_grad", deep, y, kernel_shape=wide.shape, **params)
    np.testing.assert_allclose(one, two[:, :, :1], rtol=1e-12, atol=1e-12)


def test_the_maximum_of_minus_infinities_is_no_padding() -> None:
    pool: dict[str, Any] = {"pool": (2,), "strides": (2,), "padding": ((1, 1),)}
    x = np.full((1, 2, 1), -np.inf)
    y, positions = lower("max_pool", x, **pool)
    np.testing.assert_array_equal(y, x)
    gradient = lower("max_pool_grad", np.ones_like(y), x, y, positions, **pool)
    np.testing.assert_array_equal(gradient, np.ones_like(x))


def test_large_windows_have_wide_positions() -> None:
    x = np.zeros((1, 300, 1))
    x[0, 299] = 1
    pool: dict[str, Any] = {"pool": (300,), "strides": (1,), "padding": "valid"}
    y, positions = lower("max_pool", x, **pool)
    gradient = lower("max_pool_grad", np.ones_like(y), x, y, positions, **pool)
    np.testing.assert_array_equal(gradient, x)


# --- random numbers -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "block", "expected"),
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2, (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_threefry_known_answers(words: Any, block: Any, expected: Any) -> None:
    """From `kat_vectors` of Random123."""
    x, y = threefry2x32((key(words[0]), key(words[1])), key(block[0]), key(block[1]))
    assert (x.tolist(), y.tolist()) == ([expected[0]], [expected[1]])


@pytest.mark.parametrize("shape", [(), (1,), (5,), (2, 3), (0, 3)])
def test_random_bits_are_two_blocks_of_words(shape: tuple[int, ...]) -> None:
    subkey = threefry2x32((key(1), key(2)), key(3), key(4))
    half = (int(np.prod(shape)) + 1) // 2
    blocks = threefry2x32(subkey, np.arange(half, dtype=np.uint32), np.zeros(half, np.uint32))
    expected = np.concatenate(blocks)[: int(np.prod(shape))].reshape(shape)
    bits = lower("random_bits", key(1, 2, 3, 4), shape=shape)
    assert bits.dtype == "uint32"
    np.testing.assert_array_equal(bits, expected)


@pytest.mark.parametrize("name", ["random_uniform", "random_normal"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_samples_are_philox_keyed_by_all_words(name: str, dtype: str) -> None:
    def draw(*words: int) -> np.ndarray:
        result: np.ndarray = lower(name, key(*words), 4, shape=(None, 3), dtype=dtype)
        return result

    first = draw(1, 2, 3, 4)
    assert (first.shape, first.dtype) == ((4, 3), np.dtype(dtype))
    np.testing.assert_array_equal(first, draw(1, 2, 3, 4))
    for other in ((9, 2, 3, 4), (1, 9, 3, 4), (1, 2, 9, 4), (1, 2, 3, 9)):
        assert (draw(*other) != first).any()
    if name == "random_uniform" and dtype == "float64":
        philox = np.random.Philox(key=np.array([1 | 2 << 32, 3 | 4 << 32], np.uint64))
        np.testing.assert_array_equal(first, np.random.Generator(philox).random((4, 3)))


@pytest.mark.parametrize("dtype", HALVES)
def test_uniform_halves_stay_below_one(dtype: str) -> None:
    samples = lower("random_uniform", key(1, 2, 3, 4), shape=(100_000,), dtype=dtype)
    assert samples.min() >= 0
    assert samples.max() < 1
    assert abs(samples.mean(dtype="float64") - 0.5) < 0.01


# --- loops ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [0, 1, 4])
@pytest.mark.parametrize("reverse", [False, True])
def test_scan_over_unknown_sizes(steps: int, reverse: bool) -> None:
    add, mul = PRIMITIVES["add"], PRIMITIVES["mul"]
    state, x, factor = (Placeholder(Spec(s, "float64")) for s in ((None,), (None,), ()))
    following = add(mul(state, factor), x)
    body = Graph([state, x, factor], [following, mul(following, x)])
    xs = rng.standard_normal((steps, 3))
    final, ys = lower(
        "scan", np.zeros(3), xs, np.float64(2),
        body=body, carry=1, xs=1, reverse=reverse, length=None,
    )  # fmt: skip
    expected, stacked = np.zeros(3), np.empty((steps, 3))
    for t in range(steps)[:: -1 if reverse else 1]:
        expected = expected * 2 + xs[t]
        stacked[t] = expected * xs[t]
    np.testing.assert_allclose(final, expected)
    np.testing.assert_allclose(ys, stacked)
    assert ys.shape == (steps, 3)


# --- steps of optimizers --------------------------------------------------------------------------


def done(later: Any) -> Any:
    """The arrays of a step, after the calls that write them."""
    found, calls = later
    ENGINE.commit(calls)
    return found


def test_steps_write_over_their_own_arrays_only() -> None:
    given = [np.ones((300, 300), "float32") for _ in range(4)]
    numbers = [np.float32(x) for x in (0.1, 0.9, 0.99, 1e-3)]
    first = done(updates.adam_update(*numbers, *given))
    assert all((x == 1).all() for x in given)
    assert not any(np.shares_memory(x, y) for x in first for y in given)
    lent = ENGINE.lend(first[0])
    second = done(updates.adam_update(*numbers, *first, given[3]))
    assert all(x is y for x, y in zip(first, second, strict=True))
    assert not np.shares_memory(lent, first[0])
    assert ENGINE.lend(given[0]) is given[0]
    assert not np.shares_memory(ENGINE.lend(first[0][1:]), first[0])


def test_a_step_over_several_blocks_and_orders_of_memory() -> None:
    shape = (3, updates.BLOCK // 2 + 1)
    p, m, g = rng.random(shape), rng.random(shape), rng.random(shape[::-1]).T
    for nesterov in (False, True):
        new_p, new_m = done(updates.momentum_update(0.9, -0.1, 0.5, p, m, g, nesterov=nesterov))
        expected = 0.9 * m - 0.1 * g
        np.testing.assert_allclose(new_m, expected, rtol=1e-12, atol=1e-14)
        moved = p + 0.5 * expected - (0.1 * g if nesterov else 0)
        np.testing.assert_allclose(new_p, moved, rtol=1e-12, atol=1e-14)
    (new_p,) = done(updates.gradient_update(-0.1, p, g))
    np.testing.assert_allclose(new_p, p - 0.1 * g, rtol=1e-12, atol=1e-14)


def test_nothing_comes_between_the_writes_of_a_step() -> None:
    x = np.zeros(4)
    seen: list[Any] = []
    tracer = sys.gettrace()
    sys.settrace(lambda frame, *_: seen.append(frame.f_code.co_name))
    try:
        at_once([(np.add, x, 1, x)] * 100)
    finally:
        sys.settrace(tracer)
    assert (x == 100).all()
    assert seen == ["at_once"]


@pytest.mark.parametrize(("strides", "padding"), [((2, 2), "valid"), ((1, 2), "same")])
def test_pooling_in_blocks_of_samples(
    strides: tuple[int, ...], padding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, v = rng.integers(0, 4, (7, 6, 6, 3)) * 1.0, rng.random((7, 6, 6, 3))
    params = {"pool": (2, 2), "strides": strides, "padding": padding}
    found = []
    for cache in (1 << 30, 1):
        monkeypatch.setattr(pooling, "CACHE", cache)
        y, positions = ENGINE.table["max_pool"].function(x, **params)
        g = np.cos(np.arange(y.size)).reshape(y.shape)
        back = ENGINE.table["max_pool_grad"].function(g, x, None, positions, **params)
        taken = ENGINE.table["max_pool_take"].function(v, None, None, positions, **params)
        np.testing.assert_allclose((back * v).sum(), (g * taken).sum(), rtol=1e-12)
        found.append([y, positions, back, taken])
    for whole, blocked in zip(*found, strict=True):
        np.testing.assert_array_equal(whole, blocked)


# --- accuracy -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("shape", "axis"), [((10**6,), 0), ((3, 5001), 1), ((4097, 3), 0)])
@pytest.mark.parametrize("reverse", [False, True])
def test_long_sums_are_accurate(shape: tuple[int, ...], axis: int, reverse: bool) -> None:
    x = np.full(shape, 0.1, np.float32)
    wide = x.astype(np.float64)
    expected = np.cumsum(np.flip(wide, axis) if reverse else wide, axis)
    y = lower("cumsum", x, axis=axis, reverse=reverse)
    assert y.dtype == np.float32
    np.testing.assert_allclose(np.flip(y, axis) if reverse else y, expected, rtol=1e-5)


def test_long_sums_keep_infinities_in_their_places() -> None:
    x = np.zeros(5000, np.float32)
    x[4000] = np.inf
    y = lower("cumsum", x, axis=0, reverse=False)
    assert not y[:4000].any()
    assert (y[4000:] == np.inf).all()


def test_whole_quotients_of_infinity() -> None:
    x, y = np.array([-0.5, 0.5], np.float32), np.array([np.inf, np.inf], np.float32)
    np.testing.assert_array_equal(lower("floordiv", x, y), [-1, 0])


def test_the_gradient_of_a_start_that_the_first_step_makes_larger() -> None:
    x, start = K.placeholder((None, 3)), K.placeholder((None, 3))
    last = K.foldl(lambda state, row: state + row * K.ones_like(x), x, start)
    (slope,) = K.gradients(K.sum(last), [start])
    with K.engine("numpy"):
        found = K.function([x, start], [slope])([np.ones((4, 3)), np.ones((1, 3))])
    assert found[0].tolist() == [[4, 4, 4]]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
def test_products_of_compressed_rows_without_scipy(dtype: str) -> None:
    dense = (rng.random((50, 200)) < 0.1) * rng.integers(1, 9, (50, 200))
    dense[3] = rng.integers(1, 9, 200)  # a long row
    dense[[0, 7, 49]] = 0
    dense = dense.astype(dtype)
    rows, columns = np.nonzero(dense)
    offsets = np.concatenate([[0], np.cumsum(np.count_nonzero(dense, 1))])
    places = [columns.astype("int32"), offsets.astype("int32"), rows, np.zeros(200, "int8")]
    for y in (rng.integers(0, 9, (200, 3)).astype(dtype), np.ones((200, 0), dtype)):
        found = linear._by_lengths(dense[rows, columns], *places, y)
        np.testing.assert_array_equal(found, dense @ y, strict=True)
    none = np.zeros(0, "int32"), np.zeros(1, "int32"), np.zeros(0, "int32"), np.zeros(2, "int8")
    assert linear._by_lengths(np.zeros(0, dtype), *none, np.ones((2, 3), dtype)).shape == (0, 3)
    with pytest.raises(ValueError, match="200 columns"):
        linear._by_lengths(dense[rows, columns], *places, np.ones((199, 3), dtype))


def test_the_layout_of_compressed_rows_goes_with_the_matrix() -> None:
    y = rng.random((6, 2))
    before = len(linear._layouts)
    for count in (2, 3, 1):  # New arrays may be where those of the last matrix were.
        columns = np.arange(count, dtype="int32")
        offsets = np.array([0, 0, count], "int32")
        rows, across = np.ones(count, "int32"), np.zeros(6, "int8")
        for factor in (1.0, 2.0):
            values = np.full(count, factor)
            found = linear._by_lengths(values, columns, offsets, rows, across, y)
            np.testing.assert_allclose(found, [[0, 0], factor * y[:count].sum(0)])
            assert len(linear._layouts) == before + 1
        del columns, offsets
        assert len(linear._layouts) == before
