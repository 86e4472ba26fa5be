"""K functions under what JAX, TensorFlow, PyTorch and PyTensor do to functions."""

from __future__ import annotations

import os
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
import tensorflow as tf
import torch
import torch.utils.checkpoint

import waiting
from backplane import backend as K

RNG = np.random.default_rng(1)
X = RNG.standard_normal((4, 3)).astype("float32")


def energy(x: Any) -> Any:
    """The sum of x³: gradient 3x², second derivative 6x."""
    return K.sum(K.square(x) * K.clip(x, -100.0, 100.0))


# --- JAX -----------------------------------------------------------------------------------------


def test_jax_checkpoint_and_second_order() -> None:
    slope = jax.grad(jax.checkpoint(energy))
    np.testing.assert_allclose(slope(X), 3 * X**2, rtol=1e-5)
    np.testing.assert_allclose(jax.grad(lambda x: slope(x).sum())(X), 6 * X, rtol=1e-5)
    value, tangent = jax.jvp(energy, (X,), (np.ones_like(X),))
    np.testing.assert_allclose(value, (X**3).sum(), rtol=1e-4)
    np.testing.assert_allclose(tangent, (3 * X**2).sum(), rtol=1e-5)


def test_jax_sizes_that_are_computed_from_sizes() -> None:
    def rows(x: Any) -> Any:
        return K.reshape(x, (K.prod(K.shape(x)),)), K.tile(x, (K.shape(x)[0] // 2, 1))

    assert [y.shape for y in jax.jit(rows)(X)] == [(12,), (8, 3)]


def test_a_shape_in_a_vector_is_known_while_jax_traces() -> None:
    x, y = jnp.arange(12.0).reshape(4, 3), jnp.ones((3, 4))

    def reshaped(x: jax.Array, y: jax.Array) -> list[jax.Array]:
        shape = K.concatenate([K.shape(y)[:1], [-1]])
        return [K.reshape(x, K.shape(y)), K.reshape(x, shape), K.tile(x, K.shape(y) // 3)]

    for traced in (jax.jit(reshaped), reshaped):
        first, second, third = traced(x, y)
        assert (first == x.reshape(3, 4)).all()
        assert (second == first).all()
        assert third.shape == (4, 3)
    gradient = jax.grad(lambda x: K.sum(reshaped(x, y)[1] * y))(x)
    assert (gradient == 1).all()


OPEN = {
    "a vector": (lambda x: K.reshape(x, K.concatenate([K.shape(x)[:1], [-1]])), ("b", "6*t")),
    "a stack": (lambda x: K.reshape(x, K.stack([K.shape(x)[0], -1, 3])), ("b", "2*t", 3)),
    "a product": (lambda x: K.reshape(x, (K.prod(K.shape(x)[:2]), 3)), ("2*b*t", 3)),
    "repeated": (lambda x: K.tile(x, K.stack([1, 1, K.shape(x)[0]])), ("b", "2*t", "3*b")),
    "zeros": (lambda x: x + K.zeros(K.shape(x)), ("b", "2*t", 3)),
    "random": (lambda x: x + K.random_normal(K.shape(x)), ("b", "2*t", 3)),
    "a half": (lambda x: x[:, : K.shape(x)[1] // 2], ("b", "t", 3)),
}


@pytest.mark.parametrize("name", OPEN)
def test_jax_shapes_with_open_sizes(name: str) -> None:
    function, expected = OPEN[name]
    b, t = jax.export.symbolic_shape("b, t")
    given = jax.ShapeDtypeStruct((b, 2 * t, 3), jnp.float32)
    assert tuple(map(str, jax.eval_shape(function, given).shape)) == tuple(map(str, expected))


def test_shapes_that_are_native_tensors() -> None:
    for shape in (torch.tensor([2, 3]), tf.constant([2, 3]), jnp.array([2, 3])):
        assert K.int_shape(K.zeros(shape)) == K.int_shape(K.ones(shape)) == (2, 3)


def test_jax_scan_and_custom_vjp() -> None:
    def step(carry: Any, row: Any) -> Any:
        new = K.tanh(carry + row)
        return new, K.sum(new)

    last, sums = jax.lax.scan(step, jnp.zeros(3), jnp.array(X))
    carry = np.zeros(3, "float32")
    for row, total in zip(X, sums, strict=True):
        carry = np.tanh(carry + row)
        np.testing.assert_allclose(total, carry.sum(), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(last, carry, rtol=1e-5)

    @jax.custom_vjp
    def clipped(x: Any) -> Any:
        return K.relu(x)

    clipped.defvjp(
        lambda x: (K.relu(x), x), lambda x, g: (K.switch(K.greater(x, -1.0), g, K.zeros_like(g)),)
    )
    found = jax.grad(lambda x: K.sum(clipped(x)))(jnp.array([-2.0, -0.5, 1.0]))
    np.testing.assert_array_equal(found, [0.0, 1.0, 1.0])


SHARDED = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, PartitionSpec as P
from backplane import backend as K

mesh = Mesh(np.array(jax.devices()), ("rows",))
x = jnp.arange(8.0).reshape(4, 2)

def normalized(x):
    total = jax.lax.psum(K.sum(x, axis=0), "rows")
    return K.maximum(x, 1.0) / total

run = jax.shard_map(normalized, mesh=mesh, in_specs=P("rows"), out_specs=P("rows"))
want = np.maximum(x, 1.0) / np.asarray(x).sum(0)
np.testing.assert_allclose(run(x), want, rtol=1e-6)
np.testing.assert_allclose(jax.jit(run)(x), want, rtol=1e-6)
slope = jax.grad(lambda x: K.sum(K.square(run(x))))(x)
assert slope.shape == x.shape
both = jax.pmap(lambda row: K.softmax(row))(x[:2])
np.testing.assert_allclose(both.sum(-1), 1.0, rtol=1e-6)
spread = jax.device_put(x, jax.NamedSharding(mesh, P("rows")))
assert K.exp(spread).sharding == spread.sharding
print(len(jax.devices()))
"""


def test_jax_on_two_devices() -> None:
    env = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    done = waiting.run([sys.executable, "-c", SHARDED], env=env)
    assert done.stdout == "2\n", done.stderr


# --- TensorFlow ----------------------------------------------------------------------------------


def test_tensorflow_second_order_and_xla() -> None:
    x = tf.constant(X)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            value = energy(x)
        slope = inner.gradient(value, x)
    np.testing.assert_allclose(slope, 3 * X**2, rtol=1e-5)
    np.testing.assert_allclose(outer.gradient(slope, x), 6 * X, rtol=1e-5)
    compiled = tf.function(energy, jit_compile=True)
    np.testing.assert_allclose(compiled(x), (X**3).sum(), rtol=1e-4)


def test_tensorflow_tapes_of_maxima() -> None:
    """What keeps TensorFlow's optimizer away from an operation has a gradient too."""

    @tf.function
    def slope(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = K.sum(K.max(K.exp(x), axis=-1)) + K.sum(K.maximum(2.0 * x, x))
        return tape.gradient(value, x)

    x = X - 1
    largest = np.where(x == x.max(-1, keepdims=True), np.exp(x), 0)
    np.testing.assert_allclose(slope(tf.constant(x)), largest + np.where(x > 0, 2, 1), rtol=1e-5)


def test_tensorflow_variables_loops_and_datasets() -> None:
    weights = tf.Variable(X)
    with tf.GradientTape() as tape:
        value = K.mean(K.square(weights))
    np.testing.assert_allclose(tape.gradient(value, weights), X / 6, rtol=1e-5)
    rows = tf.map_fn(lambda row: K.softmax(row), tf.constant(X))
    np.testing.assert_allclose(tf.reduce_sum(rows, -1), np.ones(4), rtol=1e-5)
    batches = tf.data.Dataset.from_tensor_slices(X).batch(3)
    sums = [s.numpy() for s in batches.map(lambda batch: K.sum(batch, axis=-1))]
    np.testing.assert_allclose(np.concatenate(sums), X.sum(-1), rtol=1e-5)


def test_autograph_leaves_k_functions_alone(caplog: pytest.LogCaptureFixture) -> None:
    def function(x: Any) -> Any:
        with K.name_scope("scope"):
            scaled = K.dot(x, K.constant(np.eye(3), "float32")) * K.epsilon()
        return K.in_train_phase(K.dropout(scaled, 0.5), scaled) + K.ones((3,))

    with caplog.at_level("WARNING", "tensorflow"):
        tf.function(function)(tf.constant(X))
        list(tf.data.Dataset.from_tensors(X).map(function))
    assert not caplog.records


# --- PyTorch -------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_torch_func_and_grad_mode() -> None:
    x = torch.tensor(X)
    torch.testing.assert_close(torch.func.grad(energy)(x), 3 * x**2)
    torch.testing.assert_close(torch.func.vmap(energy)(x), (x**3).sum(-1))
    per_row = torch.func.vmap(torch.func.grad(energy))
    torch.testing.assert_close(per_row(x), 3 * x**2)
    torch.testing.assert_close(torch.func.hessian(energy)(x[0]), torch.diag(6 * x[0]))
    x.requires_grad_()
    with torch.no_grad():
        assert not energy(x).requires_grad
    with torch.inference_mode():
        assert energy(x).is_inference()
    assert energy(x).requires_grad


@pytest.mark.parametrize(
    "function",
    [
        K.tanh,
        K.softmax,
        lambda x: K.l2_normalize(x, axis=-1),
        lambda x: K.logsumexp(x, axis=1),
        lambda x: K.dot(x, K.transpose(x)),
        lambda x: K.batch_normalization(x, x[0], K.exp(x[1]), x[2], x[3]),
        lambda x: K.conv1d(K.expand_dims(x, 0), K.reshape(x, (2, 3, 2)), padding="same"),
    ],
)
def test_torch_gradcheck(function: Any) -> None:
    x = torch.tensor(X, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(function, (x,))
    assert torch.autograd.gradgradcheck(function, (x,))


def recurrent(x: Any) -> Any:
    """The last output of a loop."""

    def step(row: Any, states: Any) -> Any:
        new = K.tanh(row + states[0])
        return new, [new]

    return K.sum(K.rnn(step, x, [x[:, 0] * 0.0])[0])


@pytest.mark.parametrize(
    "function",
    [
        recurrent,
        lambda x: K.logsumexp(x) + K.sum(K.var(x, axis=0)) + K.max(x),
        lambda x: K.sum(K.square(K.conv1d(x, K.ones((2, 3, 2))))),
        lambda x: K.sum(K.pool2d(K.expand_dims(x), (2, 2))),
        lambda x: K.sum(K.map_fn(lambda row: row * row, x)),
        lambda x: K.sum(K.ctc_batch_cost(
            np.array([[0, 1], [1, 0]]), K.softmax(x), np.full((2, 1), 6), np.full((2, 1), 2)
        )),
    ],
)  # fmt: skip
def test_torch_func_and_checkpoint_of_each_kind_of_function(function: Any) -> None:
    x = torch.randn(2, 6, 3, generator=torch.Generator().manual_seed(0), requires_grad=True)
    (wanted,) = torch.autograd.grad(function(x), x)
    plain = x.detach()
    torch.testing.assert_close(torch.func.grad(function)(plain), wanted)
    torch.testing.assert_close(torch.func.jacrev(function)(plain), wanted)
    torch.testing.assert_close(torch.func.jacfwd(function)(plain), wanted, rtol=1e-4, atol=1e-5)
    both = torch.func.vmap(torch.func.grad(function))(torch.stack([plain, plain]))
    torch.testing.assert_close(both[1], wanted)
    saved = torch.utils.checkpoint.checkpoint(function, x, use_reentrant=False)
    torch.testing.assert_close(torch.autograd.grad(saved, x)[0], wanted)


# --- PyTensor ------------------------------------------------------------------------------------


def test_pytensor_grad_and_shared_variables() -> None:
    x, shared = pt.matrix("x", dtype="float32"), pytensor.shared(X, "w", shape=X.shape)
    value = energy(x * shared)
    slopes = pytensor.grad(value, [x, shared])
    run = pytensor.function([x], [value, *slopes], mode="FAST_COMPILE")
    ones = np.ones_like(X)
    total, of_x, of_shared = run(ones)
    np.testing.assert_allclose(total, (X**3).sum(), rtol=1e-4)
    np.testing.assert_allclose(of_x, 3 * X**3, rtol=1e-4)
    np.testing.assert_allclose(of_shared, 3 * X**2, rtol=1e-4)
