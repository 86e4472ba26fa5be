"""Names that Keras leaked, and what classic Keras hangs on tensors."""

import importlib
import pickle

import numpy as np
import pytest

from backplane import backend as K
from backplane import config


def test_tensorflow_backend():
    KTF = K.tensorflow_backend
    assert KTF is importlib.import_module("backplane.backend.tensorflow_backend")
    assert KTF.sum is K.sum
    assert KTF._get_available_gpus() == []
    assert KTF.get_session() is K.get_session()
    assert K._to_tensor([1, 2], "float64").dtype == "float64"
    assert K._to_tensor(K.ones((2,)), "int32").dtype == "int32"
    assert K.is_symbolic(K.placeholder((1,)))
    assert not K.is_symbolic(K.zeros((1,)))


def test_settings_by_their_private_names():
    from backplane.backend.common import _EPSILON, _FLOATX, floatx

    assert (_EPSILON, _FLOATX, floatx()) == (1e-7, "float32", "float32")
    config.set_epsilon(1e-3)
    assert K._EPSILON == 1e-3


@pytest.mark.parametrize("name", ["tf", "T", "C"])
def test_the_library_below_is_no_part_of_k(name):
    with pytest.raises(AttributeError, match="itself is not part of K"):
        getattr(K, name)


def test_unknown_names():
    assert not hasattr(K, "no_such_name")
    assert not hasattr(K, "__wrapped__")


def test_learning_phase_is_found_and_remembered():
    x = K.placeholder((2, 3))
    y = K.in_train_phase(x * 2.0, x)
    z = y + 1.0
    assert not hasattr(x, "_uses_learning_phase")
    assert not hasattr(x * 2.0, "_uses_learning_phase")
    assert z._uses_learning_phase
    assert y._uses_learning_phase
    x._uses_learning_phase = True
    assert (x + 1.0)._uses_learning_phase
    x._uses_learning_phase = False
    assert x._uses_learning_phase is False


def test_a_long_graph_is_walked_once():
    x = K.placeholder((2,))
    y = x
    for _ in range(3000):
        y = y + 1.0
    assert not hasattr(y, "_uses_learning_phase")
    assert all(t._phased is False for t in y.inputs)


def test_a_variable_is_true():
    """As TensorFlow's was: Keras before 2.1 asks `if self.bias:`."""
    v = K.variable(0.0)
    assert v
    with pytest.raises(TypeError, match="has no truth value"):
        bool(v * 2.0)


def test_a_variable_that_was_used_is_pickled_with_its_value(engine):
    v = K.variable([1.0, 2.0], name="weight")
    v.trainable = False
    K.function([], [v], updates=[K.update_add(v, [1.0, 1.0])])([])
    w = pickle.loads(pickle.dumps(v))
    assert (w.name, w.trainable, K.dtype(w)) == ("weight", False, K.floatx())
    np.testing.assert_array_equal(K.eval(w * 2.0), [4.0, 6.0])
    K.set_value(w, [0.0, 0.0])
    np.testing.assert_array_equal(K.get_value(v), [2.0, 3.0])


def test_keras_shape_adds_what_is_not_known():
    x = K.placeholder((None, None, 3))
    assert x._keras_shape == (None, None, 3)
    x._keras_shape = (None, 5, 4)
    assert K.int_shape(x) == (None, 5, 3)
    x._keras_shape = (7,)
    assert K.int_shape(x) == (None, 5, 3)
    assert x.shape == (None, None, 3)


def test_foreign_attributes():
    x = K.placeholder((2,))
    x._keras_history = ("layer", 0, 0)
    assert K.is_keras_tensor(x)


def test_control_dependencies():
    total, count = K.variable(1.0), K.variable(1.0)
    updates = [K.update_add(total, 5.0), K.update_add(count, 1.0)]
    with K.control_dependencies(updates):
        after = total / count
        with K.control_dependencies(None):
            before = total / count
    outside = total / count
    f = K.function([], [after, before, outside], updates=updates)
    assert [float(v) for v in f([])] == [3.0, 1.0, 1.0]
    np.testing.assert_allclose(f([]), [11.0 / 3.0, 3.0, 3.0], rtol=1e-6)
