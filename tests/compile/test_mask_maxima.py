"""The mask of a relu under a max-pooling."""

from __future__ import annotations

import numpy as np
import pytest

from backplane import backend as K
from backplane import engines
from backplane.compile import passes
from backplane.compile.passes.peephole import peephole
from backplane.core.graph import toposort

WINDOWS = [((2, 2), (2, 2), "valid"), ((3, 3), (2, 2), "same"), ((2, 2), (1, 1), "valid")]


def order_of(outputs):
    return [n.op.name for n in toposort(outputs) if n.op is not None]


def names(outputs):
    return order_of(peephole(outputs, engines.get("numpy")))


def gradients(pool=(2, 2), strides=(2, 2), padding="valid"):
    """Input, relu, and the gradients of a pooling by both."""
    x = K.placeholder(shape=(None, 6, 6, 2))
    h = K.relu(x)
    y = K.pool2d(h, pool, strides=strides, padding=padding)
    return x, h, K.gradients(K.sum(y * K.constant([2.0, np.inf])), [x, h])


def test_the_mask_comes_before_the_gradient_is_spread():
    _, _, (dx, _) = gradients()
    order = names([dx])
    assert order.index("relu_grad") < order.index("max_pool_grad")


def test_a_gradient_that_somebody_reads_is_not_computed_twice():
    _, _, both = gradients()
    order = names(both)
    assert order.index("max_pool_grad") < order.index("relu_grad")
    assert order.count("max_pool_grad") == 1


def test_a_compiler_that_fuses_masks_the_large_result(engine):
    """XLA does that in one kernel; earlier masks take a third more memory."""
    _, _, (dx, _) = gradients()
    found = passes.optimized([dx], passes.Job(engine)).outputs
    with passes.without("peephole"):
        plain = passes.optimized([dx], passes.Job(engine)).outputs
    assert (order_of(found) != order_of(plain)) == ("fuses" not in engine.capabilities)


@pytest.mark.parametrize(("pool", "strides", "padding"), WINDOWS)
def test_both_orders_give_the_same_numbers(engine, pool, strides, padding):
    """Windows of negative elements, ties, and an infinite cotangent."""
    x, _, (dx, _) = gradients(pool, strides, padding)
    values = np.random.default_rng(5).integers(-4, 3, (3, 6, 6, 2)).astype("float32")
    found = K.function([x], [dx])([values])[0]
    with passes.without("peephole"):
        plain = K.function([x], [dx])([values])[0]
    np.testing.assert_array_equal(found, plain)
    assert np.isfinite(plain).sum() > plain.size // 2
    assert np.isinf(plain).any()
    assert not np.isnan(plain).any()
