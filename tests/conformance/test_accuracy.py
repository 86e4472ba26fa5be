"""The promised digits where a plain formula, or the order of adding, would lose them."""

import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy import special

from backplane import backend as K

COUNT = 1 << 21
VALUES = np.random.default_rng(0).normal(size=COUNT).astype("float32")


def test_softmax_of_many_classes(engine):
    """Kernels that add up one by one lost the third digit on MLX, and in PyTorch's gradient."""
    n = 250_000
    x, w = K.placeholder((None, None)), K.placeholder((None, None))
    y = K.softmax(x)
    (slope,) = K.gradients(K.sum(y * w), [x])
    scores, weights = np.zeros((2, n)), np.full((2, n), 1.1)
    scores[:, ::3], weights[:, ::2] = 0.7, 3.3
    found = K.function([x, w], [y, slope, K.logsumexp(x, axis=1)])([scores, weights])
    e = np.exp(scores)
    p = e / e.sum(1, keepdims=True)
    slopes = p * (weights - (p * weights).sum(1, keepdims=True))
    for value, exact in zip(found, [p, slopes, np.log(e.sum(1))], strict=True):
        np.testing.assert_allclose(value, exact, rtol=3e-4, atol=5e-4 * np.abs(exact).max())


def test_more_classes_than_float16_can_count(engine):
    """Sums of 100,000 exponentials were infinite on JAX, PyTorch, TensorFlow and MLX."""
    n = 100_000
    x = K.placeholder((None, n), dtype="float16")
    y = K.placeholder((None, n), dtype="float16")
    loss = K.categorical_crossentropy(y, x, from_logits=True)
    outputs = [K.softmax(x), K.logsumexp(x, axis=1), loss, *K.gradients(loss, [x])]
    labels = np.eye(1, n, 7)
    found = K.function([x, y], outputs)([np.zeros((1, n)), labels])
    p = np.full((1, n), 1 / n)
    for value, exact in zip(found, [p, [np.log(n)], [np.log(n)], p - labels], strict=True):
        # Numbers below the normal ones may be 0.
        np.testing.assert_allclose(value.astype("float64"), exact, rtol=5e-3, atol=6.2e-5)


