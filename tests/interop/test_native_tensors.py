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


@pytest.mark.parametrize("make", [torch.tensor, jnp.array, tf.constant])
def test_what_has_a_value_counts_as_its_value(make: Any) -> None:
    """Beside a native tensor, variables and closed symbolic tensors are computed too."""
    x = make(X)
    weights, twice = K.variable([1.0, 2.0, 3.0]), K.constant(2.0)
    whole = K.constant([3, 4], dtype="int32")
    for found, wanted in (
        (x * weights, X * [1, 2, 3]),
        (weights - x, [1, 2, 3] - X),
        (K.maximum(x, twice), np.maximum(X, 2)),
        (K.dot(x, K.reshape(weights * twice, (3, 1))), X @ [[2.0], [4.0], [6.0]]),
        (K.reshape(x, whole), X.reshape(3, 4)),
        (weights > x, X < [1, 2, 3]),
        (x + K.random_normal((4, 3)) * 0.0, X),
    ):
        assert isinstance(found, type(x))
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    y = K.placeholder(shape=(4, 3))
    np.testing.assert_allclose(K.function([y], [y + X])([X])[0], 2 * X, rtol=1e-6)
    with K.engine({"torch": "torch", "jaxlib": "jax"}.get(type(x).__module__[:6], "tensorflow")):
        np.testing.assert_allclose(K.function([y], [y * weights + x])([X])[0], X * [2, 3, 4], 1e-5)


@pytest.mark.parametrize("make", [torch.tensor, jnp.array, tf.constant])
def test_shapes_given_by_native_tensors(make: Any) -> None:
    x = make(X)
    assert tuple(K.random_normal(K.shape(x)).shape) == (4, 3)
    assert tuple(K.random_uniform((K.shape(x)[0], 2)).shape) == (4, 2)
    assert isinstance(K.arange(K.shape(x)[0]), type(x))


def test_sizes_in_traces() -> None:
    def f(x: Any) -> Any:
        rows = K.shape(x)[0]
        wide = K.reshape(x, (rows, K.prod(K.shape(x)[1:])))
        return K.concatenate([wide, K.random_uniform((rows, 1)) * 0.0])

    wanted = np.concatenate([X, np.zeros((4, 1))], 1)
    np.testing.assert_allclose(jax.jit(f)(X), wanted, rtol=1e-6)
    compiled = tf.function(f, input_signature=[tf.TensorSpec((None, 3))])
    np.testing.assert_allclose(compiled(X), wanted, rtol=1e-6)


def test_symbolic_sizes_of_jax() -> None:
    from jax import export

    (n,) = export.symbolic_shape("n", constraints=["n>=2"])

    def f(x: Any, y: Any) -> Any:
        wide = K.reshape(x, (-1, 2, 3))
        noise = K.random_normal((K.shape(x)[0], 2))
        step = K.rnn(lambda t, s: (t, s), y, [])[1]
        return wide, noise, K.concatenate([x, x], axis=0), K.conv1d(y, np.ones((3, 3, 4))), step

    x = jax.ShapeDtypeStruct((n, 6), "float32")
    y = jax.ShapeDtypeStruct((n, 5, 3), "float32")
    shapes = [found.shape for found in jax.eval_shape(f, x, y)]
    assert shapes == [(n, 2, 3), (n, 2), (2 * n, 6), (n, 3, 4), (n, 5, 3)]


@pytest.mark.parametrize("seed", [3, None])
def test_random_numbers_are_drawn_at_each_run_of_a_trace(seed: int | None) -> None:
    """The same ones, with a seed, as in eager mode."""

    def drawn(name: str) -> list[Any]:
        with K.engine(name):
            tensor = K.random_normal((3,), seed=3)
            return [K.eval(tensor) for _ in range(3)]

    def f(x: Any) -> Any:
        return x + K.random_normal(K.shape(x), seed=seed)

    # XLA makes other numbers of TensorFlow's keys.
    functions = {
        "jax": jax.jit(f),
        "tensorflow": tf.function(f),
        "": tf.function(f, jit_compile=True),
    }
    for name, function in functions.items():
        found = [np.array(function(np.zeros(3, "float32"))) for _ in range(3)]
        assert not np.array_equal(found[0], found[1])
        if seed is not None and name:
            np.testing.assert_allclose(found, drawn(name), rtol=1e-5)
    slope = jax.jit(jax.grad(lambda x: K.sum(x * K.random_uniform((3,)))))
    assert not np.array_equal(slope(jnp.zeros(3)), slope(jnp.zeros(3)))


@pytest.mark.parametrize("make", [jnp.array, tf.constant, torch.tensor])
@pytest.mark.parametrize(
    "function",
    [K.maximum, K.dot, lambda x, y: K.clip(x, y, 9.0), lambda x, y: K.concatenate([x, y])],
)
def test_an_array_takes_the_dtype_of_the_native_tensor_beside_it(make: Any, function: Any) -> None:
    x = make(X[:3])
    wide = np.asarray(Y[:3], "float64")
    assert K.dtype(function(x, wide)) == "float32"
    # Another trace, though all shapes and dtypes are the same: two native tensors are equals.
    if make is not jnp.array:  # whose default makes float32 of it
        assert K.dtype(function(x, make(wide))) == "float64"
    # Arrays alone decide themselves.
    assert K.dtype(function(np.asarray(X[:3]), wide)) == "float64"


def test_an_array_takes_the_dtype_inside_of_jit() -> None:
    found = jax.jit(lambda x: K.maximum(x, np.asarray(Y, "float64")))(jnp.array(X))
    assert found.dtype == "float32"
