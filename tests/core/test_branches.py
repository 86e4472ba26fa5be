"""Branches: values and derivatives, sizes, and what may not differ."""

from __future__ import annotations

import numpy as np
import pytest

from backplane import backend as K
from backplane.core.graph import constant
from backplane.ops import control, creation
from backplane.ops import elementwise as ew
from backplane.ops.autodiff import gradients
from backplane.ops.branches import cond
from backplane.ops.creation import scalar
from core.evaluate import leaf, total, value, values
from core.loops import S, W, X, check


@pytest.mark.parametrize("flag", [True, False])
def test_branches_and_their_derivatives(flag):
    chosen = constant(np.array(flag))

    def function(x, w):
        predicate = ew.logical_or(chosen, ew.less(total(x), scalar(-1e9, "float64")))

        def then():
            return [ew.mul(ew.tanh(x), w), w]

        def orelse():
            return [ew.exp(x), ew.mul(w, w)]

        return cond(predicate, then, orelse)

    check(function, S, W, order=3)


def test_only_the_branch_taken_runs():
    flag, x = leaf(dtype="bool"), leaf(3)
    indices = constant(np.array([7], "int32"))
    (y,) = cond(
        flag,
        lambda: [K.gather(x, indices)],
        lambda: [creation.full(shape=(1,), value=2.0, dtype="float64")],
    )
    assert value(y, {flag: False, x: S}).tolist() == [2.0]
    with pytest.raises(Exception, match=r"bounds|range"):
        value(y, {flag: True, x: S})


def test_branches_may_differ_in_size():
    flag, x = leaf(dtype="bool"), leaf(4, 3)
    (y,) = cond(flag, lambda: [x[:1]], lambda: [x])
    assert y.spec.shape == (None, 3)
    (g,) = gradients([y], [x])
    for on, rows in ((True, 1), (False, 4)):
        found, slope = values([y, g], {flag: on, x: X})
        np.testing.assert_array_equal(found, X[:rows])
        np.testing.assert_array_equal(slope, np.arange(4)[:, None] < np.full(3, rows))


def test_a_branch_inside_a_loop_and_a_loop_inside_a_branch():
    def function(x, s):
        def step(carry, items):
            big = ew.less(scalar(0.9, "float64"), total(items[0]) / 3.0)
            new = cond(
                big,
                lambda: [ew.mul(carry[0], items[0])],
                lambda: [ew.tanh(ew.add(carry[0], items[0]))],
            )
            return new, new

        finals, ys = control.scan(step, [s], [x])
        late = cond(
            ew.less(scalar(0.0, "float64"), total(x)),
            lambda: control.scan(step, finals, [x])[0],
            lambda: finals,
        )
        return [*late, *ys]

    check(function, X, S)


def test_branches_must_fit():
    flag = leaf(dtype="bool")
    with pytest.raises(ValueError, match="1 and 2"):
        cond(flag, lambda: [leaf(3)], lambda: [leaf(3), leaf(3)])
    with pytest.raises(ValueError, match=r"\(3,\).*\(3, 1\)"):
        cond(flag, lambda: [leaf(3)], lambda: [leaf(3, 1)])
    with pytest.raises(ValueError, match=r"float64.*float32"):
        cond(flag, lambda: [leaf(3)], lambda: [leaf(3, dtype="float32")])
    with pytest.raises(ValueError, match="bool scalar"):
        cond(leaf(3), lambda: [leaf(3)], lambda: [leaf(3)])
