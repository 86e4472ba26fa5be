"""Programs for batches of one size, and for others."""

from __future__ import annotations

import numpy as np
import pytest

from backplane import backend as K
from backplane.compile.function import request_of
from backplane.compile.program import clear_programs, prepared, statistics
from backplane.core.graph import toposort
from backplane.engines import kernels

rng = np.random.default_rng(0)


def floats(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape, "float32")


@pytest.fixture(autouse=True)
def on_engine(engine):
    clear_programs()
    with K.engine(engine.name):
        yield


def product():
    """A product of two batches, and its gradients."""
    x, y = (K.placeholder((None, 3)) for _ in range(2))
    z = K.tanh(x) * y
    return K.function([x, y], [z, *K.gradients(z, [x, y])])


def expected(x, y):
    slope, t = 1 - np.tanh(x) ** 2 + 0 * y, np.tanh(x) + 0 * y
    sums = [
        a if len(a) == len(of) else a.sum(0, keepdims=True) for a, of in ((slope * y, x), (t, y))
    ]
    return [np.tanh(x) * y, *sums]


@pytest.mark.parametrize("first", [(4, 4), (4, 1), (1, 4), (1, 1)])
def test_batches_may_be_broadcast_in_any_call(first):
    f = product()
    for m, n in (first, (4, 4), (1, 4), (4, 1), (5, 5), (1, 1)):
        x, y = floats(m, 3), floats(n, 3)
        for found, wanted in zip(f([x, y]), expected(x, y), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_equal_graphs_share_programs_for_equal_sizes_alone():
    same, other = product(), product()
    before = statistics.compilations
    same([floats(4, 3), floats(4, 3)])
    x, y = floats(4, 3), floats(1, 3)
    for found, wanted in zip(other([x, y]), expected(x, y), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    assert statistics.compilations == before + 2
    product()([floats(2, 3), floats(2, 3)])
    assert statistics.compilations == before + 2


@pytest.mark.parametrize("first", [4, 1])
def test_batches_that_do_not_fit_are_refused(first):
    f = product()
    f([floats(4, 3), floats(first, 3)])
    with pytest.raises(ValueError, match=r"4.*2"):
        f([floats(4, 3), floats(2, 3)])


def lstm():
    """A step of a masked recurrence that drops states, and its gradients."""
    x, mask = K.placeholder((None, 5, 3)), K.placeholder((None, 5), dtype="bool")
    noise, start = K.placeholder((None, 4)), K.placeholder((None, 4))
    kernel, recurrent = (K.variable(floats(n, 4)) for n in (3, 4))

    def step(row, states):
        h = K.tanh(K.dot(row, kernel) + K.dot(states[0] * noise, recurrent)) * states[0]
        return h, [h]

    last, outputs, _ = K.rnn(step, x, [start], mask=mask)
    loss = K.sum(K.square(outputs)) + K.sum(last)
    return K.function(
        [x, mask, noise, start], [loss, *K.gradients(loss, [x, noise, start, kernel, recurrent])]
    )


def test_loops_over_batches_of_one_size_do_nothing_for_others(engine):
    f = lstm()
    data = [floats(6, 5, 3), rng.random((6, 5)) < 0.7, floats(6, 4), floats(6, 4)]
    alike = f(data)
    assert "sum_to" not in f.source()
    row = [*data[:2], data[2][:1], data[3]]
    repeated = [*data[:2], data[2][:1].repeat(6, 0), data[3]]
    wanted = f(repeated)
    wanted[2] = wanted[2].sum(0, keepdims=True)
    for found, value in zip(f(row), wanted, strict=True):
        np.testing.assert_allclose(found, value, rtol=1e-4, atol=1e-5)
    for found, value in zip(f(data), alike, strict=True):
        np.testing.assert_array_equal(found, value)


def test_states_of_another_size_than_the_sequence():
    x, start = K.placeholder((None, 3)), K.placeholder((None, 3))
    last = K.foldl(lambda state, row: state * K.sum(row), x, start)
    (slope,) = K.gradients(last, [start])
    f = K.function([x, start], [last, slope])
    for n in (4, 1, 4):
        rows, begin = floats(4, 3), floats(n, 3)
        factor = np.prod(rows.sum(1))
        for found, value in zip(f([rows, begin]), (begin, np.ones_like(begin)), strict=True):
            np.testing.assert_allclose(found, value * factor, rtol=1e-4, atol=1e-6)


def recurrence():
    """The inputs of a recurrence with 8 units, its loss, and the gradients of its weights."""
    x, y = K.placeholder((None, 5, 4)), K.placeholder((None, 8))
    w, u = K.variable(floats(4, 8) / 4), K.variable(floats(8, 8) / 4)

    def step(x, states):
        h = K.tanh(K.dot(x, w) + K.dot(states[0], u))
        return h, [h]

    last = K.rnn(step, x, [K.zeros_like(y)])[0]
    loss = K.sum(K.square(last - y))
    return [x, y], [loss, *K.gradients(loss, [w, u])]


def products_in_loops(f) -> int:
    """The products in the steps of the loops of a function's program."""
    function = f._function
    request, _ = request_of(function.plan, (), function.first)
    bodies = [t.params["body"] for t in prepared(request).order if "body" in t.params]
    nodes = [node for body in bodies for node in toposort(body.outputs)]
    return sum(t.op is not None and t.op.name.startswith("matmul") for t in nodes)


def test_products_leave_loops_by_the_size_of_the_first_batch(monkeypatch):
    """The limit lies between both sizes. What is fed later may be of any size."""
    monkeypatch.setattr(kernels, "engines_limit", lambda engine, choice: 64.0)
    graph = recurrence()
    few, many = K.function(*graph), K.function(*graph)
    data = {n: [floats(n, 5, 4), floats(n, 8)] for n in (2, 256)}
    found = {n: few(data[n]) for n in (2, 256)}
    for n in (256, 2):
        for a, b in zip(many(data[n]), found[n], strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-4)
    assert products_in_loops(few) < products_in_loops(many)
