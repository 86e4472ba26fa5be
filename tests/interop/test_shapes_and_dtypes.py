"""Shapes and dtypes as libraries and Python spell them, as arguments of K functions."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

from backplane import backend as K

A = np.arange(6, dtype="float32").reshape(2, 3)

MAKERS = {
    "zeros": lambda shape: K.zeros(shape),
    "ones": lambda shape: K.ones(shape=shape),
    "placeholder": lambda shape: K.placeholder(shape),
    "constant": lambda shape: K.constant(1.0, shape=shape),
    "random_normal": lambda shape: K.random_normal(shape),
    "random_uniform": lambda shape: K.random_uniform(shape),
    "truncated_normal": lambda shape: K.truncated_normal(shape),
    "random_binomial": lambda shape: K.random_binomial(shape),
    "random_normal_variable": lambda shape: K.random_normal_variable(shape, 0.0, 1.0),
    "random_uniform_variable": lambda shape: K.random_uniform_variable(shape, 0.0, 1.0),
}  # fmt: skip


def shapes(engine: Any) -> list[Any]:
    """The shape (2, 3) in the forms in which it comes."""
    found = [
        engine.from_numpy(A).shape, A.shape, K.constant(A).shape, [2, 3], np.array([2, 3]),
        range(2, 4), (np.int64(2), np.int32(3)),
    ]  # fmt: skip
    if engine.name == "tensorflow":
        tf = importlib.import_module("tensorflow")
        found += [tf.TensorShape([2, 3]), [tf.compat.v1.Dimension(2), 3]]
    if engine.name == "theano":
        found = found[1:]  # A vector of PyTensor, whose values are unknown.
    return found


@pytest.mark.parametrize("name", MAKERS)
def test_shapes_of_new_tensors(engine, name):
    for shape in shapes(engine):
        made = MAKERS[name](shape)
        assert tuple(made.shape) == (2, 3), shape


def test_shapes_as_arguments(engine):
    x, y = K.placeholder((None,)), K.placeholder((2, 3))
    for shape in shapes(engine):
        results = [
            K.reshape(x, shape), np.reshape(x, shape), K.dropout(y, 0.5, noise_shape=shape),
            K.slice(K.concatenate([y, y]), (0, 0), shape),
        ]  # fmt: skip
        assert [K.int_shape(t) for t in results] == [(2, 3)] * 4
        assert K.int_shape(K.tile(y, shape)) == (4, 9)
    for value in (engine.from_numpy(A.ravel()), A.ravel()):
        for shape in shapes(engine):
            found = K.eval(K.reshape(value, shape))
            np.testing.assert_array_equal(found, A)


def test_an_unknown_size_in_the_shape_of_a_tensor(engine):
    x, y = K.placeholder((None, 6)), K.placeholder((None, 2, 3))
    assert K.int_shape(K.reshape(x, y.shape)) == (None, 2, 3)
    assert K.function([x], [K.reshape(x, y.shape)])([np.ones((4, 6))])[0].shape == (4, 2, 3)
    refused = r"each size must be an int, got None in \(None, 2, 3\); K\.shape\(x\) gives"
    with pytest.raises(TypeError, match=rf"^K\.zeros: shape: {refused}"):
        K.zeros(y.shape)
    with pytest.raises(TypeError, match=rf"^K\.reshape: shape: {refused}"):
        K.reshape(x, (None, 2, 3))


def test_shapes_in_functions_of_tensorflow():
    tf = pytest.importorskip("tensorflow")

    @tf.function(input_signature=[tf.TensorSpec((None, 6)), tf.TensorSpec((None, 2, 3))])
    def f(x, y):
        return K.reshape(x, y.shape) + K.ones(y.shape[1:])

    assert f(np.ones((4, 6), "float32"), np.ones((4, 2, 3), "float32")).shape == (4, 2, 3)
    image, kernel = tf.ones((1, 2, 2, 1)), tf.ones((2, 2, 1, 1))
    assert K.conv2d_transpose(image, kernel, tf.TensorShape([1, 3, 3, 1])).shape == (1, 3, 3, 1)
    with pytest.raises(ValueError, match=r"^K\.ones: shape has an unknown number of sizes"):
        K.ones(tf.TensorShape(None))


DTYPES = {
    "float": "float32", "double": "float64", "half": "float16", "single": "float32",
    "<f4": "float32", "f8": "float64", float: "float32", int: "int64", bool: "bool",
    np.float32: "float32", np.dtype("float64"): "float64", np.bool_: "bool", np.int32: "int32",
}  # fmt: skip
OBJECTS = {
    "torch": ("torch", ["float", "double", "half", "float32", "bool"]),
    "tensorflow": ("tensorflow", ["float32", "half", "double", "bool"]),
    "jax": ("jax.numpy", ["float32", "float64", "float16", "bool_"]),
    "mlx": ("mlx.core", ["float32", "float16", "bool_"]),
}


def test_dtypes(engine):
    named = dict(DTYPES)
    library, names = OBJECTS.get(engine.name, ("numpy", ["float32", "half", "double"]))
    spelled = {"float": "float32", "double": "float64", "half": "float16", "bool_": "bool"}
    for name in names:
        named[getattr(importlib.import_module(library), name)] = spelled.get(name, name)
    if "float16" in engine.missing_dtypes:
        named = {given: name for given, name in named.items() if name != "float16"}
    x, native = K.placeholder((2,)), engine.from_numpy(np.array([1, 0], "float32"))
    for given, name in named.items():
        for t in (K.cast(x, given), K.zeros((2,), dtype=given), K.placeholder((2,), dtype=given),
                  K.variable([1, 0], dtype=given), K.constant([1, 0], given), K.eye(2, given),
                  K.ones_like(x, dtype=given)):  # fmt: skip
            assert t.dtype == name, given
        assert K.dtype(K.cast(native, given)) == name, given
    for given in ("floats", "long", "f3", object, "x4", ""):
        with pytest.raises(ValueError, match=r"^K\.cast: dtype .* is unknown.*; there are bfloat"):
            K.cast(x, given)
