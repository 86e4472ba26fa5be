"""Losses at the ends of what they take: probabilities of exactly 0 and 1, and wrong shapes."""

from collections.abc import Iterator

import numpy as np
import pytest

from backplane import backend as K

LOW = ("float16", "bfloat16")
PROBABILITIES = [[0.0, 1.0], [1.0, 0.0], [0.25, 0.75]]
TARGETS = [[0.0, 1.0], [0.0, 1.0], [1.0, 0.0]]

LOSSES = {
    "binary": lambda t, p: K.binary_crossentropy(t, p),
    "categorical": lambda t, p: K.categorical_crossentropy(t, p),
    "sparse": lambda t, p: K.sparse_categorical_crossentropy(K.argmax(t), p),
    "binary focal": lambda t, p: K.binary_focal_crossentropy(t, p, gamma=0.5),
    "categorical focal": lambda t, p: K.categorical_focal_crossentropy(t, p, gamma=0.5),
}


@pytest.fixture(autouse=True)
def epsilon() -> Iterator[None]:
    """Leave epsilon as it was."""
    before = K.epsilon()
    yield
    K.set_epsilon(before)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize(
    ("dtype", "epsilon", "least"),
    [
        ("float16", 1e-7, 2.0**-11),
        ("bfloat16", 1e-7, 2.0**-8),
        ("float32", 1e-9, 2.0**-24),
        ("float32", 0.0, 2.0**-24),
        ("float64", 1e-20, 2.0**-53),
        ("float32", 1e-7, 1e-7),
        ("float16", 1e-2, 1e-2),
    ],
)
def test_certain_probabilities(engine, name, dtype, epsilon, least):
    K.set_epsilon(epsilon)
    p = K.placeholder((None, 2), dtype=dtype)
    loss = LOSSES[name](K.constant(TARGETS, dtype=dtype), p)
    f = K.function([p], [loss, K.gradients(loss, [p])[0]])
    if dtype in LOW and dtype not in engine.capabilities:
        with pytest.raises(NotImplementedError, match=dtype):
            f([PROBABILITIES])
        return
    value, slope = f([PROBABILITIES])
    value, slope = value.astype("float64"), slope.astype("float64")
    assert np.isfinite(value).all()
    assert np.isfinite(slope).all()
    if name in ("binary", "categorical"):
        # The second row is as wrong as can be.
        assert value[1].max() == pytest.approx(-np.log(least), rel=2e-2)


@pytest.mark.parametrize("dtype", LOW)
@pytest.mark.parametrize("name", LOSSES)
def test_certain_probabilities_in_mixed_precision(engine, name, dtype):
    x, w = K.placeholder((None, 2)), K.variable(np.eye(2))
    p = K.dot(x, w)
    loss = K.mean(LOSSES[name](K.constant(TARGETS), p))
    slope = K.gradients(loss, [w])[0]
    if dtype not in engine.capabilities:
        with pytest.raises(NotImplementedError, match=dtype):
            K.function([x], [loss, slope], precision=dtype)
        return
    value, slope = K.function([x], [loss, slope], precision=dtype)([PROBABILITIES])
    assert np.isfinite(value)
    assert np.isfinite(slope).all()
