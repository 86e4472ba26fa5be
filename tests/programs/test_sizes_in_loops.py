"""Steps of loops, and branches, that read sizes which are known only when the program runs: of
constants, states, rows and tensors from outside, forward and in gradients, on every engine.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from backplane import backend as K

rng = np.random.default_rng(0)
B, T, D = 2, 3, 4
DATA = {
    "a": rng.random((B, T), dtype="float32"),
    "x": rng.random((B, T, D), dtype="float32"),
    "rows": rng.random((5, B, D), dtype="float32"),
}
Nodes = dict[str, Any]


def leaves() -> Nodes:
    """Placeholders whose sizes are unknown but for the last axis of two."""
    return {
        "a": K.placeholder(shape=(None, None)),
        "x": K.placeholder(shape=(None, None, D)),
        "rows": K.placeholder(shape=(None, None, D)),
    }


def attention(t: Nodes) -> Any:
    """A product per sample of a state and a constant."""

    def step(row: Any, states: Any) -> Any:
        weights, x = states
        context = K.batch_dot(weights, x)
        return context, [K.softmax(weights + K.sum(context * row, axis=-1, keepdims=True))]

    return K.rnn(step, t["rows"], [t["a"]], constants=[t["x"]], time_major=True)[1]


def own_sizes(t: Nodes) -> Any:
    """A product of the sizes of a row, in a shape, behind something that the gradient reads."""

    def step(row: Any, states: Any) -> Any:
        n = K.shape(row)[0]
        wide = K.reshape(K.tanh(row), K.stack([n * 2, D // 2]))
        new = states[0] * K.reshape(K.square(wide), K.stack([n, D]))
        return new, [new]

    return K.rnn(step, t["rows"], [K.ones_like(t["x"][:, 0])], time_major=True)[1]


def sizes_outside(t: Nodes) -> Any:
    """Sizes that were read before the loop, of a tensor that the loop does not read."""
    n, steps = K.shape(t["x"])[0], K.shape(t["x"])[1]
    count = n * 2

    def step(row: Any) -> Any:
        wide = K.reshape(K.exp(row), K.stack([count, D // 2]))
        return K.sum(wide * K.ones(K.stack([count, 1]))) + K.ones(K.stack([steps])) * K.max(row)

    return K.map_fn(step, t["rows"])


def folded(name: str) -> Callable[[Nodes], Any]:
    """A fold whose accumulator has the sizes of a tensor outside."""

    def program(t: Nodes) -> Any:
        n = K.shape(t["a"])[0]

        def step(total: Any, row: Any) -> Any:
            flat = K.reshape(row * K.sum(t["a"]), K.stack([n * D]))
            return K.sin(total) + K.reshape(flat, K.stack([n, D])) * K.cast(n, "float32")

        return getattr(K, name)(step, t["rows"])

    program.__name__ = name
    return program


def folded_on(t: Nodes) -> Any:
    """A start that the sizes of a tensor make, and a step that repeats by them."""
    start = K.zeros(K.stack([K.shape(t["x"])[0], K.shape(t["x"])[1]]))

    def step(total: Any, row: Any) -> Any:
        column = K.sum(row, axis=-1, keepdims=True)
        return total * 0.5 + K.square(K.tile(column, K.stack([1, K.shape(t["x"])[1]])))

    return K.foldl(step, t["rows"], initializer=start)


def masked(t: Nodes) -> Any:
    """A masked loop, whose outputs and states have sizes of a constant."""
    mask = K.greater(t["rows"][:, :, 0], 0.2)
    steps = K.shape(t["x"])[1]

    def step(row: Any, states: Any) -> Any:
        x = states[1]
        scores = K.batch_dot(x, row)
        new = K.reshape(K.tanh(scores + states[0]), K.stack([-1, steps]))
        return new, [new]

    return K.rnn(step, t["rows"], [t["a"]], constants=[t["x"]], mask=mask, time_major=True)[1]


def nested(t: Nodes) -> Any:
    """A loop in a loop, whose sizes come from outside of both."""
    n = K.shape(t["a"])[0]

    def outer(row: Any) -> Any:
        def inner(column: Any) -> Any:
            return K.reshape(K.square(column) * K.ones(K.stack([n, 1])) * K.sum(row), K.stack([-1]))

        return K.map_fn(inner, t["a"])

    return K.map_fn(outer, t["rows"])


def branched(t: Nodes) -> Any:
    """Branches, in a loop and outside, that need sizes from outside of them."""
    n, steps = K.shape(t["a"])[0], K.shape(t["x"])[1]
    shape = K.stack([n * steps])

    def step(row: Any) -> Any:
        return K.switch(
            K.sum(row) > 4.0,
            lambda: K.square(K.reshape(t["a"], shape)),
            lambda: K.ones(shape) * K.sum(row),
        )

    both = K.map_fn(step, t["rows"])
    return both * K.switch(
        K.sum(t["a"]) > 0.0, lambda: K.exp(K.reshape(t["a"], shape)), lambda: K.zeros(shape)
    )


PROGRAMS = [
    attention, own_sizes, sizes_outside, folded("foldl"), folded("foldr"), folded_on, masked,
    nested, branched,
]  # fmt: skip


@cache
def results(program: Callable[[Nodes], Any], name: str) -> list[np.ndarray]:
    """The value of a program on an engine, and the gradients that exist by its leaves."""
    t = leaves()
    y = program(t)
    slopes = K.gradients(K.sum(K.square(y)), list(t.values()))
    with K.engine(name):
        f = K.function(list(t.values()), [y, *[g for g in slopes if g is not None]])
        return [np.asarray(v) for v in f(list(DATA.values()))]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_loop_reads_sizes(engine: Any, program: Callable[[Nodes], Any]) -> None:
    found, wanted = results(program, engine.name), results(program, "numpy")
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-4 * max(1, np.abs(b).max()))


def test_what_only_gives_its_size_has_no_gradient(engine: Any) -> None:
    x, y, flag = K.placeholder((None, 2)), K.placeholder((None, 2)), K.placeholder((), dtype="bool")
    n = K.shape(x)[0]
    looped = K.map_fn(lambda row: K.sum(row) * K.ones(K.stack([n])), y)
    chosen = K.switch(flag, lambda: K.sum(y) * K.ones(K.stack([n])), lambda: K.ones(K.stack([n])))
    for result in (looped, chosen):
        assert K.gradients(K.sum(result), [x]) == [None]
