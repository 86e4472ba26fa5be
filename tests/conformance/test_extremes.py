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


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("shape", [(50, 3), (4, 5, 16), (5, 17), (3, 1)])
def test_rows_of_few_elements_are_reduced_like_others(engine, shape, keepdims):
    x = K.placeholder((None,) * len(shape))
    value = np.random.default_rng(0).choice([-1, 0, 2, np.nan], shape).astype("float32")
    for name, fed in (("max", value), ("min", value), ("any", value > 0), ("all", value > 0)):
        reduced = getattr(K, name)(x, axis=-1, keepdims=keepdims)
        (found,) = K.function([x], [reduced])([fed.astype("float32")])
        np.testing.assert_array_equal(found, getattr(np, name)(fed, axis=-1, keepdims=keepdims))


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


@pytest.mark.parametrize("shape", [(2, 3, 4), (32, 7, 9), (5, 64, 10), (64, 10)])
def test_the_gradient_of_an_extreme_finds_its_element(engine, shape):
    """A compiler may compute the operand twice, and round differently: then no element is equal to
    the maximum.
    """
    x = K.placeholder(shape)
    value = np.random.default_rng(1).normal(size=shape).astype("float32")
    wide = value.astype("float64")
    computed = {
        "exp": (K.exp(x) * 1.7 + x / 3, np.exp(wide) * 1.7 + wide / 3, np.exp(wide) * 1.7 + 1 / 3),
        "tanh": (
            K.tanh(x) * x + x * 1.3,
            np.tanh(wide) * wide + wide * 1.3,
            np.tanh(wide) + wide * (1 - np.tanh(wide) ** 2) + 1.3,
        ),
    }
    for name, (y, y64, slope) in computed.items():
        for extreme, right in ((K.max, y64.max(1)), (K.min, y64.min(1))):
            top = extreme(y, axis=1, keepdims=True)
            mask = y64 == right[:, None]
            losses = [K.sum(K.square(top)), K.sum(K.minimum(y, top) + K.maximum(y, top))]
            # The second loss is the sum of all y, and of the extreme for each of them.
            wanted = [2 * right[:, None] * mask * slope, slope * (1 + shape[1] * mask)]
            for loss, expected in zip(losses, wanted, strict=True):
                (found,) = K.function([x], K.gradients(loss, [x]))([value])
                np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4, err_msg=name)


def test_elements_are_compared_with_the_largest_of_them(engine):
    x = K.placeholder((32, 9))
    y = K.exp(x) * 1.7 + x / 3
    largest = K.max(y, axis=-1, keepdims=True)
    classes = np.arange(32) % 9
    results = [
        K.cast(K.equal(y, largest), "float32"),
        K.cast(K.greater(y, largest), "float32"),
        K.cast(K.greater_equal(y, y[:, :1]), "float32"),
        K.cast(K.in_top_k(y, K.constant(classes, dtype="int32"), 1), "float32"),
        K.gradients(K.sum(K.square(largest)), [x])[0],
    ]
    value = np.random.default_rng(1).normal(size=(32, 9)).astype("float32")
    equal, greater, first, top, _ = K.function([x], results)([value])
    np.testing.assert_array_equal(equal, value == value.max(1, keepdims=True))
    assert not greater.any()
    np.testing.assert_array_equal(first, value >= value[:, :1])
    np.testing.assert_array_equal(top, value.argmax(1) == classes)


COMPARISONS = {
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "equal": np.equal,
    "not_equal": np.not_equal,
}


@pytest.mark.parametrize("name", COMPARISONS)
def test_a_negated_comparison_with_nan(engine, name):
    """Every comparison with NaN but "not equal" is false, so `>` is no negated `<=`."""
    x, y = K.placeholder((None,)), K.placeholder((None,))
    holds = getattr(K, name)(x, y)
    f = K.function([x, y], [~holds, K.switch(~holds, x, y), K.any(~holds)])
    a, b = np.array([np.nan, 1, 2, 3], "float32"), np.array([1, np.nan, 1, 3], "float32")
    for first, second in ((a, b), (b, a), (a[:1], b[:1])):
        wanted = ~COMPARISONS[name](first, second)
        negated, chosen, some = f([first, second])
        np.testing.assert_array_equal(negated, wanted)
        np.testing.assert_array_equal(chosen, np.where(wanted, first, second))
        assert some == wanted.any()
