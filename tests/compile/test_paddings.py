"""Borders that the kernels of convolutions make."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from backplane import engines
from backplane.compile import passes
from backplane.compile.passes.peephole import peephole
from backplane.core.graph import Tensor, toposort
from backplane.engines.base import Engine
from backplane.ops.convolution import conv, conv_input_grad
from backplane.ops.indexing import pad, slice

rng = np.random.default_rng(3)
ALIKE, APART = ((1, 1), (2, 2)), ((0, 1), (0, 1))


def built(border: Any, function: Any, size: int) -> tuple[Tensor, Tensor, list[Tensor]]:
    """An input, its border, and a convolution with its gradients by input, kernel and border."""
    x = K.placeholder(shape=(None, 6, 7, 2))
    kernel = K.constant(rng.standard_normal((size, size, 2, 1)))
    padded = K.spatial_2d_padding(x, border)
    y = function(padded, kernel, (2, 2), "valid")
    return x, padded, [y, *K.gradients(K.sum(K.square(y)), [x, kernel])]


@pytest.mark.parametrize("function", [K.conv2d, K.depthwise_conv2d])
def test_kernels_make_the_border(engine: Engine, function: Any) -> None:
    x, _, outputs = built(ALIKE, function, 3)
    left = {t.op for t in toposort(peephole(outputs, engines.get("numpy")))}
    assert left.isdisjoint((pad, slice))
    assert left.issuperset((conv, conv_input_grad))
    values = rng.standard_normal((3, 6, 7, 2)).astype("float32")
    found = K.function([x], outputs)([values])
    with passes.without("peephole"):
        wanted = K.function([x], outputs)([values])
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("border", "size"), [(APART, 3), (ALIKE, 2), (((1, 1), (0, 1)), 3)])
def test_borders_that_kernels_may_lack_stay(border: Any, size: int) -> None:
    """Those of unlike ends, and those in which a whole window would lie."""
    _, _, outputs = built(border, K.conv2d, size)
    assert {pad, slice}.issubset({t.op for t in toposort(peephole(outputs, engines.get("numpy")))})


def test_only_zeros_are_a_border() -> None:
    x = K.placeholder(shape=(None, 6, 7, 2))
    other = pad(x, padding=((0, 0), *ALIKE, (0, 0)), value=1.0)
    y = K.conv2d(other, K.constant(np.ones((3, 3, 2, 1))), padding="valid")
    assert peephole([y], engines.get("numpy")) == [y]


def test_gradients_by_the_border_itself(engine: Engine) -> None:
    x, padded, (y, *_) = built(ALIKE, K.conv2d, 3)
    outputs = K.gradients(K.sum(y), [padded, x])
    whole, inner = K.function([x], outputs)([np.ones((2, 6, 7, 2), "float32")])
    assert whole.shape == (2, 8, 11, 2)
    np.testing.assert_allclose(whole[:, 1:-1, 2:-2], inner, rtol=1e-5)
