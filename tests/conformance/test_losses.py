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
    if dtype in engine.missing_dtypes:
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
    if dtype in engine.missing_dtypes:
        with pytest.raises(NotImplementedError, match=dtype):
            K.function([x], [loss, slope], precision=dtype)
        return
    value, slope = K.function([x], [loss, slope], precision=dtype)([PROBABILITIES])
    assert np.isfinite(value)
    assert np.isfinite(slope).all()


def placeholders(*shapes):
    return [K.placeholder(shape=shape) for shape in shapes]


WRONG = {
    "binary_crossentropy": [
        ((4,), (4, 1), r"each target would meet every output"),
        ((None,), (None, 1), r"each target would meet every output"),
        ((None, 1), (None,), r"target has shape \(None, 1\) .*each target would meet every output"),
        ((2, None), (2, None, 1), r"each target would meet every output"),
        ((None,), (None, 3), r"class numbers .*K\.sparse_categorical_crossentropy"),
        ((4,), (4, 3), r"class numbers .*K\.sparse_categorical_crossentropy"),
    ],
    "categorical_crossentropy": [
        ((None,), (None, 3), r"K\.sparse_categorical_crossentropy .*K\.one_hot\(target, 3\)"),
        ((3,), (3, 3), r"K\.sparse_categorical_crossentropy .*of shape \(3,\)"),
        ((4,), (4, 3), r"K\.sparse_categorical_crossentropy"),
        ((None, 1), (None, 3), r"K\.sparse_categorical_crossentropy .*of shape \(None,\)"),
        ((4, 5), (4, 5, 3), r"K\.sparse_categorical_crossentropy"),
        ((4, 3), (4, 1), r"3 classes.*K\.binary_crossentropy"),
        ((4, 3), (4, 2), r"so 3 classes"),
        ((4, 3), (5, 3), r"do not broadcast"),
    ],
    "sparse_categorical_crossentropy": [
        ((None, 3), (None, 3), r"K\.categorical_crossentropy .*K\.argmax\(target\)"),
        ((4, 3), (4, 3), r"K\.categorical_crossentropy"),
        ((4, 5, 3), (4, 5, 3), r"K\.categorical_crossentropy"),
    ],
    "categorical_focal_crossentropy": [((None,), (None, 3), r"K\.sparse_categorical_crossentropy")],
    "binary_focal_crossentropy": [((None,), (None, 1), r"each target would meet every output")],
}


@pytest.mark.parametrize(
    ("name", "target", "output", "words"),
    [(name, *rest) for name, found in WRONG.items() for rest in found],
)
def test_wrong_shapes_are_refused_when_the_graph_is_built(name, target, output, words):
    loss = getattr(K, name)
    with pytest.raises(ValueError, match=rf"K\.{name}: .*{words}"):
        loss(*placeholders(target, output))
    with pytest.raises(ValueError, match=rf"K\.{name}: "):
        loss(*placeholders(target, output), from_logits=True)


def test_wrong_shapes_of_arrays(engine):
    with pytest.raises(ValueError, match=r"K\.binary_crossentropy: .*each target would meet"):
        K.binary_crossentropy(np.ones(4, "float32"), np.ones((4, 1), "float32"))
    with pytest.raises(ValueError, match=r"K\.in_top_k: targets has 1 samples"):
        K.in_top_k(np.ones((4, 3), "float32"), np.zeros(1, "int32"), 1)


@pytest.mark.parametrize(
    ("name", "target", "output", "shape"),
    [
        ("binary_crossentropy", (), (None, 1), (None, 1)),
        ("binary_crossentropy", (3,), (None, 3), (None, 3)),
        ("binary_crossentropy", (3,), (3, 3), (3, 3)),
        ("binary_crossentropy", (1,), (None, 1), (None, 1)),
        ("binary_crossentropy", (None, 1), (None, 3), (None, 3)),
        ("binary_crossentropy", (None, 3), (3,), (None, 3)),
        ("binary_crossentropy", (None, None), (None, 1), (None, None)),
        ("binary_crossentropy", (None,), (None,), (None,)),
        ("binary_crossentropy", (None,), (), (None,)),
        ("categorical_crossentropy", (3,), (None, 3), (None,)),
        ("categorical_crossentropy", (3,), (5, 3), (5,)),
        ("categorical_crossentropy", (1, 3), (None, 3), (None,)),
        ("categorical_crossentropy", (None, None), (None, 3), (None,)),
        ("categorical_crossentropy", (None, 1), (None, 1), (None,)),
        ("sparse_categorical_crossentropy", (None,), (None, 3), (None,)),
        ("sparse_categorical_crossentropy", (None, 1), (None, 3), (None,)),
        ("sparse_categorical_crossentropy", (None, None), (None, 3), (None,)),
        ("sparse_categorical_crossentropy", (None, 1), (None, 1), (None,)),
        ("sparse_categorical_crossentropy", (4, 5), (4, 5, 3), (4, 5)),
        ("sparse_categorical_crossentropy", (20,), (4, 5, 3), (4, 5)),
    ],
)
def test_shapes_that_fit(name, target, output, shape):
    assert K.int_shape(getattr(K, name)(*placeholders(target, output))) == shape
