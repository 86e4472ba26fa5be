"""Loops: values and derivatives, capture, widening of states, and `K.rnn` with unknown sizes."""

from __future__ import annotations

import numpy as np
import pytest

from backplane import backend as K
from backplane.core.graph import Placeholder, constant, toposort
from backplane.core.spec import Spec
from backplane.core.variable import Variable
from backplane.ops import control
from backplane.ops import elementwise as ew
from backplane.ops.autodiff import gradients
from backplane.ops.branches import cond
from backplane.ops.creation import scalar
from core.evaluate import leaf, total, value, values
from core.loops import S, W, X, check, node_of, recurrence, scans

# --- scan: values and gradients -------------------------------------------------------------------


@pytest.mark.parametrize("reverse", [False, True])
def test_scan_computes_the_recurrence(reverse):
    x, s, w = leaf(None, 3), leaf(3), leaf(3)
    last, ys = values(recurrence(x, s, w, reverse), {x: X, s: S, w: W})
    state, rows = S, np.empty_like(X)
    for t in range(4)[:: -1 if reverse else 1]:
        state = np.tanh(state * W) + X[t]
        rows[t] = state * X[t]
    np.testing.assert_allclose(last, state, rtol=1e-14)
    np.testing.assert_allclose(ys, rows, rtol=1e-14)


@pytest.mark.parametrize("reverse", [False, True])
def test_derivatives_of_three_orders(reverse):
    check(lambda x, s, w: recurrence(x, s, w, reverse), X, S, W, order=3)


def test_only_some_results_are_used():
    check(lambda x, s, w: recurrence(x, s, w)[0], X, S, W)
    check(lambda x, s, w: recurrence(x, s, w)[1], X, S, W)


def test_no_steps_give_the_start_and_pass_its_gradient():
    x, s, w = leaf(None, 3), leaf(3), leaf(3)
    last, ys = recurrence(x, s, w)
    grads = gradients([last, ys], [x, s, w])
    found = values([last, ys, *grads], {x: np.empty((0, 3)), s: S, w: W})
    assert [f.shape for f in found] == [(3,), (0, 3), (0, 3), (3,), (3,)]
    np.testing.assert_array_equal(found[0], S)
    np.testing.assert_array_equal(found[3], 1)
    np.testing.assert_array_equal(found[4], 0)


def test_without_sequences_the_length_counts():
    s = leaf(3)

    def step(carry, items):
        assert items == []
        return [ew.mul(carry[0], carry[0])], carry

    finals, ys = control.scan(step, [s], [], length=3)
    last, rows = values([*finals, *ys], {s: S})
    np.testing.assert_allclose(last, S**8, rtol=1e-13)
    np.testing.assert_allclose(rows, [S, S**2, S**4], rtol=1e-13)
    check(lambda s: control.scan(step, [s], [], length=3)[0][0], S)


def test_integers_among_states_sequences_and_results():
    def function(x, s):
        counts = constant(np.array([2, 0, 1, 1], "int32"))

        def step(carry, items):
            state, seen = carry
            times = ew.cast(items[1], dtype="float64")
            return [ew.mul(state, ew.add(items[0], times)), ew.add(seen, items[1])], [seen]

        finals, ys = control.scan(step, [s, scalar(0, "int32")], [x, counts])
        return [finals[0], ew.cast(finals[1], dtype="float64"), *ys]

    check(function, X, S)
    x, s = leaf(4, 3), leaf(3)
    assert value(function(x, s)[2], {x: X, s: S}).tolist() == [0, 2, 2, 3]


def test_a_state_that_ignores_its_predecessor_and_one_that_never_changes():
    def function(x, s):
        def step(carry, items):
            return [items[0], carry[1]], [ew.mul(carry[0], carry[1])]

        finals, ys = control.scan(step, [s, s], [x])
        return [*finals, *ys]

    check(function, X, S)


def test_what_is_not_connected_has_no_gradient():
    x, s, unused = leaf(4, 3), leaf(3), leaf(3)

    def step(carry, items):
        return [ew.add(carry[0], scalar(1.0, "float64"))], [items[0]]

    finals, ys = control.scan(step, [s], [x])
    assert gradients([ys[0]], [unused]) == [None]
    by_x, by_s = gradients([finals[0]], [x, s])
    assert by_x is None or not value(by_x, {x: X, s: S}).any()
    np.testing.assert_array_equal(value(by_s, {x: X, s: S}), 1)


