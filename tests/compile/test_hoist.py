"""Work that moves out of loops: what is left in the bodies, and that nothing else changes."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from backplane import backend as K
from backplane.compile import passes
from backplane.compile.passes.hoist import hoist
from backplane.compile.passes.loop_body import Joining
from backplane.compile.passes.prune import prune
from backplane.compile.passes.simplify import simplify
from backplane.core.graph import Tensor, constant, toposort
from backplane.core.variable import Variable
from backplane.ops import control
from backplane.ops import elementwise as ew
from backplane.ops.indexing import pad
from core.evaluate import leaf, ops, slopes, value, values

B, T, F, H = 2, 5, 3, 4
RNG = np.random.default_rng(7)
X = RNG.normal(size=(B, T, F))
MASK = np.array([[1, 1, 0, 1, 0], [1, 1, 1, 1, 1]])


def bodies(outputs: list[Tensor]) -> list[Counter[str]]:
    """`ops` of the body of each scan, first to last."""
    nodes = [n for n in toposort(outputs) if n.op is not None and n.op.name == "scan"]
    return [ops(list(n.params["body"].outputs)) for n in nodes]


def streamlined(outputs: list[Tensor]) -> list[Tensor]:
    """What the passes over loops leave of a graph."""
    return prune(hoist(prune(outputs), Joining(lambda rows: rows is None or rows < 1024)))


def switched_off():
    """Programs compiled inside leave all work in the loops."""
    return passes.without("hoist")


def weights(*shape: int) -> Variable:
    return K.variable(RNG.normal(size=shape) / 2, dtype="float64")


def lstm(w: Variable, u: Variable, b: Variable):
    """The step of an LSTM, all gates in one product."""

    def step(x, states):
        h, c = states
        z = K.bias_add(K.dot(x, w) + K.dot(h, u), b)
        i, f, o = (K.sigmoid(z[:, k * H : (k + 1) * H]) for k in range(3))
        c = f * c + i * K.tanh(z[:, 3 * H :])
        h = o * K.tanh(c)
        return h, [h, c]

    return step


def four_products(w: Variable, u: Variable, b: Variable):
    """The step as the LSTM layer of classic Keras writes it: products gate by gate."""
    parts = [[v[..., k * H : (k + 1) * H] for k in range(4)] for v in (w, u, b)]

    def step(x, states):
        h, c = states
        xs = [K.bias_add(K.dot(x, w), b) for w, b in zip(parts[0], parts[2], strict=True)]
        i, f, o, g = (a + K.dot(h, u) for a, u in zip(xs, parts[1], strict=True))
        c = K.sigmoid(f) * c + K.sigmoid(i) * K.tanh(g)
        h = K.sigmoid(o) * K.tanh(c)
        return h, [h, c]

    return step


def resetting(w: Variable, u: Variable, b: Variable):
    """The step of a GRU, with one gate more. The sums of products have different gradients."""

    def step(x, states):
        h, c = states
        a, r = K.bias_add(K.dot(x, w), b), K.dot(h, u)
        a, r = ([t[:, k * H : (k + 1) * H] for k in range(4)] for t in (a, r))
        z, reset, o = (K.sigmoid(a[k] + r[k]) for k in (0, 1, 3))
        h = o * (z * h + (1 - z) * K.tanh(a[2] + reset * r[2]))
        return h, [h, c + h]

    return step


class Training:
    """The loss of an LSTM and its gradients: by w, u, b, x, and a second derivative."""

    def __init__(self, make=lstm, batch: int | None = B, time: int | None = T, **options):
        self.x = K.placeholder(shape=(batch, time, F), dtype="float64")
        self.mask = K.placeholder(shape=(batch, time), dtype="int32")
        self.variables = [weights(F, 4 * H), weights(H, 4 * H), weights(4 * H)]
        masked = options.pop("masked", False)
        start = K.zeros_like(self.x[:, 0, :1]) * K.ones((1, H), dtype="float64")
        last, outputs, _ = K.rnn(
            make(*self.variables), self.x, [start, start],
            mask=self.mask if masked else None, **options,
        )  # fmt: skip
        self.loss = K.sum(K.square(last)) + K.mean(outputs * outputs)
        self.gradients = K.gradients(self.loss, [*self.variables, self.x])
        total = sum(K.sum(K.square(g)) for g in self.gradients)
        self.second = K.gradients(total, self.variables)

    def numbers(self, outputs: list[Tensor]) -> list[np.ndarray]:
        return K.function([self.x, self.mask], outputs)([X, MASK])


# --- nothing changes ------------------------------------------------------------------------------


BACKWARDS = {"go_backwards": True, "masked": True, "zero_output_for_mask": True}


def check_numbers(outputs_of, *args, **options):
    """The same with and without the pass."""
    training = Training(*args, **options)
    outputs = outputs_of(training)
    found = training.numbers(outputs)
    with switched_off():
        wanted = training.numbers(outputs)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("make", [lstm, four_products, resetting])
@pytest.mark.parametrize("sizes", [(B, T), (None, T), (B, None), (None, None)])
@pytest.mark.parametrize(
    "options", [{}, {"masked": True}, BACKWARDS], ids=["plain", "masked", "backwards"]
)
def test_the_numbers_stay(make, sizes, options):
    check_numbers(lambda t: [t.loss, *t.gradients, *t.second], make, *sizes, **options)


@pytest.mark.parametrize(
    ("sizes", "options"), [((B, T), BACKWARDS), ((None, None), {"masked": True})]
)
def test_the_numbers_stay_on_every_engine(engine, sizes, options):
    check_numbers(lambda t: [t.loss, *t.gradients], lstm, *sizes, **options)


def test_unrolled_and_looped_are_equal():
    found = []
    for unroll in (False, True):
        training = Training(unroll=unroll)
        for v, shape in zip(training.variables, [(F, 4 * H), (H, 4 * H), (4 * H,)], strict=True):
            K.set_value(v, np.linspace(-1, 1, int(np.prod(shape))).reshape(shape))
        found.append(training.numbers([training.loss, *training.gradients]))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def everything(x, s, w):
    """Rows that only shape operations see, sums of them, a readout, and constants."""

    def step(carry, items):
        h, count, area = carry
        row = items[0]
        early = K.concatenate([K.reverse(K.transpose(K.transpose(row)), 0), row * row], axis=-1)
        early = K.softmax(K.dot(early, K.concatenate([w, w], axis=0))) + K.expand_dims(
            K.sum(row, axis=1), 1
        )
        padded = K.sum(K.cumsum(K.squeeze(K.expand_dims(row, 1), 1), axis=1), axis=1)
        new = K.tanh(early + K.dot(h, w)) * K.reshape(K.max(row, axis=0), (1, -1))
        late = K.dot(new, K.transpose(w)) * padded[:, None]
        return [new, count + row, area + K.dot(K.transpose(row), late)], [late, early, row[:, 1:]]

    finals, ys = control.scan(step, [s, K.zeros_like(s), K.zeros_like(w)], [x])
    return [*finals, *ys]


def test_products_of_inputs_may_stay_where_readouts_move():
    """What comes before a loop may pay less than what comes after it."""
    w, u, v = weights(3, 4), weights(4, 4), weights(4, 5)

    def step(row, states):
        h = K.tanh(K.dot(row, w) + K.dot(states[0], u))
        return K.dot(h, v), [h]

    plain = prune([K.rnn(step, K.zeros((2, 6, 3), "float64"), [K.zeros((2, 4), "float64")])[1]])
    for early in (True, False):
        outputs = prune(hoist(plain, Joining(lambda rows: True, before=lambda rows, e=early: e)))
        (inside,) = bodies(outputs)
        assert inside["matmul"] == (1 if early else 2)
        assert ops(outputs)["matmul"] == (2 if early else 1)


@pytest.mark.parametrize("unknown", [False, True])
def test_derivatives_of_what_moves(unknown):
    x, s, w = RNG.normal(size=(4, 3, 3)), RNG.normal(size=(3, 3)), RNG.normal(size=(3, 3))
    for found, wanted in slopes(everything, x, s, w, unknown=unknown):
        assert found == pytest.approx(wanted, rel=1e-6, abs=1e-7)


def test_no_steps(engine):
    x, s, w = leaf(None, 2, 3), leaf(2, 3), leaf(3, 3)

    def step(carry, items):
        new = K.tanh(K.dot(items[0], w) + K.dot(carry[0], w))
        return [new, carry[1] + K.dot(K.transpose(items[0]), new)], [K.dot(new, w)]

    finals, ys = control.scan(step, [s, w], [x])
    start, weight = RNG.normal(size=(2, 3)), RNG.normal(size=(3, 3))
    feed = {x: np.empty((0, 2, 3)), s: start, w: weight}
    last, area, rows = values([*finals, *ys], feed)
    np.testing.assert_array_equal(last, start)
    np.testing.assert_array_equal(area, weight)
    assert rows.shape == (0, 2, 3)


def test_a_loop_in_a_loop(engine):
    def function(x, w):
        def outer(carry, items):
            def inner(c, i):
                return [K.tanh(K.dot(c[0], w) + K.dot(i[0], w))], []

            (h,), _ = control.scan(inner, [carry[0]], [items[0]])
            return [h], [K.dot(h, w)]

        finals, ys = control.scan(outer, [x[0, 0] * 0.5], [x])
        return [*finals, *ys]

    x, w = leaf(2, 4, 2, 3), leaf(3, 3)
    outputs = function(x, w)
    outputs += K.gradients(K.sum(outputs[1]), [x, w])
    feed = {x: RNG.normal(size=(2, 4, 2, 3)), w: RNG.normal(size=(3, 3))}
    found = values(outputs, feed)
    with switched_off():
        wanted = values(outputs, feed)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_folds_and_maps_without_a_loop():
    """A sum over the elements is a sum; what each element gives alone needs no loop either."""
    x = leaf(4, 3)
    assert "scan" not in ops(streamlined([K.foldl(lambda a, b: a + b, x)]))
    assert "scan" not in ops(streamlined([K.map_fn(lambda row: K.exp(row) * 2.0, x)]))
    data = RNG.normal(size=(4, 3))
    np.testing.assert_allclose(value(K.foldl(lambda a, b: a + b, x), {x: data}), data.sum(0))
    mapped = value(K.map_fn(lambda row: K.exp(row) * 2.0, x), {x: data})
    np.testing.assert_allclose(mapped, np.exp(data) * 2)


def test_random_numbers_are_drawn_step_by_step():
    x = K.placeholder(shape=(1, 50, 1))
    drawn = K.rnn(lambda x, s: (x + K.random_uniform((1, 1), seed=3), s), x, [x[:, 0]])[1]
    found = K.function([x], [drawn])([np.zeros((1, 50, 1))])[0]
    assert len(np.unique(found)) == 50


def test_printing_stays_in_the_loop():
    x = leaf(4, 3)
    finals, _ = control.scan(lambda c, i: ([c[0] * K.print_tensor(i[0], "row")], []), [x[0]], [x])
    assert bodies(streamlined(finals)) == [Counter({"print": 1, "mul": 1})]


def test_nothing_is_lost_where_terms_are_read_twice():
    x = leaf(3)
    total = ew.add(ew.mul(x, x), x)
    finals, ys = control.scan(
        lambda c, i: ([ew.add(ew.add(c[0], i[0]), c[1]), ew.add(c[1], i[0])], [c[1]]),
        [total, total], [K.stack([x, x + 1.0])],
    )  # fmt: skip
    start, data = X[0, 0] ** 2 + X[0, 0], X[0, 0]
    found = values([*finals, *ys], {x: data})
    rows = [data, data + 1]
    seconds = [start, start + rows[0], start + rows[0] + rows[1]]
    np.testing.assert_allclose(found[0], start + sum(rows) + seconds[0] + seconds[1])
    np.testing.assert_allclose(found[1], seconds[2])
    np.testing.assert_allclose(found[2], seconds[:2])


# --- what is left in the loops --------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(B, T), (None, T), (B, None), (None, None)])
def test_one_product_is_left_in_each_step_of_an_lstm(sizes):
    training = Training(lstm, *sizes)
    outputs = simplify([training.loss, *training.gradients])
    assert [body["matmul"] for body in bodies(prune(outputs))] == [2, 4]
    after = streamlined(outputs)
    forward, backward = bodies(after)
    assert forward["matmul"] == backward["matmul"] == 1
    assert ops(after)["matmul"] == 4
    assert forward["add"] == 2  # the recurrent product's, and the cell's


def test_one_product_is_left_if_gates_have_two_gradients():
    """Both are given out whole, so no step adds anything up."""
    training = Training(resetting)
    after = streamlined(simplify([training.loss, *training.gradients]))
    forward, backward = bodies(after)
    assert forward["matmul"] == backward["matmul"] == 1
    assert ops(after)["matmul"] == 4
    assert (backward["concat"], ops(after)["concat"]) == (2, 0)


def test_bias_and_input_of_a_masked_step_move_too():
    training = Training(lstm, masked=True)
    forward, backward = bodies(streamlined(simplify([training.loss, *training.gradients])))
    assert forward["matmul"] == backward["matmul"] == 1
    assert forward["expand_dims"] == 0


def test_slices_of_the_gates_flow_back_into_one_tensor():
    training = Training(lstm)
    _, backward = bodies(streamlined(simplify([training.loss, *training.gradients])))
    assert backward["concat"] == 1
    assert backward["slice_grad"] == 0


def test_gate_by_gate_the_recurrent_products_are_left():
    training = Training(four_products)
    forward, backward = bodies(streamlined(simplify([training.loss, *training.gradients])))
    assert forward["matmul"] == backward["matmul"] == 4


def test_what_would_take_more_room_stays():
    """One hot rows of a large vocabulary are not kept for all steps: only their products are."""
    x, s = leaf(6, 2, dtype="int32"), leaf(2, 4)
    w = K.variable(RNG.normal(size=(1000, 4)), dtype="float64")

    def plain_step(carry, items):
        row = K.cast(K.one_hot(items[0], 1000), "float64")
        return [carry[0] + K.mean(carry[0]) * K.sum(row)], []

    def product(carry, items):
        row = K.cast(K.one_hot(items[0], 1000), "float64")
        return [K.tanh(carry[0] + K.dot(row, w))], []

    (large,) = control.scan(plain_step, [s], [x])[0]
    (small,) = control.scan(product, [s], [x])[0]
    assert bodies(streamlined(simplify([large])))[0]["equal"] == 1
    assert bodies(streamlined(simplify([small])))[0] == Counter({"add": 1, "tanh": 1})


def test_large_batches_keep_their_products_in_the_loop():
    x, w = leaf(3, 2000, 8), leaf(8, 8)
    finals, _ = control.scan(
        lambda c, i: ([K.tanh(c[0] + K.dot(i[0], w))], []), [K.zeros_like(x[0])], [x]
    )
    assert bodies(streamlined(simplify(finals)))[0]["matmul"] == 1


@pytest.mark.parametrize("sizes", [(B, T), (None, T), (B, None), (None, None)])
def test_gradients_of_kernels_are_added_up_at_once_where_rows_are_in_parts(sizes):
    batch, time = sizes
    x = K.placeholder(shape=(batch, time, 6, F), dtype="float64")
    w, u, b = weights(3, F, H), weights(3, H, H), weights(H)

    def step(row, states):
        own = K.conv1d(states[0], u, padding="same")
        new = K.tanh(K.bias_add(K.conv1d(row, w, padding="same") + own, b))
        return new, [new]

    start = K.zeros_like(x[:, 0, :, :1]) * K.ones((1, 1, H), dtype="float64")
    last, _, _ = K.rnn(step, x, [start])
    outputs = K.gradients(K.sum(K.square(last)), [w, u, b])
    plain = prune(simplify(outputs))
    joined = prune(hoist(plain, Joining(lambda rows: True, rows_first=True)))
    assert bodies(plain)[-1]["conv_kernel_grad"] == 2
    assert [body["conv_kernel_grad"] for body in bodies(joined)] == [0, 0]
    assert ops(joined)["conv_kernel_grad"] == 2
    assert bodies(streamlined(plain))[-1]["conv_kernel_grad"] == 2
    fed = [RNG.normal(size=(B, T, 6, F))]
    with switched_off():
        wanted = K.function([x], outputs)(fed)
        found = K.function([x], joined)(fed)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_a_known_phase_takes_its_branch_inside_the_loop():
    """A number that a program is specialised for is a number in the bodies too."""
    x, phase = K.placeholder(shape=(2, 3, 4)), K.learning_phase()

    def step(x, states):
        new = K.in_train_phase(lambda: K.tanh(x), lambda: x, training=phase) + states[0]
        return new, [new * 2.0]

    last = K.rnn(step, x, [x[:, 0]])[0]
    kept = streamlined(simplify([last], {phase: constant(0, phase.spec.dtype)}))
    assert "cond" not in bodies(kept)[0]
    assert "tanh" not in ops(kept) + bodies(kept)[0]


# --- weights --------------------------------------------------------------------------------------


def test_weights_are_transposed_once_outside_of_the_loop():
    training = Training(lstm)
    outputs = streamlined(simplify(training.gradients[:3]))
    _, backward = [n for n in toposort(outputs) if n.op is not None and n.op.name == "scan"]
    (product,) = [
        n for n in toposort(backward.params["body"].outputs)
        if n.op is not None and n.op.name == "matmul"
    ]  # fmt: skip
    assert not product.params["transpose_y"]
    assert any(t.op is not None and t.op.name == "transpose" for t in backward.inputs)


def test_a_border_of_ones_is_added_in_every_step(engine):
    """The sum of padded rows is the padded sum only for a border of zeros."""
    x, start = leaf(4, 3), leaf(5)

    def step(carry, items):
        return [ew.add(carry[0], pad(items[0], padding=((1, 1),), value=1.0))], []

    (total,), _ = control.scan(step, [start], [x])
    found = K.function([x, start], [total])([np.full((4, 3), 2.0), np.zeros(5)])[0]
    np.testing.assert_array_equal(found, [4, 8, 8, 8, 4])
