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
    assert x._uses_learning_phase is (x * 2.0)._uses_learning_phase is False
    assert z._uses_learning_phase
    assert y._uses_learning_phase
    x._uses_learning_phase = True
    assert (x + 1.0)._uses_learning_phase
    x._uses_learning_phase = False
    assert x._uses_learning_phase is False


def test_rows_lack_the_signs_of_a_layers_output():
    """Classic models that are called in a loop's step look for them (see `Tensor._keras_shape`)."""
    found = []

    def look(row, *others):
        plain, phased = row * 2.0, K.in_train_phase(row, row * 2.0)
        found.append([hasattr(t, "_keras_shape") for t in (row, plain)])
        found.append([hasattr(t, "_uses_learning_phase") for t in (row, plain, phased)])
        plain._keras_shape, plain._uses_learning_phase = K.int_shape(row), False
        assert K.int_shape(row) == plain._keras_shape == (3,)
        assert not plain._uses_learning_phase
        return plain

    x = K.placeholder((2, 3))
    K.map_fn(look, x)
    K.foldl(look, x)
    K.rnn(lambda t, s: (look(t[0])[None], []), x[None], [])
    assert found == [[False, False], [False, False, True]] * 6
    assert x._keras_shape == (2, 3)


def test_no_length():
    """Code tells lists of tensors from tensors by `hasattr(x, "__len__")`."""
    assert not hasattr(K.placeholder((2, 3)), "__len__")
    with pytest.raises(TypeError):
        len(K.placeholder((2, 3)))


def test_names_begin_with_the_scopes():
    x = K.placeholder((2, 3))
    with K.name_scope("outer"), K.name_scope("inner"):
        y = x + 1.0
        last, outputs, _ = K.rnn(lambda t, s: (t, []), x[None], [])
    for t in (y, last, outputs):
        assert t.name.startswith("outer/inner/")
    assert "/" not in (x + 1.0).name


def test_a_long_graph_is_walked_once():
    x = K.placeholder((2,))
    y = x
    for _ in range(3000):
        y = y + 1.0
    assert not y._uses_learning_phase
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
