"""Steps of loops that write to kept memory: they compute what the body computes."""

from __future__ import annotations

import numpy as np
import pytest

from backplane import backend as K
from backplane.compile import passes
from backplane.compile.codegen import tiling
from backplane.compile.passes.simplify import simplify
from backplane.compile.program import clear_programs
from backplane.core.graph import toposort
from backplane.core.source import Source
from backplane.engines import get, installed, kernels, use
from backplane.ops import control, shaping
from backplane.ops import elementwise as ew
from backplane.ops import reduction as red
from backplane.ops.indexing import slice as slice_
from backplane.ops.linear import matmul
from core.evaluate import leaf

LOOPING = [name for name in ("numpy", "torch") if installed(name)]
RNG = np.random.default_rng(3)
X = RNG.normal(size=(5, 2, 6))
S = RNG.normal(size=(2, 3))
W = RNG.normal(size=(3, 6))


def part(x, start, stop):
    return slice_(x, slices=((None, None, 1), (start, stop, 1)))


def gates(carry, items, w):
    """Slices of a temporary; the state before and after the step are results."""
    (h,), (x,) = carry, items
    z = ew.add(matmul(h, w, transpose_x=False, transpose_y=False), x)
    new = ew.mul(ew.sigmoid(part(z, 0, 3)), ew.tanh(part(z, 3, 6)))
    return [new], [h, new, part(z, 1, 4)]


def a_view_as_state(carry, items, w):
    """The next step reads the memory of this step's temporary."""
    (h,), (x,) = carry, items
    z = ew.tanh(ew.add(x, shaping.concat(h, h, axis=1)))
    return [part(z, 2, 5)], [ew.exp(z)]


def a_turned_state(carry, items, w):
    (h,), (x,) = carry, items
    z = ew.sin(ew.add(part(x, 0, 3), h))
    turned = shaping.transpose(shaping.reshape(z, shape=(3, 2)), perm=(1, 0))
    return [turned], [z]


def exchanged_states(carry, items, w):
    """A state that was written two steps ago."""
    (a, b), (x,) = carry, items
    return [b, ew.add(ew.mul(a, part(x, 0, 3)), b)], [a, b, a]


def results_that_are_read_again(carry, items, w):
    """The result of a step is the operand of what could be written over it."""
    (h,), (x,) = carry, items
    z = ew.exp(part(x, 0, 3))
    y = ew.neg(z)
    more = ew.tanh(ew.add(y, h))
    return [more], [z, y, y, ew.mul(more, more)]


def scalars_and_truths(carry, items, w):
    (h, n), (x,) = carry, items
    mean = red.mean(x, axes=(0, 1), keepdims=False)
    large = ew.less(mean, part(x, 0, 3))
    new = ew.where(large, ew.add(h, mean), h)
    return [new, ew.add(n, mean)], [mean, large, n]


def nothing_given_out(carry, items, w):
    (h,), (x,) = carry, items
    return [ew.tanh(ew.add(ew.mul(h, part(x, 0, 3)), part(x, 3, 6)))], []


BODIES = [
    (gates, [S]), (a_view_as_state, [S]), (a_turned_state, [S]), (exchanged_states, [S, S + 1]),
    (results_that_are_read_again, [S]), (scalars_and_truths, [S, np.float64(0.5)]),
    (nothing_given_out, [S]),
]  # fmt: skip
SIZES = [(*case, unknown) for case in BODIES for unknown in (False, True)
         if not (unknown and case[0] is a_turned_state)]  # fmt: skip


def plainly(node, operands):
    """The results of a scan by a loop over its body, every value new."""
    params = node.params
    step, carry, xs = get("numpy").callable(params["body"]), params["carry"], params["xs"]
    state, constants, rows = operands[:carry], operands[carry + xs :], []
    times = range(len(operands[carry]))
    for t in reversed(times) if params["reverse"] else times:
        results = step(*state, *[x[t] for x in operands[carry : carry + xs]], *constants)
        state = results[:carry]
        rows.append([np.array(y) for y in results[carry:]])
    stacks = [np.stack(ys[::-1] if params["reverse"] else ys) for ys in zip(*rows, strict=True)]
    return [*state, *stacks]


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize(
    ("body", "starts", "unknown"), SIZES, ids=lambda x: getattr(x, "__name__", None)
)
def test_steps_compute_what_the_body_computes(engine, body, starts, reverse, unknown):
    x = leaf(None, None, 6) if unknown else leaf(*X.shape)
    s = [leaf(*((None, 3) if unknown and np.ndim(a) else np.shape(a))) for a in starts]
    w = leaf(*W.shape)
    finals, ys = control.scan(lambda c, i: body(c, i, w), s, [x], reverse=reverse)
    node = (finals + ys)[0].inputs[0]
    reads_w = len(node.inputs) > len(starts) + 1
    wanted = plainly(node, [*starts, X, *([W] if reads_w else [])])
    outputs = [*finals, *ys]
    function = K.function([x, *s, w], outputs)
    for _ in range(2):  # stacks of the second run may have the memory of the first one's
        found = function([X, *starts, W])
    for t, y in zip(outputs, found, strict=True):
        np.testing.assert_allclose(y, wanted[t.params["index"]], rtol=1e-12)


