"""Pruning: what of loops and branches nobody reads falls away."""

from __future__ import annotations

import numpy as np

from backplane.compile.passes.prune import prune
from backplane.core.graph import constant, toposort
from backplane.ops import control
from backplane.ops import elementwise as ew
from backplane.ops.autodiff import gradients
from backplane.ops.creation import scalar
from core.evaluate import leaf, value
from core.loops import S, W, X, check, node_of, recurrence, scans


def test_offers_that_nobody_reads_are_dropped():
    x, s, w = leaf(4, 3), leaf(3), leaf(3)
    last, _ = recurrence(x, s, w)
    assert len(node_of(last).spec) > 2
    (pruned,) = prune([last])
    node = node_of(pruned)
    assert len(node.spec) == 1
    assert len(node.params["body"].outputs) == 1


def test_the_gradient_keeps_only_what_it_reads():
    """The backward step of tanh(s · w) + x needs the tanh, and s for w's gradient."""
    x, s, w = leaf(4, 3), leaf(3), leaf(3)
    last, _ = recurrence(x, s, w)
    forward, _backward = scans(prune(gradients([last], [s])))
    assert len(forward.spec) == 2  # the state and one stack
    forward, _backward = scans(prune(gradients([last], [w])))
    assert len(forward.spec) == 3


def test_states_sequences_and_constants_that_nothing_needs_fall_away():
    x, s, w = leaf(4, 3), leaf(3), leaf(3)

    def step(carry, items):
        idle = ew.mul(carry[1], w)
        return [ew.add(carry[0], items[0]), idle], [idle, items[1]]

    finals, ys = control.scan(step, [s, w], [x, ew.exp(x)])
    kept = prune([finals[0]])
    node = node_of(kept[0])
    assert (node.params["carry"], node.params["xs"], len(node.inputs)) == (1, 1, 2)
    assert "exp" not in [n.op.name for n in toposort(kept) if n.op is not None]
    np.testing.assert_allclose(value(kept[0], {x: X, s: S}), S + X.sum(0))
    feed = {x: X, s: S, w: W}
    np.testing.assert_allclose(value(prune([ys[0]])[0], feed)[0], W * W)


def test_states_that_need_each_other_stay():
    x, s, w = leaf(4, 3), leaf(3), leaf(3)

    def step(carry, items):
        a, b, c = carry
        return [b, ew.add(a, items[0]), ew.mul(c, c)], []

    finals, _ = control.scan(step, [s, w, w], [x])
    (kept,) = prune([finals[0]])
    assert node_of(kept).params["carry"] == 2
    feed = {x: X, s: S, w: W}
    np.testing.assert_allclose(value(kept, feed), value(finals[0], feed))


def test_the_number_of_steps_survives_when_no_sequence_is_read():
    x, s = leaf(None, 3), leaf(3)

    def step(carry, items):
        return [ew.add(carry[0], scalar(1.0, "float64"))], [items[0]]

    finals, _ = control.scan(step, [s], [x])
    (kept,) = prune([finals[0]])
    np.testing.assert_allclose(value(kept, {x: X, s: S}), S + 4)
    check(lambda x, s: control.scan(step, [ew.mul(s, s)], [x])[0][0], X, S)


def test_pruning_reaches_into_loops_in_loops():
    x, s = leaf(4, 3), leaf(3)

    def outer(carry, items):
        def inner(c, i):
            return [ew.add(c[0], i[0]), ew.exp(c[1])], []

        (a, _b), _ = control.scan(inner, [carry[0], carry[1]], [constant(X)])
        return [ew.mul(a, items[0]), ew.add(carry[1], items[0])], []

    finals, _ = control.scan(outer, [s, s], [x])
    (kept,) = prune([finals[0]])
    body = node_of(kept).params["body"]
    (inner_node,) = scans(list(body.outputs))
    assert inner_node.params["carry"] == 1
    feed = {x: X, s: S}
    np.testing.assert_allclose(value(kept, feed), value(finals[0], feed), rtol=1e-13)
