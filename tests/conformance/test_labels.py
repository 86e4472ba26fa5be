"""Labels of `sparse_categorical_crossentropy` whose sizes are known only when they are fed."""

import numpy as np
import pytest

from backplane import backend as K

RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 3, (2, 4, 5))
SCORES = RNG.normal(size=(2, 3, 4, 5)).astype("float32")


def expected(scores, labels):
    logs = scores - np.log(np.exp(scores.astype("float64")).sum(1, keepdims=True))
    return -np.take_along_axis(logs, labels[:, None], 1)[:, 0]


@pytest.mark.parametrize("sizes", [(None, 3, None, None), (None, 3, 4, 5), (2, 3, 4, 5)])
@pytest.mark.parametrize("shape", [(2, 4, 5), (2, 1, 4, 5), (2, 4, 5, 1), (8, 5)])
def test_the_single_axis_may_be_that_of_the_classes_or_the_last(engine, sizes, shape):
    labels, scores = K.placeholder(ndim=len(shape)), K.placeholder(shape=sizes)
    loss = K.sparse_categorical_crossentropy(labels, scores, from_logits=True, axis=1)
    slope = K.gradients(loss, [scores])[0]
    found, _ = K.function([labels, scores], [loss, slope])([LABELS.reshape(shape), SCORES])
    np.testing.assert_allclose(found, expected(SCORES, LABELS), rtol=1e-5)


def test_labels_of_one_class_number_per_sample(engine):
    labels, scores = K.placeholder(ndim=2), K.placeholder(shape=(None, 3))
    loss = K.sparse_categorical_crossentropy(labels, scores, from_logits=True)
    (found,) = K.function([labels, scores], [loss])([[[0], [2]], SCORES[:, :, 0, 0]])
    exact = expected(SCORES[:, :, 0, 0], np.array([0, 2])[:, None, None].reshape(2))
    np.testing.assert_allclose(found, exact, rtol=1e-5)
