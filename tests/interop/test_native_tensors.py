"""K functions on the engines' own tensors, inside their own transformations."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf
import torch

from backplane import backend as K

RNG = np.random.default_rng(0)
X = RNG.standard_normal((4, 3)).astype("float32")
Y = RNG.random((4, 3)).astype("float32")


def loss(x: Any, y: Any) -> Any:
    """A loss as Keras users write it, with a constant array among its operands."""
    scores = K.softmax(K.dot(K.tanh(x), np.eye(3, dtype="float32") * 2.0))
    return K.mean(K.categorical_crossentropy(y, scores)) + 0.1 * K.sum(K.square(x))


def symbolic() -> tuple[np.ndarray, np.ndarray]:
    """Value and gradient on the graph."""
    x, y = K.placeholder(shape=(4, 3)), K.placeholder(shape=(4, 3))
    value = loss(x, y)
    found: list[np.ndarray] = K.function([x, y], [value, K.gradients(value, [x])[0]])([X, Y])
    return found[0], found[1]


def test_jax_transformations() -> None:
    value, slope = symbolic()
    assert isinstance(loss(jnp.array(X), jnp.array(Y)), jax.Array)
    # Traced twice by different functions: nothing of the first trace may be left in the second.
    np.testing.assert_allclose(jax.jit(loss)(X, Y), value, rtol=1e-5)
    np.testing.assert_allclose(jax.jit(lambda x: loss(x, jnp.array(Y)))(X), value, rtol=1e-5)
    np.testing.assert_allclose(jax.grad(loss)(jnp.array(X), jnp.array(Y)), slope, rtol=1e-4)
    rows = jax.vmap(lambda x: K.sum(x * x))(jnp.array(X))
    np.testing.assert_allclose(rows, (X * X).sum(1), rtol=1e-5)
    hessian = jax.hessian(lambda x: K.sum(x * x * x))(jnp.array([1.0, 2.0]))
    np.testing.assert_allclose(hessian, np.diag([6.0, 12.0]), rtol=1e-5)


def test_torch_autograd_and_modules() -> None:
    value, slope = symbolic()
    x = torch.tensor(X, requires_grad=True)
    found = loss(x, torch.tensor(Y))
    found.backward()
    np.testing.assert_allclose(found.detach(), value, rtol=1e-5)
    np.testing.assert_allclose(x.grad, slope, rtol=1e-4, atol=1e-6)

    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(3, 2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return K.relu(K.dot(x, self.weight))

    layer = Layer()
    layer(torch.ones(1, 3)).sum().backward()
    assert layer.weight.grad is not None
    np.testing.assert_allclose(layer.weight.grad, np.ones((3, 2)))


def test_tensorflow_tape_and_functions() -> None:
    value, slope = symbolic()
    x = tf.constant(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        found = loss(x, tf.constant(Y))
    np.testing.assert_allclose(found, value, rtol=1e-5)
    np.testing.assert_allclose(tape.gradient(found, x), slope, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(tf.function(loss)(tf.constant(X), tf.constant(Y)), value, rtol=1e-5)
    again = tf.function(lambda x: loss(x, tf.constant(Y)))
    np.testing.assert_allclose(again(tf.constant(X)), value, rtol=1e-5)
    rows = tf.TensorSpec((None, 3))
    unknown = tf.function(loss, input_signature=[rows, rows])
    np.testing.assert_allclose(unknown(X, Y), value, rtol=1e-5)


def test_tensors_of_two_engines_are_refused() -> None:
    with pytest.raises(TypeError, match=r"different engines .*jax and torch"):
        K.maximum(jnp.ones(2), torch.ones(2))
    x = K.placeholder(shape=(2,))
    with K.engine("numpy"), pytest.raises(TypeError, match="torch"):
        K.function([x], [x + torch.ones(2)])([np.ones(2)])


def test_the_engine_is_taken_from_the_tensor() -> None:
    with K.engine("numpy"):
        assert isinstance(K.exp(torch.ones(2)), torch.Tensor)
        assert isinstance(K.exp(jnp.ones(2)), jax.Array)
        assert isinstance(K.exp(np.ones(2)), np.ndarray)
