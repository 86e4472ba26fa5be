"""Tensors of K in TensorFlow's own loops and branches, and in what stands for variables there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from backplane import backend as K

tf: Any = pytest.importorskip("tensorflow")

X = np.arange(6, dtype="float32").reshape(2, 3) + 1


@pytest.fixture(autouse=True)
def on_tensorflow():
    with K.engine("tensorflow"):
        yield


def loops(x: Any, w: Any) -> dict[str, tuple[Any, Any, Any]]:
    """For each loop its result, and the value and the slope of its sum that are right."""
    return {
        "map_fn": (tf.map_fn(lambda row: row * 2.0, x), 2 * X, np.full_like(X, 2)),
        "map_fn with K": (tf.map_fn(lambda row: K.square(row) * w, x), 2 * X**2, 4 * X),
        "map_fn of two": (
            tf.map_fn(lambda pair: pair[0] * pair[1], (x, x), fn_output_signature=tf.float32),
            X**2, 2 * X,
        ),
        "vectorized_map": (tf.vectorized_map(lambda row: row * 2.0, x), 2 * X, np.full_like(X, 2)),
        "scan": (tf.scan(lambda a, row: a + row, x), X.cumsum(0), [[2] * 3, [1] * 3]),
        "foldl": (tf.foldl(lambda a, row: a + row, x), X.sum(0), np.ones_like(X)),
        "while_loop": (
            tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 2.0), [0, x])[1],
            8 * X, np.full_like(X, 8),
        ),
        "while_loop around": (
            tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a + x), [0, x])[1],
            4 * X, np.full_like(X, 4),
        ),
        "cond": (tf.cond(K.sum(x) > 0, lambda: x * 3.0, lambda: -x), 3 * X, np.full_like(X, 3)),
        "switch_case": (
            tf.switch_case(K.cast(K.sum(x) * 0, "int32"), [lambda: x * 1.0, lambda: -x]),
            X, np.ones_like(X),
        ),
    }  # fmt: skip


@pytest.mark.parametrize("shape", [(2, 3), (None, 3)])
def test_loops(shape):
    x, w = K.placeholder(shape), K.variable(np.full(3, 2.0))
    for name, (y, value, slope) in loops(x, w).items():
        found = K.function([x], [y, K.gradients(K.sum(y), [x])[0]])([X])
        np.testing.assert_allclose(found[0], value, rtol=1e-6, err_msg=name)
        np.testing.assert_allclose(found[1], slope, rtol=1e-6, err_msg=name)


def test_variables_around_a_loop_are_trained():
    x, w = K.placeholder((None, 3)), K.variable(np.ones(3))
    y = tf.map_fn(lambda row: row * w, x)
    f = K.function([x], [y], updates=[K.update_sub(w, K.gradients(K.sum(y), [w])[0])])
    np.testing.assert_allclose(f([X])[0], X)
    np.testing.assert_allclose(K.get_value(w), 1 - X.sum(0))


def test_loops_of_tensorflow_alone_are_left_alone():
    @tf.function
    def f(rows):
        def body(row):
            if tf.reduce_sum(row) > 10:  # AutoGraph converts it.
                return row
            return -row

        return tf.map_fn(body, rows)

    np.testing.assert_array_equal(f(tf.constant(X)), [[-1, -2, -3], [4, 5, 6]])
    found = tf.while_loop(lambda i: i < 3, lambda i: (i + 1,), [tf.constant(0)])
    assert int(found[0]) == 3


def test_squeeze_of_unknown_sizes():
    x = K.placeholder((None, 3, 1))
    y = tf.squeeze(x)
    assert K.int_shape(y) == (None, 3)
    f = K.function([x], [y])
    np.testing.assert_array_equal(f([X[:, :, None]])[0], X)
    wrong = r"Shape of tensor Squeeze \[3\] is not compatible with expected shape \[\?,3\]"
    with pytest.raises(tf.errors.InvalidArgumentError, match=wrong):
        f([X[:1, :, None]])
    f = K.function([x], [tf.squeeze(x, axis=-1)])
    np.testing.assert_array_equal(f([X[:1, :, None]])[0], X[:1])


def test_assignments_to_variables_of_k_name_k():
    v, x = K.variable(1.0), K.placeholder(())
    for call in (
        lambda: v.assign_add(x),
        lambda: tf.compat.v1.assign_add(v, 1.0),
        lambda: tf.function(lambda: v.assign_add(1.0))(),
        lambda: K.native(lambda a: v.assign_add(a), x),
    ):
        with pytest.raises((AttributeError, ValueError), match=r"write K\.update_add\(w, incr"):
            call()
    with pytest.raises(TypeError, match="symbolic and cannot become a value of tensorflow"):
        tf.Variable(1.0).assign_add(x)
