"""The promised digits where a plain formula, or the order of adding, would lose them."""

import numpy as np
import pytest

from backplane import backend as K

COUNT = 1 << 21
VALUES = np.random.default_rng(0).normal(size=COUNT).astype("float32")


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
