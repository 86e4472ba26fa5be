"""The NumPy engine: conversions, floating-point errors, selection by bits, sums, indices, loops."""

from __future__ import annotations

import sys
import threading
from functools import partial
from typing import Any

import ml_dtypes  # noqa: F401 - NumPy knows bfloat16 by it.
import numpy as np
import pytest
from scipy import special

import waiting
from backplane import backend as K
from backplane.compile.program import Request, compiled
from backplane.core.graph import Graph, Placeholder
from backplane.core.registry import PRIMITIVES
from backplane.core.spec import DTYPES, Spec
from backplane.engines.arrays import engine as quieting
from backplane.engines.arrays.elementwise import SMALL, masked, select
from backplane.engines.numpy import ENGINE
from engines import lowerings

lower = partial(lowerings.lower, ENGINE)
rng = np.random.default_rng(0)

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
    with K.engine("numpy"):
        np.testing.assert_array_equal(K.eval(K.mean(K.constant(30 * x), axis=0)), [30, 30])


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
