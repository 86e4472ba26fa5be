"""What K has from tf.keras 2.0 to 2.15 beyond the documents."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from backplane import backend as K

LOGITS = [[8.0, 1.0, 1.0], [0.0, 9.0, 1.0], [2.0, 3.0, 5.0]]


@pytest.mark.parametrize(
    ("name", "activation", "target"),
    [
        ("binary_crossentropy", "sigmoid", np.eye(3)),
        ("binary_focal_crossentropy", "sigmoid", np.eye(3)),
        ("categorical_crossentropy", "softmax", np.eye(3)),
        ("categorical_focal_crossentropy", "softmax", np.eye(3)),
        ("sparse_categorical_crossentropy", "softmax", np.arange(3)),
    ],
)
def test_probabilities_where_logits_are_meant_warn_at_the_users_line(
    engine: object, name: str, activation: str, target: Any
) -> None:
    p = getattr(K, activation)(K.constant(LOGITS))
    with pytest.warns(UserWarning, match="received `from_logits=True`") as caught:
        found = getattr(K, name)(target, p, from_logits=True)
    assert [w.filename for w in caught] == [__file__]
    # They are taken for logits, as if no activation had made them.
    wanted = getattr(K, name)(target, K.constant(K.eval(p)), from_logits=True)
    np.testing.assert_allclose(K.eval(found), K.eval(wanted), rtol=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        getattr(K, name)(target, K.constant(LOGITS), from_logits=True)
        getattr(K, name)(target, p)


def test_what_stands_at_an_ignored_class_has_no_influence(engine: object) -> None:
    x = K.placeholder((3, 3))
    for from_logits in (False, True):
        loss = K.sparse_categorical_crossentropy(
            np.array([0, -1, 2]), x, from_logits=from_logits, ignore_class=-1
        )
        values, slopes = K.function([x], [loss, K.gradients(loss, [x])[0]])(
            [[[0.1, 0.2, 0.7], [np.nan, np.inf, 0.0], [0.3, 0.6, 0.1]]]
        )
        np.testing.assert_array_equal(values > 0, [True, False, True])
        np.testing.assert_array_equal(slopes != 0, [[True] * 3, [False] * 3, [True] * 3])
        assert np.isfinite(slopes).all()
    kept = K.sparse_categorical_crossentropy([0, -1], K.constant(LOGITS[:2]), True, ignore_class=-1)
    np.testing.assert_array_equal(K.eval(kept._keras_mask), [True, False])


def test_focal_losses_without_focus_are_the_plain_ones(engine: object) -> None:
    target, p = K.constant(np.eye(3)), K.softmax(K.constant(LOGITS))
    found = K.categorical_focal_crossentropy(target, p, alpha=1.0, gamma=0.0)
    np.testing.assert_allclose(
        K.eval(found), K.eval(K.categorical_crossentropy(target, p)), atol=1e-5
    )
    found = K.binary_focal_crossentropy(target, p, gamma=0.0)
    np.testing.assert_allclose(K.eval(found), K.eval(K.binary_crossentropy(target, p)), atol=1e-5)
