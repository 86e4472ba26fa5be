"""TensorFlow's tapes: what they find in lowerings, and that they see programs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tensorflow")
import tensorflow as tf

from backplane import backend as K
from backplane import engines
from backplane.core.spec import Spec
from backplane.engines.programs import Program
from backplane.engines.tensorflow import ENGINE
from engines import lowerings

lower = partial(lowerings.lower, ENGINE)
rng = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def on_tensorflow() -> Iterator[None]:
    with engines.use("tensorflow"):
        yield


def floats(*shape: int, dtype: str = "float64") -> Any:
    return tf.constant(rng.normal(size=shape), dtype)


CONVOLUTIONS = {
    "plain": {"groups": 1, "dilation": 1, "strides": 1},
    "dilated": {"groups": 1, "dilation": 2, "strides": 1},
    "dilated-strided": {"groups": 1, "dilation": 2, "strides": 2},
    "grouped": {"groups": 2, "dilation": 1, "strides": 1},
    "depthwise-dilated": {"groups": 4, "dilation": 2, "strides": 1},
}


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("kind", CONVOLUTIONS)
def test_tape_differentiates_convolution_twice(kind: str, rank: int) -> None:
    """By Euler's rule: of y², quadratic in each operand, x · ∂/∂x is the double."""
    options: dict[str, Any] = dict(CONVOLUTIONS[kind])
    groups = options.pop("groups")
    params = {key: (n,) * rank for key, n in options.items()}
    x = floats(1, *(5, 4, 5)[:rank], 4)
    kernel = floats(*(2, 3, 2)[:rank], 4 // groups, 4)

    def loss(x: Any, kernel: Any) -> Any:
        y = lower("conv", x, kernel, padding="same", groups=groups, **params)
        return tf.reduce_sum(y * y)

    with tf.GradientTape() as outer:
        outer.watch([x, kernel])
        with tf.GradientTape() as inner:
            inner.watch([x, kernel])
            y = loss(x, kernel)
        gx, gk = inner.gradient(y, [x, kernel])
        products = tf.reduce_sum(gx * x), tf.reduce_sum(gk * kernel)
    for product in products:
        np.testing.assert_allclose(product, 2 * y, rtol=1e-9)
    for second, first in zip(outer.gradient(products, [x, kernel]), (gx, gk), strict=True):
        np.testing.assert_allclose(second, 4 * first, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_tape_differentiates_pooling(rank: int, dtype: str) -> None:
    x = tf.reshape(tf.cast(tf.range(2 * 4**rank), dtype), (1, *(4,) * rank, 2))
    params = {"pool": (2,) * rank, "strides": (2,) * rank, "padding": "valid"}
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        biggest = lower("max_pool", x, **params, wanted=(True, False))[0]
        mean = lower("avg_pool", x, **params)
    np.testing.assert_array_equal(tf.reduce_sum(tape.gradient(biggest, x)), 2 * 2**rank)
    np.testing.assert_array_equal(tape.gradient(mean, x), np.full(x.shape, 0.5**rank))


def test_stop_gradient_stops_the_tape() -> None:
    x = tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = K.stop_gradient(x) * x
    assert float(tape.gradient(y, x)) == 2.0


def test_tape_sees_a_compiled_program() -> None:
    run = ENGINE.compile(Program(lambda x: (x * x,), [Spec((), "float32")], []))
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        (y,) = run(x)
    assert float(tape.gradient(y, x)) == 6.0
