"""NumPy's functions on K's tensors are those of K, on every engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from backplane import backend as K

X = np.random.default_rng(0).uniform(0.3, 0.9, (2, 3, 4)).astype("float32")
A = X[::-1].copy()
M = np.random.default_rng(1).uniform(0.3, 0.9, (4, 5)).astype("float32")

SMOOTH = """
np.exp(x); np.log(x); np.sqrt(x); np.square(x); np.sin(x); np.cos(x); np.fabs(x); np.tanh(x)
np.positive(x); np.conjugate(x); np.reciprocal(x); np.expm1(x); np.log1p(x); np.log2(x)
np.log10(x); np.exp2(x); np.tan(x); np.sinh(x); np.cosh(x); np.arctanh(x); np.deg2rad(x)
np.radians(x); np.degrees(x); np.rad2deg(x); np.nan_to_num(x)
np.add(x, a); np.subtract(a, x); np.multiply(x, 2.0); np.divide(x, 3); np.remainder(x * 9, 2)
np.power(x, 3); np.power(x, 1.5); np.absolute(x); np.negative(x); np.maximum(x, 0.1)
np.minimum(2, x); np.logaddexp(x, a); np.logaddexp(x, 1); np.logaddexp(v, x); np.hypot(x, a)
np.hypot(v, x); np.matmul(x, m); np.abs(x)
np.clip(x, 0.1, 2.0); np.clip(x, None, 2.0); np.clip(x, a_min=0.1, a_max=None)
np.where(a > 0.5, x, 0.0); np.where(x > 0.5, x, a)
np.sum(x); np.sum(x, axis=1); np.sum(x, (0, 2), keepdims=True); np.mean(x, axis=-1)
np.mean(x, dtype="float32"); np.prod(x, 0); np.max(x, axis=1); np.amax(x); np.amin(x, 1)
np.min(x, 2, None, True); np.var(x, axis=0); np.std(x); np.std(x, axis=1, ddof=1)
np.var(x, ddof=1, axis=(0, 1), keepdims=True); np.cumsum(x, axis=1); np.cumsum(x)
np.cumprod(x, -1); np.ptp(x, axis=0); np.average(x, axis=1)
np.average(x, axis=1, weights=np.array([1, 2, 3], "float32"))
np.linalg.norm(x); np.linalg.norm(x, axis=1); np.linalg.norm(x, ord=1, axis=-1, keepdims=True)
np.linalg.norm(x, np.inf, 2); np.linalg.norm(x, 3, 2)
np.dot(x, m); np.dot(x, np.float32(2)); np.dot(v, m); np.dot(v, v)
np.inner(x, v); np.inner(v, x); np.vdot(x, x); np.outer(v, v); np.tensordot(x, m, 1)
np.tensordot(x, x, axes=([0, 2], [0, 2])); np.tensordot(x, x, 3)
np.einsum("bij,jk->bik", x, m); np.einsum("...i->...", x); np.einsum("i,i", v, v, optimize=True)
np.sort(x); np.sort(x, axis=1); np.sort(x, None); np.sort(x, 0, kind="stable")
np.arctan(x); np.arcsin(x); np.arccos(x); np.arctan2(x, a); np.arctan2(1.0, x)
np.arcsinh(x); np.arccosh(x + 1); np.cbrt(x); np.logaddexp2(x, a)
np.reshape(x, (2, 12)); np.reshape(x, -1); np.ravel(x); np.transpose(x)
np.transpose(x, (0, 2, 1)); np.moveaxis(x, 0, -1); np.moveaxis(x, [0, 1], [1, 0])
np.swapaxes(x, 1, 2); np.expand_dims(x, 0); np.expand_dims(x, (0, -1))
np.squeeze(x[:1, :1], (0, 1)); np.broadcast_to(x, (5, 2, 3, 4))
np.flip(x); np.flip(x, 1); np.flipud(x); np.fliplr(x); np.roll(x, 1, axis=1); np.roll(x, -5)
np.roll(x, (1, 2), (0, 2)); np.tile(x, 2); np.tile(x, (2, 1, 1, 2)); np.repeat(x, 2, axis=1)
np.repeat(x, 2); np.concatenate([x, x]); np.concatenate([x, a], axis=-1)
np.concatenate((x, a), None); np.stack([x, x], axis=1); np.vstack([v, v]); np.hstack([v, v])
np.hstack([x, x]); np.dstack([v, v]); np.dstack([x, x]); np.column_stack([v, v])
np.append(v, v); np.append(x, x, axis=0); np.split(x, 3, axis=1)[1]
np.array_split(x, 3, axis=2)[0]; np.split(x, [1], axis=2)[1]; np.take(x, [0, 2], axis=1)
np.take(x, 1, axis=-1); np.take(x, [3, 7]); np.diff(x); np.diff(x, 2, axis=-1)
np.diff(x, axis=1); np.pad(x, 1); np.pad(x, ((0, 0), (1, 2), (0, 1)), constant_values=2.0)
np.copy(x); np.atleast_1d(x); np.atleast_2d(v)
np.add.reduce(x); np.add.reduce(x, axis=1); np.maximum.reduce(x, axis=2, keepdims=True)
np.multiply.reduce(x, 0); np.add.accumulate(x, axis=1); np.multiply.accumulate(x)
np.multiply.outer(v, v); np.add.outer(x, v); np.maximum.outer(v, x)
"""
STEPS = """
np.sign(x - 0.5); np.rint(x * 9); np.floor(x * 9); np.ceil(x * 9); np.trunc(x * 9 - 4)
np.round(x, 2); np.around(x * 100); np.fix(x * 9 - 4); np.floor_divide(x * 9, 2)
np.isnan(x); np.isinf(x); np.isfinite(x); np.logical_not(x > 0.5); np.equal(x, x)
np.not_equal(x, a); np.equal(x, a); np.greater(x, 0.5); np.less_equal(a, x)
np.logical_and(x > 0.5, x < 0.7); np.logical_or(x > 0.8, x < 0.4)
np.logical_xor(x > 0.5, x < 0.7); np.any(x > 0.8, axis=1); np.all(x > 0.3)
np.logical_and.reduce(x > 0.4, axis=1); np.argmax(x, axis=-1); np.argmin(x)
np.argsort(x, axis=1); np.argsort(x, None, stable=True)
np.argmax(x, 1, keepdims=True); np.count_nonzero(x > 0.5, axis=1); np.sum(x > 0.5)
np.zeros_like(x); np.ones_like(x, dtype="int32"); np.full_like(x, 3.0)
"""
if np.lib.NumpyVersion(np.__version__) >= "2.1.0":
    SMOOTH += """
