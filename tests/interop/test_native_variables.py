"""Variables of K in JAX's functions, and variables of engines in K's functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytensor
import pytest
import tensorflow as tf
import torch

from backplane import backend as K


@pytest.fixture(autouse=True)
def _engine_jax() -> None:
    """Loaded, as it is once K runs on JAX."""
    K.exp(jnp.ones(1))


# --- ours in JAX's functions ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [
        jnp.sin, jax.nn.softmax, jnp.asarray, jax.jit(lambda v: v * 2), lambda v: jnp.ones(2) + v,
        lambda v: jnp.maximum(v, jnp.ones(2)), lambda v: jnp.stack([v, v]),
        jax.grad(lambda v: jnp.sum(v * v)), jax.jit(lambda v: jnp.exp(v) + v),
    ],
)  # fmt: skip
@pytest.mark.parametrize("make", [K.variable, K.constant, lambda values: K.variable(values) * 1.0])
def test_a_tensor_with_a_value_is_an_argument_of_jax(
    function: Callable[..., Any], make: Callable[..., Any]
) -> None:
    found = function(make([0.5, 2.0]))
    assert isinstance(found, jax.Array)
    np.testing.assert_allclose(found, function(jnp.array([0.5, 2.0])), rtol=1e-6)


def test_a_tensor_without_a_value_is_refused_in_one_sentence() -> None:
    x = K.placeholder(shape=(2,))
    for function in (jnp.sin, jax.nn.softmax, jax.jit(lambda v: v)):
        with pytest.raises(TypeError, match=r"no value that JAX can hold: use the functions of K"):
            function(x)
    with K.engine("jax"):
        y = jnp.ones(2) + x
        assert K.function([x], [y])([np.ones(2)])[0].tolist() == [2.0, 2.0]


def test_float64_stays_what_it_is() -> None:
    assert (jnp.ones(2) + K.variable([1.0, 2.0], dtype="float64")).dtype == "float64"


# --- variables of engines in K's functions --------------------------------------------------------


def test_a_tensorflow_variable_is_set_and_updated_at_once() -> None:
    v = tf.Variable([1.0, 2.0])
    assert K.is_variable(v)
    assert not K.is_variable(tf.ones(2))
    for update, wanted in (
        (lambda: K.update(v, v + 1.0), [2.0, 3.0]),
        (lambda: K.update(v, K.variable([3.0, 4.0])), [3.0, 4.0]),
        (lambda: K.update_add(v, [1.0, 0.0]), [4.0, 4.0]),
        (lambda: K.update_sub(v, np.array([1.0, 2.0])), [3.0, 2.0]),
        (lambda: K.moving_average_update(v, [1.0, 0.0], 0.5), [2.0, 1.0]),
        (lambda: K.set_value(v, [5, 6]), [5.0, 6.0]),
    ):
        update()
        assert v.numpy().tolist() == wanted
    ours = K.variable([0.0])
    K.batch_set_value([(ours, [1.0]), (v, [7.0, 8.0])])
    assert [a.tolist() for a in K.batch_get_value([ours, v])] == [[1.0], [7.0, 8.0]]
    for wrong in (
        lambda: K.update(v, [1.0, 2.0, 3.0]),
        lambda: K.batch_set_value([(ours, [2.0]), (v, [1.0])]),
    ):
        with pytest.raises(ValueError, match=r"has shape \(2,\)"):
            wrong()
    assert K.get_value(ours).tolist() == [1.0]
    with pytest.raises(TypeError, match=r"K\.update: x must be a variable"):
        K.update(tf.ones(2), tf.zeros(2))


def test_a_tensorflow_variable_is_updated_at_each_run_of_a_function() -> None:
    v = tf.Variable([1.0, 2.0])

    @tf.function
    def step(x: Any) -> Any:
        K.update_add(v, K.sum(x, axis=0))
        return K.sum(v)

    assert [float(step(tf.ones((3, 2)))) for _ in range(2)] == [9.0, 15.0]


def test_a_shared_variable_of_pytensor() -> None:
    v = pytensor.shared(np.array([1.0, 2.0], "float32"), "v")
    assert K.is_variable(v)
    K.set_value(v, [3.0, 4.0])
    assert K.get_value(v).tolist() == [3.0, 4.0]
    step = pytensor.function([], [], updates=[K.update_add(v, 1.0)], mode="FAST_COMPILE")
    step()
    assert v.get_value().tolist() == [4.0, 5.0]


# --- what has no value, or no dtype of ours -------------------------------------------------------


@pytest.mark.parametrize("name", ["jax", "numpy", "torch"])
def test_a_traced_value_is_not_fed_to_a_compiled_function(name: str) -> None:
    x = K.placeholder(shape=(2,))
    with K.engine(name):
        f = K.function([x], [x * 2.0])
    message = r"K\.function .*input 0 .*tensor of jax that has no value yet"
    for _ in range(2):
        for run in (jax.jit, jax.vmap, jax.grad):
            with pytest.raises(TypeError, match=message):
                run(lambda v: f([v])[0].sum())(jnp.ones((2, 2)[: 1 + (run is jax.vmap)]))
        f([np.ones(2)])
    with pytest.raises(TypeError, match=r"K\.eval: got a tensor of tensorflow that has no value"):
        tf.function(K.eval)(tf.ones(2))


@pytest.mark.parametrize(
    "make", [torch.tensor, jnp.array, tf.constant, np.array], ids=["torch", "jax", "tf", "np"]
)
def test_complex_tensors_are_refused(make: Callable[..., Any]) -> None:
    x = make([1 + 2j])
    for function in (
        K.exp,
        K.sum,
        K.abs,
        lambda x: K.concatenate([x, x]),
        lambda x: K.cast(x, "float32"),
    ):
        with pytest.raises(TypeError, match=r"^K\.\w+: \w+: expected .* dtype complex"):
            function(x)
    with pytest.raises(TypeError, match="complex"):
        K.placeholder(shape=(1,)) * x


def test_backend_names_the_engine_in_force() -> None:
    before = K.backend()
    with K.engine("pytorch"):
        assert K.backend() == "torch"
        with K.engine("jax"):
            assert K.backend() == "jax"
    assert K.backend() == before
