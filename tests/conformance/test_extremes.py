"""Maxima and minima of functions that make different numbers equal, or numbers NaN."""

from __future__ import annotations

import numpy as np
import pytest

from backplane import backend as K

ROWS = np.array([[0.3, 200, 100, -200], [-0.3, -100, -200, 0.9], [2.4, 1.6, 2.2, 2.5]], "float32")
TYING = {
    "sign": K.sign,
    "minus sign": lambda x: -K.sign(x),
    "round": K.round,
    "relu": K.relu,
    "sigmoid": K.sigmoid,
    "tanh": K.tanh,
    "clipped": lambda x: K.clip(x, -1, 1),
    "softsign of a reshaped sign": lambda x: K.softsign(K.reshape(K.sign(x), (-1, 4))),
    "sign and cast": lambda x: K.cast(K.sign(x), "int32"),
    "whole numbers": lambda x: K.cast(K.cast(x, "int32"), "float32"),
}


@pytest.mark.parametrize("name", TYING)
def test_the_first_of_equal_results_counts(engine, name):
    x = K.placeholder((3, 4))
    y = TYING[name](x)
    (values,) = K.function([x], [y])([ROWS])
    for position, expected in ((K.argmax, np.argmax), (K.argmin, np.argmin)):
        (found,) = K.function([x], [position(y, axis=1)])([ROWS])
        np.testing.assert_array_equal(found, expected(values, axis=1))


@pytest.mark.parametrize("extreme", ["max", "min"])
@pytest.mark.parametrize("sign", [1, -1])
def test_nan_of_a_function_is_not_passed_over(engine, extreme, sign):
    x = K.placeholder((3, 4))
    for y in (sign * K.log(x), sign * K.reshape(K.pow(x, 0.5), (3, 2, 2)), sign / K.log(x)):
        (found,) = K.function([x], [getattr(K, extreme)(y, axis=1)])([ROWS])
        (values,) = K.function([x], [y])([ROWS])
        np.testing.assert_allclose(found, getattr(np, extreme)(values, axis=1), rtol=1e-6)
        assert np.isnan(found).any()


@pytest.mark.parametrize(
    "function", ["relu", "leaky", "relu6", "maximum", "minimum", "clip", "sqrt"]
)
def test_nan_gets_through_to_a_reduction(engine, function):
    """Kernels that compute a function and a reduction at once may pass NaN over."""
    x = K.placeholder((None, 7), dtype="float32")
    y = {
        "relu": lambda: K.relu(x),
        "leaky": lambda: K.relu(x, alpha=0.1),
        "relu6": lambda: K.relu(x, max_value=6),
        "maximum": lambda: K.maximum(x, x[:, ::-1]),
        "minimum": lambda: K.minimum(x, 0.5),
        "clip": lambda: K.clip(x, -1, 1),
        "sqrt": lambda: K.sqrt(K.exp(x)),
    }[function]()
    results = [K.mean(y, axis=1), K.sum(y, axis=1), K.std(y, axis=1), K.mean(K.square(y), axis=1)]
    value = np.random.default_rng(0).normal(size=(9000, 7)).astype("float32")
    value[::3, 3] = np.nan
    for found in [K.function([x], [result])([value])[0] for result in results]:
        np.testing.assert_array_equal(np.isnan(found), np.isnan(value).any(axis=1))


@pytest.mark.parametrize("factor", [2.0, 1.5, 1.0, 0.2, -3.0, np.inf, np.nan])
@pytest.mark.parametrize("known", [True, False])
def test_extremes_of_a_tensor_and_its_multiple(engine, factor, known):
    """TensorFlow's optimizer takes max(2 · x, x) for a leaky ReLU, and gives the smaller one."""
    x = K.placeholder((4,) if known else (None,))
    values = np.array([0.5, -0.25, 3.0, -7.0], "float32")
    scaled = [x * factor, factor * x, x / (1 / factor), K.stop_gradient(x * factor)]
    if factor == 2:
        scaled += [x + x, x + 1.0 * x, 3.0 * x - x, -(x * -2.0), K.sum(K.stack([x, x]), axis=0)]
    pairs = [pair for y in scaled for pair in ((x, y), (y, x))]
    tops, bottoms = ([f(*pair) for pair in pairs] for f in (K.maximum, K.minimum))
    found = K.function([x], tops + bottoms)([values])
    for i, y in enumerate(found):
        right = (np.maximum if i < len(pairs) else np.minimum)(values, values * np.float32(factor))
        np.testing.assert_allclose(y, right, rtol=1e-6, err_msg=str(i))


ROWWISE = {
    "softmax": K.softmax,
    "logarithm of softmax": lambda x: K.log(K.softmax(x)),
    "logsumexp": lambda x: K.logsumexp(x, axis=-1),
    "normalization": lambda x: K.l2_normalize(x, axis=-1),
    "crossentropy": lambda x: K.categorical_crossentropy(K.ones_like(x) / 4, x, from_logits=True),
    "crossentropy of classes": lambda x: K.sparse_categorical_crossentropy(
        K.zeros_like(x[:, 0]), x, from_logits=True
    ),
    "variance": lambda x: K.var(x, axis=-1),
    "running product": lambda x: K.cumprod(x, axis=-1)[:, -1],
}


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("name", ROWWISE)
def test_nan_makes_the_result_of_its_row_nan(engine, name, dtype):
    rows = np.array([[2.5, 6e4, np.nan, 1], [np.nan, 1, 2, 3], [1, np.nan, -6e4, 0], [1, 2, 3, 4]])
    x = K.placeholder((None, 4), dtype=dtype)
    (found,) = K.function([x], [ROWWISE[name](x)])([rows.astype(dtype)])
    assert np.isnan(found[:3]).all()
    assert np.isfinite(found[3]).all()
