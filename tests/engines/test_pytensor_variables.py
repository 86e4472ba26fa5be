"""Users' own variables of PyTensor in functions of K."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pytensor")
import pytensor
import pytensor.tensor as pt
from pytensor.compile.mode import FAST_COMPILE

from backplane import backend as K
from backplane import engines

rng = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def on_pytensor() -> Iterator[None]:
    with engines.use("theano"):
        yield


def floats(*shape: int) -> np.ndarray:
    return rng.uniform(-1, 1, shape).astype("float32")


def evaluated(x: Any, given: dict[Any, np.ndarray]) -> Any:
    return pytensor.function(list(given), x, mode=FAST_COMPILE, on_unused_input="ignore")(
        *given.values()
    )


def test_functions_of_variables_give_variables() -> None:
    x = pt.tensor("x", shape=(None, 3), dtype="float32")
    y = K.mean(K.softmax(x), axis=0)
    assert isinstance(y.type, pt.TensorType)
    assert (y.type.shape, y.type.dtype) == ((3,), "float32")
    a = floats(4, 3)
    e = np.exp(a)
    np.testing.assert_allclose(
        evaluated(y, {x: a}), (e / e.sum(1, keepdims=True)).mean(0), rtol=1e-5
    )


def test_arrays_beside_variables_are_constants_and_alone_run_at_once() -> None:
    x = pt.tensor("x", shape=(3,), dtype="float32")
    np.testing.assert_allclose(
        evaluated(K.maximum(x, np.zeros(3, "float32")), {x: -np.ones(3, "float32")}), 0
    )
    assert isinstance(K.maximum(-np.ones(3, "float32"), np.zeros(3, "float32")), np.ndarray)


def test_pytensor_differentiates_through_lowerings() -> None:
    x = pt.tensor("x", shape=(None, 6, 6, 2), dtype="float32")
    kernel = pytensor.shared(floats(3, 3, 2, 4), shape=(3, 3, 2, 4))

    def loss(x: Any, kernel: Any) -> Any:
        h = K.conv2d(x, kernel, padding="same")
        h = K.pool2d(h, (2, 2), (2, 2)) + K.pool2d(h, (2, 2), (2, 2), pool_mode="avg")
        return K.sum(K.square(h) * K.stop_gradient(h))

    a = floats(2, 6, 6, 2)
    found = evaluated(pytensor.grad(loss(x, kernel), [x, kernel]), {x: a})
    ours = K.placeholder((None, 6, 6, 2)), K.variable(kernel.get_value())
    wanted = K.function(ours[:1], K.gradients(loss(*ours), list(ours)))([a])
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_pytensor_differentiates_through_recurrence() -> None:
    x = pt.tensor("x", shape=(2, 3, 4), dtype="float32")

    def loss(x: Any) -> Any:
        def step(row: Any, states: Any) -> Any:
            new = K.tanh(row + states[0])
            return new, [new]

        return K.sum(K.rnn(step, x, [K.zeros_like(x[:, 0])])[0])

    a = floats(2, 3, 4)
    found = pytensor.function([x], pytensor.grad(loss(x), x), mode=FAST_COMPILE)(a)
    ours = K.placeholder((2, 3, 4))
    wanted = K.function([ours], K.gradients(loss(ours), [ours]))([a])[0]
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_stop_gradient_disconnects() -> None:
    x = pt.vector("x", dtype="float32")
    with pytest.raises(pytensor.gradient.DisconnectedInputError):
        pytensor.grad(K.sum(K.stop_gradient(x)), x)


def test_variables_inside_a_program_are_read_at_each_call() -> None:
    shared = pytensor.shared(np.float32([1, 2]), shape=(2,))
    x = K.placeholder((2,))
    f = K.function([x], [x * shared])
    np.testing.assert_array_equal(f([[3, 4]])[0], [3, 8])
    shared.set_value(np.float32([5, 6]))
    np.testing.assert_array_equal(f([[3, 4]])[0], [15, 24])
