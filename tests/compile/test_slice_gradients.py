"""Gradients of slices that are added up: where slices cover an axis, they are joined."""

from __future__ import annotations

import numpy as np
import pytest

from backplane import backend as K
from backplane.compile.passes.simplify import simplify
from backplane.ops.indexing import slice as slice_
from core.evaluate import leaf, ops, value

RNG = np.random.default_rng(7)


def covering(bounds, axis=1, order=None):
    x = leaf(None, 6, 6)
    pieces = []
    for start, stop in bounds:
        part = [(None, None, 1)] * 3
        part[axis] = (start, stop, 1)
        pieces.append(slice_(x, slices=tuple(part)))
    pieces = [pieces[i] for i in order or range(len(pieces))]
    loss = sum(K.sum(K.exp(p) * (k + 1.0)) for k, p in enumerate(pieces))
    return x, simplify(K.gradients(loss, [x]))


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
@pytest.mark.parametrize("axis", [1, 2])
def test_slices_that_cover_an_axis_are_joined(axis, order):
    x, grads = covering([(None, 2), (2, -1), (5, None)], axis, order)
    found = ops(grads)
    assert found["concat"] == 1
    assert found["slice_grad"] == found["add"] == 0
    data = RNG.normal(size=(2, 6, 6))
    factor = np.repeat(
        [order.index(0) + 1.0, order.index(1) + 1.0, order.index(2) + 1.0], [2, 3, 1]
    )
    shape = [1, 1, 1]
    shape[axis] = 6
    np.testing.assert_allclose(value(grads[0], {x: data}), np.exp(data) * factor.reshape(shape))


@pytest.mark.parametrize("bounds", [[(0, 3), (2, 6)], [(0, 2), (3, 6)], [(0, 2), (2, 5)]])
def test_slices_that_overlap_or_leave_gaps_are_added(bounds):
    x, grads = covering(bounds)
    assert ops(grads)["slice_grad"] == 2
    data = RNG.normal(size=(2, 6, 6))
    factor = np.zeros(6)
    for k, (start, stop) in enumerate(bounds):
        factor[start:stop] += k + 1.0
    np.testing.assert_allclose(value(grads[0], {x: data}), np.exp(data) * factor[:, None])
