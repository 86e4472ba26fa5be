"""Tensors and variables as the documents show them; see test_examples.py."""

from __future__ import annotations

import numpy as np
import pytest

from backplane import backend as K
from documents.covering import covers, shown

VALUES = np.array([[1, 2], [3, 4]])


@covers("is_sparse")
def test_sparseness() -> None:
    a = K.placeholder((2, 2), sparse=False)
    assert K.is_sparse(a) is False
    b = K.placeholder((2, 2), sparse=True)
    assert K.is_sparse(b) is True
    c = K.to_dense(b)
    assert K.is_sparse(c) is False


@covers("variable", "is_variable", spec=True)
def test_variable(engine: object, capsys: pytest.CaptureFixture[str]) -> None:
    kvar = K.variable(value=VALUES, dtype="float64", name="example_var")
    assert K.dtype(kvar) == "float64"
    print(kvar)
    assert capsys.readouterr().out == "example_var\n"
    np.testing.assert_array_equal(K.eval(kvar), [[1.0, 2.0], [3.0, 4.0]])
    assert K.is_variable(kvar)


@covers("is_keras_tensor")
def test_is_keras_tensor() -> None:
    """003 and 004; 000 and 002 call placeholders Keras tensors, 002 variables too.

    A layer marks its tensors with `_keras_history`.
    """
    np_var = np.array([1, 2])
    with pytest.raises(ValueError, match=r"K\.is_keras_tensor"):
        K.is_keras_tensor(np_var)
    assert K.is_keras_tensor(K.variable(np_var)) is False
    keras_input = K.placeholder(shape=(2, 4, 5))
    assert K.is_keras_tensor(keras_input) is False
    keras_input._keras_history = (None, 0, 0)
    assert K.is_keras_tensor(keras_input) is True


@covers("is_placeholder", "is_tensor")
def test_placeholder() -> None:
    input_ph = K.placeholder(shape=(2, 4, 5))
    assert input_ph._keras_shape == (2, 4, 5)
    assert shown(input_ph) == ((2, 4, 5), "float32")
    assert K.is_placeholder(input_ph)
    assert K.is_tensor(input_ph)
    assert K.int_shape(K.placeholder(shape=(2, 3), ndim=5)) == (2, 3)
    with pytest.raises(ValueError, match="shape and ndim"):
        K.placeholder()


@covers("get_session")
def test_shape(engine: object) -> None:
    tf_session = K.get_session()
    kvar = K.variable(value=VALUES)
    inputs = K.placeholder(shape=(2, 4, 5))
    assert shown(K.shape(kvar)) == ((2,), "int32")
    assert shown(K.shape(inputs)) == ((3,), "int32")
    found = K.shape(kvar).eval(session=tf_session)
    np.testing.assert_array_equal(found, np.array([2, 2], "int32"), strict=True)
    found = K.shape(inputs).eval(session=tf_session)
    np.testing.assert_array_equal(found, np.array([2, 4, 5], "int32"), strict=True)


@covers("int_shape", "ndim", "count_params")
def test_shape_rank_size_and_count(engine: object) -> None:
    inputs = K.placeholder(shape=(2, 4, 5))
    kvar = K.variable(value=VALUES)
    assert K.int_shape(inputs) == (2, 4, 5)
    assert K.int_shape(kvar) == (2, 2)
    assert K.ndim(inputs) == 3
    assert K.ndim(kvar) == 2
    assert shown(K.size(kvar)) == ((), "int32")
    assert K.eval(K.size(kvar)) == 4
    assert K.count_params(kvar) == 4
    kvar = K.zeros((2, 3))
    assert K.count_params(kvar) == 6
    np.testing.assert_array_equal(K.eval(kvar), np.zeros((2, 3), "float32"), strict=True)


@covers("dtype")
def test_dtype() -> None:
    """003 and 004 show `float32_ref` for variables, a name that TensorFlow gave up."""
    assert K.dtype(K.placeholder(shape=(2, 4, 5))) == "float32"
    assert K.dtype(np.ones(2)) == "float64"
    for number in (0, 1.5, [1, 2]):
        with pytest.raises(TypeError, match=r"K\.dtype: x must be a tensor"):
            K.dtype(number)
    assert K.dtype(K.placeholder(shape=(2, 4, 5), dtype="float32")) == "float32"
    assert K.dtype(K.placeholder(shape=(2, 4, 5), dtype="float64")) == "float64"
    assert K.dtype(K.variable(VALUES)) == "float32"
    assert K.dtype(K.variable(VALUES, dtype="float32")) == "float32"


@covers("eval", "get_value", "set_value")
def test_eval(engine: object) -> None:
    kvar = K.variable(VALUES, dtype="float32")
    expected = np.array([[1.0, 2.0], [3.0, 4.0]], "float32")
    np.testing.assert_array_equal(K.eval(kvar), expected, strict=True)
    np.testing.assert_array_equal(K.get_value(kvar), expected, strict=True)
    K.set_value(kvar, -expected)
    np.testing.assert_array_equal(K.get_value(kvar), -expected, strict=True)


@covers("zeros", "ones", "eye", spec=True)
def test_zeros_ones_eye(engine: object) -> None:
    for made, expected in (
        (K.zeros((3, 4)), np.zeros((3, 4))),
        (K.ones((3, 4)), np.ones((3, 4))),
        (K.eye(3), np.eye(3)),
        (K.eye((2, 3)), np.eye(2, 3)),
    ):
        np.testing.assert_array_equal(K.eval(made), expected.astype("float32"), strict=True)
        assert K.is_variable(made)
    kvar = K.variable(np.random.default_rng(0).random((2, 3)))
    zeros, ones = K.eval(K.zeros_like(kvar)), K.eval(K.ones_like(kvar))
    np.testing.assert_array_equal(zeros, np.zeros((2, 3), "float32"), strict=True)
    np.testing.assert_array_equal(ones, np.ones((2, 3), "float32"), strict=True)


def test_zeros_of_a_symbolic_shape(engine: object) -> None:
    """ "if shape was symbolic, we cannot return a variable"."""
    x = K.placeholder((None, 2))
    for made, number in ((K.zeros(K.shape(x)), 0), (K.ones(K.shape(x)), 1)):
        assert not K.is_variable(made)
        [found] = K.function([x], [made])([np.empty((3, 2))])
        np.testing.assert_array_equal(found, np.full((3, 2), number))


@covers("random_uniform_variable", "random_normal_variable", spec=True)
def test_random_variables(engine: object) -> None:
    kvar = K.random_uniform_variable((2, 3), 0, 1)
    assert K.is_variable(kvar)
    value = K.eval(kvar)
    assert shown(kvar) == ((2, 3), "float32")
    assert ((value >= 0) & (value < 1)).all()
    np.testing.assert_array_equal(K.eval(kvar), value)
    kvar = K.random_normal_variable((2, 3), 0, 1)
    assert shown(kvar) == ((2, 3), "float32")
    np.testing.assert_array_equal(K.eval(kvar), K.eval(kvar))


def test_cast() -> None:
    input = K.placeholder((2, 3), dtype="float32")
    assert shown(input) == ((2, 3), "float32")
    assert shown(K.cast(input, dtype="float16")) == ((2, 3), "float16")
    assert shown(input) == ((2, 3), "float32")
    input = K.cast(input, dtype="float16")
    assert shown(input) == ((2, 3), "float16")
    assert not K.is_variable(K.cast(K.variable(1.0), "float64"))