@pytest.mark.parametrize("name", LOOPING)
@pytest.mark.parametrize(
    ("body", "starts", "unknown"), SIZES, ids=lambda x: getattr(x, "__name__", None)
)
def test_chains_in_steps_write_to_the_rows_of_stacks(monkeypatch, name, body, starts, unknown):
    """Large states go through blocks, whose results must be written where the loop wants them."""
    monkeypatch.setitem(kernels.FORCED, f"{name}.blocks", 2)
    monkeypatch.setattr(tiling, "BLOCK", 32)
    clear_programs()
    with use(name) as engine:
        test_steps_compute_what_the_body_computes(engine, body, starts, False, unknown)
    clear_programs()


@pytest.mark.parametrize("name", LOOPING)
def test_a_state_that_grows(name):
    """Memory is only kept for shapes that are surely the same in all steps. Libraries with loops of
    their own have no such states.
    """
    assert "steps" in get(name).capabilities
    x, s = leaf(4, 2), leaf(None)

    def step(carry, items):
        grown = shaping.concat(carry[0], items[0], axis=0)
        return [ew.tanh(ew.add(grown, grown))], [red.sum(ew.exp(grown), axes=(0,), keepdims=False)]

    finals, ys = control.scan(step, [s], [x])
    rows, state, sums = RNG.normal(size=(4, 2)), np.ones(1), []
    with use(name):
        last, found = K.function([x, s], [finals[0], ys[0]])([rows, state])
    for row in rows:
        grown = np.concatenate([state, row])
        sums.append(np.exp(grown).sum())
        state = np.tanh(2 * grown)
    np.testing.assert_allclose(last, state, rtol=1e-12)
    np.testing.assert_allclose(found, sums, rtol=1e-12)


def test_no_step_of_an_lstm_copies_or_cuts(engine, monkeypatch):
    """Each line of the later steps computes: slices are cut once, stacks written at once."""
    sources = []
    compiled = Source.function

    def recorded(source, name):
        sources.append(source.text)
        return compiled(source, name)

    monkeypatch.setattr(Source, "function", recorded)
    w, u = (K.variable(RNG.normal(size=(4, 16)) / 2) for _ in range(2))

    def step(x, states):
        h, c = states
        z = K.dot(x, w) + K.dot(h, u)
        i, f, o = (K.sigmoid(z[:, k : k + 4]) for k in (0, 4, 12))
        c = f * c + i * K.tanh(z[:, 8:12])
        h = o * K.tanh(c)
        return h, [h, c]

    x = K.placeholder(shape=(2, 7, 4))
    start = K.sum(K.zeros_like(x), axis=1)
    last = K.rnn(step, x, [start, start])[0]
    f = K.function([x], [last, *K.gradients(K.sum(last * last), [w, u])])
    with passes.without("join_loops"):  # PyTorch has kernels for both loops.
        f([RNG.normal(size=(2, 7, 4))])
    steps = [source for source in sources if "def later" in source]
    if "steps" not in engine.capabilities:
        assert not steps
        return
    forward, backward = steps
    for text, most in ((forward, 11), (backward, 14)):
        later = text.split("def later")[1].split("return")[0].splitlines()[1:]
        lines = [line for line in later if line.strip()]
        assert len(lines) <= most, text
        assert not any("slice" in line or "[...]" in line for line in lines), text


def test_sums_of_zeros_are_zeros():
    """So recurrent layers make their initial states: zeros like the inputs are not made."""
    x = leaf(None, 4, 3)
    for axis, keepdims, shape in (((1, 2), False, (None,)), ((0, 1), True, (1, 1, 3)),
                                  ((0, 1, 2), False, ())):  # fmt: skip
        zeros = K.sum(K.zeros_like(x), axis=axis, keepdims=keepdims)
        (found,) = simplify([zeros])
        assert found.spec == zeros.spec
        assert found.spec.shape == shape
        assert not any(n.op is not None and n.op.name == "sum" for n in toposort([found]))
        value = K.function([x], [zeros])([np.ones((2, 4, 3))])[0]
        np.testing.assert_array_equal(value, np.zeros([2 if n is None else n for n in shape]))
