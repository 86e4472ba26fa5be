"""`K.remat`: equal results, inner tensors computed again, less memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from backplane.compile import passes
from documents.covering import covers

BLOCKS, DEPTH = 6, 6


def same(fn: Any) -> Any:
    return fn


def chain(wrap: Callable[[Any], Any], rows: int | None = None) -> tuple[Any, list[Any]]:
    """A function that trains a chain of blocks by one step, and its variables."""
    rng = np.random.default_rng(0)
    x = K.placeholder((rows, 16))
    weights = [K.variable(rng.normal(size=(16, 16)) * 0.3) for _ in range(BLOCKS)]
    h = x
    for w in weights:

        def block(h: Any, w: Any = w) -> Any:
            for _ in range(DEPTH):
                h = K.sin(K.dot(h, w))
            return h

        h = wrap(block)(h)
    loss = K.mean(K.square(h))
    slopes = K.gradients(loss, weights)
    updates = [(w, w - 0.1 * g) for w, g in zip(weights, slopes, strict=True)]
    return K.function([x], [loss], updates=updates), weights


def feed(rows: int) -> list[np.ndarray]:
    return [np.random.default_rng(1).normal(size=(rows, 16)).astype("float32")]


def compare(engine: Any, build: Callable[[Callable[[Any], Any]], Any], *values: Any) -> None:
    """Check that a function gives the same with and without `K.remat`."""
    for plain, again in zip(build(same)(values), build(K.remat)(values), strict=True):
        np.testing.assert_allclose(again, plain, rtol=1e-5, atol=1e-6)


@covers("remat", spec=True, gradient=True)
def test_training_is_the_same(engine: Any) -> None:
    (plain, ws), (again, vs) = chain(same), chain(K.remat)
    for _ in range(3):
        np.testing.assert_allclose(again(feed(5))[0], plain(feed(5))[0], rtol=1e-5)
    for w, v in zip(ws, vs, strict=True):
        np.testing.assert_allclose(K.get_value(v), K.get_value(w), rtol=1e-5, atol=1e-6)


def test_the_gradient_computes_again(engine: Any) -> None:
    with passes.without("tiling"):
        plain, again = chain(same)[0].source(), chain(K.remat)[0].source()
    assert plain.count("sin float32") == BLOCKS * DEPTH
    # The last result of each block is kept, and only its cosine is needed.
    assert again.count("sin float32") == BLOCKS * (2 * DEPTH - 1)


def peak(wrap: Callable[[Any], Any], rows: int = 4000) -> float:
    """The most memory that a call takes, in arrays of the size of a tensor."""
    f, values = chain(wrap, rows)[0], feed(rows)
    f(values)
    tracemalloc.start()
    try:
        f(values)
        return tracemalloc.get_traced_memory()[1] / values[0].nbytes
    finally:
        tracemalloc.stop()


def test_memory_falls() -> None:
    assert peak(same) > BLOCKS * DEPTH
    assert peak(K.remat) < 2 * DEPTH + BLOCKS + 4 < BLOCKS * DEPTH


def test_gradients_of_late_layers_come_early() -> None:
    """Of the operands of all weight gradients, few are alive at a time: the program alone."""
    rng = np.random.default_rng(0)
    x, h = (x := K.placeholder((4000, 16))), x
    weights = [K.variable(rng.normal(size=(16, 16))) for _ in range(20)]
    for w in weights:
        h = K.dot(h, w)
    slopes = K.gradients(K.sum(h), weights)
    f = K.function(
        [x], [], updates=[(w, w - 0.1 * g) for w, g in zip(weights, slopes, strict=True)]
    )
    f(feed(4000))
    tracemalloc.start()
    f(feed(4000))
    used = tracemalloc.get_traced_memory()[1] / feed(4000)[0].nbytes
    tracemalloc.stop()
    assert used < 26  # 20 activations, which the backward pass frees, not 20 cotangents too


def test_what_fn_takes_from_around_it(engine: Any) -> None:
    """Variables, other tensors, several results in a dict, and a result that is an argument."""
    x, v = K.placeholder((None, 3)), K.variable([0.5, -1.0, 2.0])

    def build(wrap: Callable[[Any], Any]) -> Any:
        outer = K.exp(0.1 * x)
        fn = wrap(lambda h, s: {"a": [K.tanh(h * v + outer), h], "b": K.sum(K.sin(h) * s)})
        found = fn(x * 2.0, 3.0)
        loss = K.sum(found["a"][0] * found["a"][1]) * found["b"] + K.sum(outer)
        return K.function([x], [loss, *K.gradients(loss, [x, v, outer])])

    compare(engine, build, [[1.0, 2.0, 3.0], [0.1, 0.2, -0.3]])


def test_second_order_and_nesting(engine: Any) -> None:
    x = K.placeholder((3,))

    def build(wrap: Callable[[Any], Any]) -> Any:
        inner = wrap(lambda h: K.tanh(h) * h)
        outer = wrap(lambda h: K.sin(inner(h)) + inner(K.cos(h)))
        (first,) = K.gradients(K.sum(outer(x)), [x])
        (second,) = K.gradients(K.sum(first * first), [x])
        return K.function([x], [first, second])

    compare(engine, build, [0.3, -1.2, 2.0])


def test_random_numbers_are_the_same_again(engine: Any) -> None:
    x = K.placeholder((50, 20))
    y = K.remat(lambda h: K.dropout(h, 0.5) * h)(x)
    f = K.function([x], [y, *K.gradients(K.sum(y), [x])])
    ones = np.ones((50, 20), "float32")
    for _ in range(2):
        value, slope = f([ones])
        np.testing.assert_allclose(slope, 2 * value)
        assert 0 < (value == 0).mean() < 1


def test_loops_in_it_and_around_it(engine: Any) -> None:
    x = K.placeholder((None, 4, 3))
    w = K.variable(np.random.default_rng(2).normal(size=(3, 3)))

    def build(wrap: Callable[[Any], Any]) -> Any:
        def step(h: Any, states: list[Any]) -> Any:
            new = wrap(lambda a, b: K.tanh(K.dot(a, w)) + K.sin(b))(h, states[0])
            return new, [new]

        zeros = K.zeros_like(x[:, 0])
        last = wrap(lambda s: K.rnn(step, s, [zeros])[0])(x)
        loss = K.sum(K.square(last))
        return K.function([x], [loss, *K.gradients(loss, [x, w])])

    compare(engine, build, np.random.default_rng(3).normal(size=(2, 4, 3)))


def test_without_a_gradient_nothing_changes(engine: Any) -> None:
    x = K.placeholder((None, 3))
    sources = [K.function([x], [wrap(K.softmax)(x)]).source() for wrap in (same, K.remat)]
    assert len({s.partition("def ")[2].partition("#")[0] for s in sources}) == 1
    with passes.without("simplify"):
        f = K.function([x], [K.remat(K.tanh)(x)])
        np.testing.assert_allclose(f([[[0.0, 1.0, 2.0]]])[0], [np.tanh([0, 1, 2])], rtol=1e-5)


def test_native_values_pass_through(engine: Any) -> None:
    found = K.remat(lambda a: K.eval(K.exp(a)))(np.zeros(2, "float32"))
    assert found.tolist() == [1.0, 1.0]


def test_print_tensor_prints_once(capfd: pytest.CaptureFixture[str]) -> None:
    x = K.placeholder((2,))
    y = K.remat(lambda h: K.sin(K.print_tensor(K.sin(h), "seen")))(x)
    K.function([x], [y, *K.gradients(K.sum(y), [x])])([[1.0, 2.0]])
    assert capfd.readouterr().out.count("seen") == 1


def test_what_cannot_be_computed_again_is_refused() -> None:
    x = K.placeholder((2,))
    with pytest.raises(ValueError, match=r"K\.remat: .* cannot be computed again"):
        K.remat(lambda h: K.native(np.sin, h, stateful=True, spec=((2,), "float32")))(x)
    with pytest.raises(TypeError, match=r"K\.remat: fn must be a function, got 3"):
        K.remat(3)