def test_infinite_slopes_of_what_was_not_chosen_do_not_leak():
    """1/x and log x at 0, masked."""
    x = leaf(None, 1)

    def step(carry, items):
        shown = ew.less(scalar(0.0, "float64"), items[0])
        new = ew.add(ew.log(items[0]), ew.div(carry[0], items[0]))
        return [ew.where(shown, new, carry[0])], []

    finals, _ = control.scan(step, [constant(np.ones(1))], [x])
    (g,) = gradients(finals, [x])
    (gg,) = gradients([g], [x])
    first, second = values([g, gg], {x: [[2.0], [0.0], [4.0]]})
    assert np.isfinite([first, second]).all()
    assert first[1] == second[1] == 0


# --- capture --------------------------------------------------------------------------------------


def test_surroundings_are_captured_once_and_differentiated():
    def function(x, w):
        twice = ew.add(w, w)

        def step(carry, items):
            inner = ew.mul(twice, w)
            return [ew.add(carry[0], ew.mul(inner, items[0]))], [ew.mul(carry[0], twice)]

        finals, ys = control.scan(step, [w], [x])
        return [*finals, *ys]

    check(function, X, W)


def test_work_that_does_not_depend_on_the_step_happens_outside():
    x, w = leaf(4, 3), leaf(3)

    def step(carry, items):
        return [ew.add(carry[0], ew.mul(items[0], ew.exp(w)))], []

    finals, _ = control.scan(step, [w], [x])
    node = node_of(finals[0])
    names = [n.op.name for n in toposort(node.params["body"].outputs) if n.op is not None]
    assert "exp" not in names
    assert "exp" in [t.op.name for t in node.inputs if t.op is not None]


def test_bodies_share_no_node_with_their_surroundings():
    x, w = leaf(4, 3), leaf(3)
    finals, ys = control.scan(lambda c, i: ([ew.mul(c[0], w)], [ew.add(i[0], w)]), [w], [x])
    grads = [g for g in gradients([*finals, *ys], [x, w]) if g is not None]
    outside = set(toposort([*finals, *ys, *grads]))
    for node in scans([*finals, *ys, *grads]):
        inside = toposort(node.params["body"].outputs)
        shared = {n for n in inside if n in outside and not (n.op is None and n.spec.shape == ())}
        assert not shared
        leaves = {n for n in inside if isinstance(n, Placeholder)}
        assert leaves <= set(node.params["body"].inputs)


def test_variables_are_read_before_the_loop():
    v = K.variable(W, dtype="float64")
    x = leaf(4, 3)
    finals, _ = control.scan(lambda c, i: ([ew.add(c[0], ew.mul(i[0], v))], []), [v], [x])
    inside = toposort(node_of(finals[0]).params["body"].outputs)
    assert not any(isinstance(n, Variable) for n in inside)
    np.testing.assert_allclose(value(finals[0], {x: X}), W + (X * W).sum(0), rtol=1e-13)


def test_a_loop_in_a_loop():
    def function(x, w):
        def outer(carry, items):
            def inner(c, i):
                new = ew.tanh(ew.add(ew.mul(c[0], i[0]), items[0]))
                return [new], []

            (state,), _ = control.scan(inner, carry, [w])
            return [state], [ew.mul(state, items[0])]

        finals, ys = control.scan(outer, [scalar(0.5, "float64")], [x])
        return [*finals, *ys]

    check(function, X[:, 0], W, order=2)


# --- widening of the carry ------------------------------------------------------------------------


def test_a_size_that_a_step_makes_unknown_is_unknown():
    x, s, flag = leaf(4, 3), leaf(3), leaf(dtype="bool")
    mixed = leaf(None)

    def step(carry, items):
        (chosen,) = cond(flag, lambda: [carry[0]], lambda: [mixed])
        return [chosen], []

    finals, _ = control.scan(step, [s], [x])
    assert finals[0].spec.shape == (None,)
    feed = {x: X, s: S, flag: False, mixed: W}
    np.testing.assert_array_equal(value(finals[0], feed), W)