np.matrix_transpose(x); np.vecdot(x, a); np.vecdot(x, a, axis=1); np.cumulative_sum(x, axis=1)
np.cumulative_prod(v)
"""
    STEPS += """
np.astype(x * 9, "int32")
"""


def calls(text: str) -> list[str]:
    return [call.strip() for call in text.replace("\n", ";").split(";") if call.strip()]


def result(call: str, x: Any, m: Any) -> Any:
    return eval(call, {"np": np, "x": x, "v": x[0, 0], "a": A, "m": m})


@pytest.mark.parametrize("shape", [(None, 3, 4), (None, None, None)])
def test_values_and_gradients(engine, shape):
    x, m = K.placeholder(shape), K.constant(M)
    unsized = None in shape[1:]
    chosen = [c for c in calls(SMOOTH) + calls(STEPS) if not (unsized and "split(x, 3" in c)]
    found = [result(c, x, m) for c in chosen]
    values = K.function([x], found)([X])
    for call, tensor, value in zip(chosen, found, values, strict=True):
        wanted = np.asarray(result(call, X, M))
        assert value.shape == wanted.shape, call
        assert value.dtype == tensor.dtype, call
        assert value.dtype.kind == wanted.dtype.kind, call
        assert value.dtype != np.float64, call
        np.testing.assert_allclose(value, wanted, rtol=2e-5, atol=1e-5, err_msg=call)
    for call, tensor in zip(chosen, found, strict=True):
        if call in calls(SMOOTH):
            assert K.gradients(K.sum(tensor), [x])[0] is not None, call


FAR = np.array([88.9, -88.9, 1e-7, -1e-7, 0.0, 3e25, -3e25, np.inf, -np.inf, np.nan], "float32")


@pytest.mark.parametrize(
    "call", calls("np.sinh(x); np.cosh(x); np.arcsinh(x); np.cbrt(x); np.hypot(x, 1e-30)"
                  "; np.hypot(x, x); np.hypot(x, np.inf); np.logaddexp(x, x)"
                  "; np.logaddexp2(x, 1); np.isfinite(x)"),
)  # fmt: skip
def test_far_values(engine, call):
    """What is finite does not become infinite on the way, nor small numbers 0."""
    x = K.placeholder((None,))
    with np.errstate(all="ignore"):
        wanted = np.asarray(result(call, FAR[:, None, None], None)).ravel()
    found = K.function([x], [result(call, x[:, None, None], None)])([FAR])[0].ravel()
    np.testing.assert_allclose(found, wanted, rtol=2e-6)


@pytest.mark.parametrize("decimals", [-2, -1, 0, 2])
def test_rounded_integers_stay_integers(engine, decimals):
    """As in NumPy. float32 would not hold the last of them."""
    numbers = np.array([14, 25, -35, 149, 123_456_785], "int32")
    x = K.placeholder((None,), dtype="int32")
    rounded = np.round(x, decimals)
    assert rounded.dtype == "int32"
    wanted = np.round(numbers, decimals)
    np.testing.assert_array_equal(K.function([x], [rounded])([numbers])[0], wanted)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32"])
def test_shifts_by_all_bits_and_more(engine, dtype):
    numbers = np.array([[1], [-3], [77]]).astype(dtype)
    places = np.array([0, 7, 8, 31, 32, 40], dtype)
    x, y = K.placeholder(shape=(3, None), dtype=dtype), K.placeholder(shape=(6,), dtype=dtype)
    for shift in (np.left_shift, np.right_shift):
        found, by_number = K.function([x, y], [shift(x, y), shift(x, 33)])([numbers, places])
        np.testing.assert_array_equal(found, shift(numbers, places))
        np.testing.assert_array_equal(by_number, shift(numbers, np.array(33, dtype)))


def test_a_program_trains(engine):
    """A model in functions of NumPy alone, with gradients through all of them."""
    x, w, b = K.placeholder((None, 4)), K.variable(M), K.variable(np.zeros(5))
    hidden = np.maximum(np.dot(x, w) + b, 0)
    joined = np.concatenate([hidden, np.square(hidden)], axis=1)
    loss = np.mean(np.where(joined > 1, joined, np.clip(joined, 0, 0.8)))
    slopes = K.gradients(loss, [w, b])
    own = K.relu(K.dot(x, w) + b)
    joined = K.concatenate([own, K.square(own)])
    same = K.gradients(K.mean(K.switch(joined > 1, joined, K.clip(joined, 0, 0.8))), [w, b])
    found = K.function([x], [*slopes, *same])([X[0]])
    for ours, theirs in zip(found[2:], found[:2], strict=True):
        assert theirs.any()
        np.testing.assert_allclose(theirs, ours, rtol=1e-6)


def test_functions_of_scipy_that_k_has(engine):
    special = pytest.importorskip("scipy.special")
    x = K.placeholder((None, 3, 4))
    functions = [special.expit, special.erf, special.erfinv, special.logit]
    found = K.function([x], [f(x) for f in functions])([X])
    for f, value in zip(functions, found, strict=True):
        assert value.dtype == "float32"
        np.testing.assert_allclose(value, f(X), rtol=1e-4, atol=1e-5)
    with pytest.raises(TypeError, match=r"^gamma takes no symbolic tensors: use the functions"):
        special.gamma(x)


def test_what_is_known_of_shapes(engine):
    x = K.placeholder((None, 3))
    assert np.shape(x) == (None, 3)
    assert np.ndim(x) == 2
    assert np.size(x, 1) == 3
    assert np.size(K.ones((2, 3))) == 6
    assert K.function([x], [np.size(x)])([np.ones((4, 3))]) == [12]
    assert np.isrealobj(x)
    assert not np.iscomplexobj(x)


def test_what_k_lacks_is_refused_alike(engine):
    x = K.placeholder((2, 3))
    for call, name in {
        lambda: np.unique(x): "np.unique",
        lambda: np.spacing(x): "np.spacing",
        lambda: np.median(x): "np.median",
        lambda: np.linalg.inv(x): "np.linalg.inv",
        lambda: np.partition(x, 1): "np.partition",
        lambda: np.add.at(x, [0], 1): r"np.add.at",
        lambda: np.subtract.reduce(x): r"np.subtract.reduce",
    }.items():  # fmt: skip
        with pytest.raises(
            TypeError,
            match=rf"^{name} takes no symbolic tensors: use the functions of K, .*K\.native",
        ):
            call()
    for call, start in {
        lambda: np.sum(x, where=[True]): r"np\.sum with where .*use K\.sum",
        lambda: np.max(x, initial=3): r"np\.max with initial .*use K\.max",
        lambda: np.exp(x, out=np.zeros(2)): r"np\.exp with out .*use K\.exp",
        lambda: np.sum(x, 0, None, np.zeros(3)): r"np\.sum with out .*use K\.sum",
        lambda: np.dot(x, np.transpose(x), np.zeros(3)): r"np\.dot with out .*use K\.dot",
        lambda: np.add.reduce(x, where=[True]): r"np\.add\.reduce with where .*use K\.sum",
    }.items():
        with pytest.raises(TypeError, match=f"^{start}"):
            call()


def test_errors_name_the_function(engine):
    x = K.placeholder((2, 3))
    with pytest.raises(ValueError, match=r"^K\.dot: axis 1 of x and axis 0 of y must have equal"):
        np.dot(x, x)
    with pytest.raises(ValueError, match=r"^K\.sum: axis"):
        np.sum(x, axis=5)
    with pytest.raises(ValueError, match=r"^x @ y: .*3 columns meet 2 rows"):
        np.matmul(x, x)
    with pytest.raises(TypeError, match=r"^np\.where of a condition alone .*K\.where"):
        np.where(x > 0)
    with pytest.raises(TypeError, match=r"^np\.reshape: order must be 'C'"):
        np.reshape(x, (6,), order="F")
    with pytest.raises(ValueError, match=r"^np\.squeeze: axis must be given where sizes are"):
        np.squeeze(K.placeholder((None, 1)))


def test_arrays_decide_no_dtype(engine):
    x = K.placeholder((2, 3))
    array = np.ones((2, 3))
    for y in (np.add(array, x), np.where(x > 0, array, x), np.dot(x, array.T),
              np.concatenate([array, x]), np.maximum(array, x), np.stack([array, x])):  # fmt: skip
        assert y.dtype == "float32"
    assert np.mean(K.constant([1, 2])).dtype == "float32"
    assert np.sum(K.constant([1, 2]), dtype=np.float64).dtype == "float64"


def test_equality_is_that_of_k_if_a_tensor_comes_first(engine):
    x, array = K.constant([1.0, 2.0]), np.array([1.0, 3.0])
    np.testing.assert_array_equal(K.eval(np.equal(x, array)), [True, False])
    np.testing.assert_array_equal(K.eval(np.not_equal(x, 1)), [False, True])
    assert not array == x  # noqa: SIM201
    assert array != x