@pytest.mark.parametrize("shape", [(COUNT,), (None, 512), (COUNT // 64, 8, 8)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_sums_of_many_elements(engine, shape, keepdims):
    x = K.placeholder(shape=shape)
    y = K.square(x)
    run = K.function([x], [K.sum(y, keepdims=keepdims), K.mean(y, keepdims=keepdims)])
    total, mean = run([VALUES.reshape([-1 if n is None else n for n in shape])])
    expected = np.square(VALUES, dtype="float64").sum()
    assert total.shape == mean.shape == ((1,) * len(shape) if keepdims else ())
    np.testing.assert_allclose(total, expected, rtol=1e-5)
    np.testing.assert_allclose(mean, expected / COUNT, rtol=1e-5)


def test_the_slope_of_logsumexp_of_large_numbers(engine):
    x = K.placeholder(shape=(2, 4))
    (slope,) = K.function([x], K.gradients(K.logsumexp(x, axis=1), [x]))(
        [np.array([[1e4] * 4, [-np.inf, 3e3, -np.inf, 3e3]], "float32")]
    )
    np.testing.assert_allclose(slope, [[0.25] * 4, [0, 0.5, 0, 0.5]], rtol=1e-7)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_quotients_of_quotients_do_not_overflow(engine, dtype):
    """The square of what is divided by twice need not be a number of the dtype."""
    x = K.placeholder(shape=(None,), dtype=dtype)
    value = np.array([300.0, -1000.0, 20.0], dtype)
    quotients = [x / (1 + K.abs(x)) / (1 + K.abs(x)), K.gradients(x / (1 + K.abs(x)), [x])[0]]
    wide = value.astype("float64")
    wanted = wide / (1 + np.abs(wide)) ** 2, 1 / (1 + np.abs(wide)) ** 2
    for quotient, expected in zip(quotients, wanted, strict=True):
        (found,) = K.function([x], [quotient])([value])
        # The gradient is a difference of two numbers near 1 / x.
        bound = np.finfo(dtype).eps / np.abs(wide) * 2
        np.testing.assert_array_less(np.abs(found - expected), bound + 3e-3 * np.abs(expected))


LOGITS = np.array([-700.0, -40, -17, -15, -12, -1, 0, 1, 12, 15, 17, 40, 700])


@pytest.mark.parametrize("target", [0.0, 0.25, 1.0])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_crossentropy_of_confident_logits(engine, target, dtype):
    """Neither value nor slope of a right answer is lost beside the large logit."""
    x = K.placeholder(shape=(None,), dtype=dtype)
    loss = K.binary_crossentropy(K.constant(target, dtype), x, from_logits=True)
    (slope,) = K.gradients(loss, [x])
    found = K.function([x], [loss, slope, K.gradients(slope, [x])[0]])([LOGITS])
    tail = np.exp(-np.abs(LOGITS))
    right, wrong = np.log1p(tail), np.abs(LOGITS) + np.log1p(tail)
    up = np.where(LOGITS < 0, wrong, right)  # the loss where the target is 1
    down = np.where(LOGITS < 0, right, wrong)
    small, large = tail / (1 + tail), 1 / (1 + tail)
    rise = np.where(LOGITS < 0, small, large)  # the sigmoid, and what it lacks of 1
    lack = np.where(LOGITS < 0, large, small)
    expected = [target * up + (1 - target) * down, (1 - target) * rise - target * lack, rise * lack]
    for value, exact in zip(found, expected, strict=True):
        tolerance = {"float32": 2e-6, "float64": 1e-14}[dtype]
        tiny = np.abs(exact) < 1e-30  # denormal numbers count as 0 on some engines
        np.testing.assert_allclose(value[~tiny], exact[~tiny], rtol=tolerance)
        np.testing.assert_allclose(value[tiny], 0, atol=1e-30)


def value_and_slope(function, numbers, dtype):
    x = K.placeholder(shape=(None,), dtype=dtype)
    y = function(x)
    return K.function([x], [y, *K.gradients(y, [x])])([np.array(numbers, dtype)])


DIGITS = {"float32": 1e-5, "float64": 1e-12}
"""The promised relative error."""


@pytest.fixture(params=DIGITS)
def dtype(request):
    return request.param


def test_softsign_of_large_numbers(engine, dtype):
    """Its slope is no difference of nearly equal numbers; at infinity it is 0."""
    x = np.array([-1e12, -1e5, -1.0, 0.0, 1e-3, 300.0, 1e8])
    value, slope = value_and_slope(K.softsign, [*x, np.inf, -np.inf, np.nan], dtype)
    np.testing.assert_allclose(value[:-3], x / (1 + abs(x)), rtol=DIGITS[dtype])
    np.testing.assert_allclose(slope[:-3], (1 + abs(x)) ** -2, rtol=DIGITS[dtype])
    np.testing.assert_array_equal(value[-3:], [1, -1, np.nan])
    np.testing.assert_array_equal(slope[-3:-1], [0, 0])


def test_softsign_of_half_precision(engine):
    value, slope = value_and_slope(K.softsign, [-6e4, -1e2, 99.0, np.inf], "float16")
    np.testing.assert_allclose(value, [-1, -100 / 101, 0.99, 1], rtol=2e-3)
    np.testing.assert_allclose(slope, [0, 101.0**-2, 1e-4, 0], rtol=2e-3)


def test_the_slope_of_elu_of_negative_numbers(engine, dtype):
    x = np.array([-80.0, -30.0, -17.0, -1e-3])
    _, slope = value_and_slope(K.elu, x, dtype)
    np.testing.assert_allclose(slope, np.exp(x.astype(dtype).astype("float64")), rtol=DIGITS[dtype])


FUNCTIONS = [K.sigmoid, K.softplus, K.tanh, K.elu, K.softsign, K.hard_sigmoid, K.exp, K.erf]


def in_a_loop(function, x):
    """`function` of each row of x, (rows, n), in a loop that it cannot be moved out of."""

    def step(row, states):
        return function(row + states[0]), [K.relu(states[0])]

    return K.rnn(step, K.expand_dims(x, 0), [K.zeros_like(x[:1])])[1][0]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_a_loop_keeps_the_digits_of_a_function(engine, function):
    x = K.placeholder((None, 4))
    outside, inside = function(x), in_a_loop(function, x)
    slopes = [K.gradients(K.sum(y), [x])[0] for y in (outside, inside)]
    rows = np.array([[-80.0, -40, -20, -18], [-15, -9, -1e-3, -1e-6], [0, 1e-5, 8, 30]])
    found = K.function([x], [outside, inside, *slopes])([rows.astype("float32")])
    np.testing.assert_allclose(found[1], found[0], rtol=DIGITS["float32"])
    np.testing.assert_allclose(found[3], found[2], rtol=DIGITS["float32"], atol=1e-30)


def test_the_logarithm_of_a_sigmoid_in_a_loop(engine):
    x = K.placeholder((None, 2))
    y = in_a_loop(lambda row: K.log(K.sigmoid(row)), x)
    (found,) = K.function([x], [y])([[[-80.0, -20.0], [-18.0, -1.0]]])
    np.testing.assert_allclose(found, [[-80, -20], [-18, -1.3132616]], rtol=1e-6)


def test_hard_sigmoid_near_its_edge(engine, dtype):
    x = np.array([-2.4999, -2.49, 0.0, 2.499]).astype(dtype)
    value, _ = value_and_slope(K.hard_sigmoid, x, dtype)
    np.testing.assert_allclose(value, (x.astype("float64") + 2.5) / 5, rtol=DIGITS[dtype] / 10)


def test_the_crossentropy_of_small_probabilities(engine, dtype):
    p = np.array([2e-7, 1e-5, 1e-3, 0.4]).astype(dtype)
    value, slope = value_and_slope(lambda x: K.binary_crossentropy(K.zeros_like(x), x), p, dtype)
    exact = p.astype("float64")
    np.testing.assert_allclose(value, -np.log1p(-exact), rtol=DIGITS[dtype])
    np.testing.assert_allclose(slope, 1 / (1 - exact), rtol=DIGITS[dtype])


def test_the_error_function_and_its_inverse(engine, dtype):
    """Small numbers, infinities, and numbers close to 1."""
    x = np.array([0.0, 1e-20, -1e-3, 0.9, 1 - 2.0**-20, 2.0**-24 - 1]).astype(dtype)
    value, slope = value_and_slope(K.erfinv, x, dtype)
    exact = special.erfinv(x.astype("float64"))
    np.testing.assert_allclose(value, exact, rtol=DIGITS[dtype])
    np.testing.assert_allclose(slope, np.exp(exact**2) * np.sqrt(np.pi) / 2, rtol=DIGITS[dtype])
    value, slope = value_and_slope(K.erf, [-np.inf, -30.0, 1e-20, np.inf], dtype)
    np.testing.assert_allclose(value, [-1, -1, 2e-20 / np.sqrt(np.pi), 1], rtol=DIGITS[dtype])
    np.testing.assert_allclose(slope, [0, 0, 2 / np.sqrt(np.pi), 0], rtol=DIGITS[dtype])


def test_native_slopes_at_the_poles():
    """The engines' own tapes go through decompositions."""
    jax, tf = pytest.importorskip("jax"), pytest.importorskip("tensorflow")
    x = np.array([-1.0, -0.9, 0.0, 1.0], "float32")
    expected = [np.inf, 3.428042, np.sqrt(np.pi) / 2, np.inf]
    np.testing.assert_allclose(jax.grad(lambda x: K.sum(K.erfinv(x)))(x), expected, rtol=1e-5)
    variable = tf.Variable(x)
    with tf.GradientTape() as tape:
        y = K.erfinv(variable)
    np.testing.assert_allclose(tape.gradient(y, variable), expected, rtol=1e-5)


def test_large_exponents(engine):
    x = np.array([-708.0, -300.0, -1e-10, 0.0, 1e-10, 300.0, 709.7, np.inf, -np.inf])
    value, _ = value_and_slope(K.exp, x, "float64")
    np.testing.assert_allclose(value, np.exp(x), rtol=1e-15)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DIGITS)
def test_every_large_error_is_explained(engine, dtype):
    """docs/measurements.md has a note for it."""
    make, table = accuracy_of(dtype)
    found = make.errors_of(engine.name, table, dtype)
    assert make.unexplained(table, engine.name, dtype, found) == []


@cache
def accuracy_of(dtype):
    """The script that writes the page, and the exact results."""
    sys.path.append(str(Path(__file__).parents[2] / "scripts"))
    import make_accuracy

    return make_accuracy, make_accuracy.rows(dtype)