def test_unknown_sizes_that_stay_need_no_summing_down():
    """The state's unknown size is that of the start: no gradient has to undo a broadcast."""
    x, s = leaf(4, None), leaf(None)
    finals, _ = control.scan(lambda c, i: ([ew.mul(c[0], c[0])], [c[0]]), [s], [x])
    (g,) = gradients(finals, [s])
    backward = scans([g])[-1]
    names = [n.op.name for n in toposort(backward.params["body"].outputs) if n.op is not None]
    assert "sum_to" not in names


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (lambda c, i: ([], []), "0 states, it was given 1"),
        (lambda c, i: ([c[0], c[0]], []), "2 states, it was given 1"),
        (lambda c, i: ([ew.cast(c[0], dtype="float32")], []), r"state 0 .*float64.*float32"),
        (lambda c, i: ([c[0][0]], []), r"state 0 .*\(3,\).*\(\)"),
        (lambda c, i: ([c[0][:2]], []), r"state 0 .*\(3,\).*\(2,\)"),
    ],
)
def test_steps_that_change_their_states_are_refused(step, message):
    with pytest.raises(ValueError, match=message):
        control.scan(step, [leaf(3)], [leaf(4, 3)])


def test_sequences_must_be_equally_long():
    with pytest.raises(ValueError, match="4 and 5 steps"):
        control.scan(lambda c, i: ([], i), [], [leaf(4, 3), leaf(5, 3)])
    with pytest.raises(ValueError, match="scalar"):
        control.scan_(leaf(), body=_identity(), carry=0, xs=1, reverse=False, length=None)
    with pytest.raises(ValueError, match="length"):
        control.scan(lambda c, i: (c, []), [leaf(3)], [])


def _identity():
    from backplane.core.graph import Graph

    p = leaf()
    return Graph([p], [p])


# --- while ----------------------------------------------------------------------------------------


def test_while_runs_until_the_test_fails():
    limit, start = leaf(), leaf(3)
    doubled = control.while_loop(
        lambda x, n: ew.less(total(x), limit),
        lambda x, n: [ew.add(x, x), ew.add(n, scalar(1, "int32"))],
        [start, scalar(0, "int32")],
    )
    x, n = values(doubled, {limit: 100.0, start: np.ones(3)})
    assert x.tolist() == [64.0] * 3
    assert n == 6
    assert gradients([doubled[0]], [start]) == [None]


# --- K.rnn with sizes that are unknown ------------------------------------------------------------


def test_time_and_samples_unknown(engine):
    x = K.placeholder(shape=(None, None, 2))
    mask = K.placeholder(shape=(None, None), dtype="int32")
    state = K.zeros_like(x[:, 0])

    def step(x, states):
        new = K.tanh(x + states[0])
        return new * 2.0, [new]

    last, outputs, (final,) = K.rnn(step, x, [state], mask=mask)
    assert K.int_shape(outputs) == (None, None, 2)
    assert K.int_shape(last) == K.int_shape(final) == (None, 2)
    (g,) = K.gradients(K.sum(outputs), [x])
    f = K.function([x, mask], [last, outputs, g])
    rng = np.random.default_rng(0)
    for samples, time in ((2, 3), (3, 5), (1, 1)):
        data = rng.normal(size=(samples, time, 2)).astype("float32")
        shown = rng.integers(0, 2, (samples, time))
        h = np.zeros((samples, 2))
        y, rows = np.zeros((samples, 2)), []
        for t in range(time):
            new = np.tanh(data[:, t] + h)
            on = shown[:, t, None] == 1
            h, y = np.where(on, new, h), np.where(on, 2 * new, y)
            rows.append(y)
        found, stacked, slope = f([data, shown])
        np.testing.assert_allclose(found, y, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(stacked, np.stack(rows, 1), rtol=1e-5, atol=1e-6)
        assert slope.shape == data.shape
        assert (slope[shown == 0] == 0).all()


def test_unroll_needs_a_known_number_of_steps():
    x = K.placeholder(shape=(2, None, 4))
    with pytest.raises(ValueError, match=r"K\.rnn: unroll"):
        K.rnn(lambda x, s: (x, [x]), x, [K.zeros((2, 4))], unroll=True)


def test_specs_of_a_masked_step_are_learnt_without_running_it():
    """The step is traced once more for the shape of the first outputs, but nothing of that runs."""
    x, mask = K.placeholder(shape=(None, 3, 2)), K.placeholder(shape=(None, 3))
    seen = []

    def step(x, states):
        seen.append(x)
        return K.print_tensor(x, "step"), [x]

    last, outputs, _ = K.rnn(step, x, [K.zeros_like(x[:, 0])], mask=mask)
    printed = [n for n in toposort([last, outputs]) if n.op is not None and n.op.effect]
    assert not printed
    assert K.int_shape(outputs) == (None, 3, 2)
    assert Spec((None, 2), "float32") == last.spec
