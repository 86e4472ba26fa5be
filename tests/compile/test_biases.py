"""Products with a sum as one node, for engines that have a kernel."""

from __future__ import annotations

import numpy as np
import pytest

from backplane import backend as K
from backplane import engines
from backplane.compile.passes.peephole import peephole_lowered
from backplane.core.graph import toposort
from core.evaluate import leaf

RNG = np.random.default_rng(3)


@pytest.fixture
def fused():
    """An engine that has `matmul_add`."""
    installed = map(engines.get, filter(engines.installed, engines.names()))
    for engine in installed:
        if "matmul_add" in engine.table:
            return engine
    pytest.skip("no installed engine has the kernel")


def names(outputs, engine):
    return [n.op.name for n in toposort(peephole_lowered(outputs, engine)) if n.op is not None]


@pytest.mark.parametrize("shape", [(), (4,), (1, 4), (2, 4), (2, 1)])
@pytest.mark.parametrize("order", [0, 1])
def test_a_sum_that_fits_is_joined(fused, shape, order):
    x, w, c = leaf(2, 3), leaf(3, 4), leaf(*shape)
    product = K.dot(x, w)
    y = c + product if order else product + c
    assert names([y], fused) == ["matmul_add"]
    data = [RNG.normal(size=t.spec.shape) for t in (x, w, c)]
    with K.engine(fused.name):
        found = K.function([x, w, c], [y])(data)[0]
    np.testing.assert_allclose(found, data[0] @ data[1] + data[2], rtol=1e-12)


@pytest.mark.parametrize("batch", [2, None])
def test_the_bias_of_a_dense_layer_on_sequences_is_joined(fused, batch):
    """A product over the last of three axes is one of rows, in another shape."""
    x, w, c = leaf(batch, 5, 3), leaf(3, 4), leaf(4)
    y = K.bias_add(K.dot(x, w), c)
    kinds = names([y], fused)
    assert "matmul_add" in kinds
    assert "add" not in kinds
    data = [RNG.normal(size=shape) for shape in ((2, 5, 3), (3, 4), (4,))]
    with K.engine(fused.name):
        found = K.function([x, w, c], [y])(data)[0]
    np.testing.assert_allclose(found, data[0] @ data[1] + data[2], rtol=1e-12)


def test_other_sums_of_products_in_another_shape_stay(fused):
    x, w = leaf(2, 5, 3), leaf(3, 4)
    product = K.dot(x, w)
    assert "matmul_add" not in names([product + leaf(4), product], fused)
    assert "matmul_add" not in names([K.dot(x, w) + leaf(5, 1)], fused)
    assert "matmul_add" not in names([K.reshape(K.dot(x, w), (2, 10, 2)) + leaf(2)], fused)


def test_what_is_read_twice_or_broadcast_up_stays(fused):
    x, w = leaf(None, 3), leaf(3, 4)
    product = K.dot(x, w)
    assert "matmul_add" not in names([product + 1.0, product], fused)
    assert "matmul_add" not in names([K.dot(x, w) + leaf(None, 4)], fused)
    assert "matmul_add" not in names([K.dot(x, w) + leaf(5, 1, 4)], fused)
    assert "matmul_add" not in names([K.dot(leaf(1, 3), w) + leaf(5, 4)], fused)


def test_transposed_operands_and_several_sums(fused):
    x, w, c = leaf(3, 2), leaf(4, 3), leaf(2, 4)
    y = K.tanh(K.dot(K.transpose(x), K.transpose(w)) + c) + K.dot(c, K.dot(K.transpose(c), c))
    grads = K.gradients(K.sum(K.square(y)), [x, w, c])
    data = [RNG.normal(size=t.spec.shape) for t in (x, w, c)]
    found = []
    for name in (fused.name, "numpy"):
        with K.engine(name):
            found.append(K.function([x, w, c], [y, *grads])(data))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("window", [1, 3])
def test_a_convolution_with_a_bias_in_every_form_of_its_kernel(engine, window, dtype):
    """Engines compute some convolutions as products; the bias stays with them."""
    x, kernel, bias = (
        K.placeholder(shape=shape, dtype=dtype)
        for shape in ((None, 5, 5, 2), (window, window, 2, 3), (3,))
    )
    y = K.relu(K.bias_add(K.conv2d(x, kernel, padding="same"), bias))
    results = [y, *K.gradients(K.sum(K.square(y)), [x, kernel, bias])]
    shapes = ((2, 5, 5, 2), kernel.shape, (3,))
    data = [RNG.normal(size=tuple(shape)).astype(dtype) for shape in shapes]
    found = K.function([x, kernel, bias], results)(data)
    with K.engine("numpy"):
        expected = K.function([x, kernel, bias], results)(data)
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == dtype
        np.testing.assert_allclose(a, b, rtol=1e-4 if dtype == "float32" else 1e-11, atol=1e-5)
