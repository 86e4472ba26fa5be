"""The loop of an LSTM by a kernel of the library: in which forms, and where it stays a loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from backplane import engines
from backplane.compile import passes

UNITS, FEATURES = 3, 2
Step = Callable[[Any, Any], Any]


@pytest.fixture(autouse=True, params=[("torch", "torch"), ("cntk", "onnxruntime")], ids=str)
def on_engine(request: pytest.FixtureRequest) -> Iterator[None]:
    name, library = request.param
    pytest.importorskip(library)
    with engines.use(name):
        yield


def weights(*shapes: tuple[int, ...]) -> list[Any]:
    rng = np.random.default_rng(1)
    return [K.variable(rng.normal(size=shape)) for shape in shapes]


def together(order: tuple[int, ...] = (0, 1, 2, 3), bias: bool = True) -> Step:
    """One product for all gates, whose columns stand in some order."""
    w, u, b = weights((FEATURES, 4 * UNITS), (UNITS, 4 * UNITS), (4 * UNITS,))

    def step(x: Any, states: Any) -> Any:
        h, c = states
        z = K.dot(h, u) + K.dot(x, w)
        z = K.bias_add(z, b) if bias else z
        i, f, g, o = (z[:, n * UNITS : (n + 1) * UNITS] for n in order)
        c = K.sigmoid(f) * c + K.sigmoid(i) * K.tanh(g)
        h = K.sigmoid(o) * K.tanh(c)
        return h, [h, c]

    return step


def apart(sigmoid: Callable[[Any], Any] = K.sigmoid, change: Step | None = None) -> Step:
    """A product for each gate, in parts of one matrix; the states in the other order."""
    w, u, b = weights((FEATURES, 4 * UNITS), (4, UNITS, UNITS), (4, UNITS))

    def step(x: Any, states: Any) -> Any:
        c, h = states
        i, f, g, o = (
            K.dot(x, w[:, n * UNITS : (n + 1) * UNITS]) + b[n] + K.dot(h, u[n]) for n in range(4)
        )
        c = sigmoid(i) * K.tanh(g) + c * sigmoid(f)
        h = K.tanh(c) * sigmoid(o)
        return h if change is None else change(h, i), [c, h]

    return step


def outputs_of(step: Step, shape: Any = (5, 7, FEATURES), **options: Any) -> tuple[Any, str]:
    """The results of a loop of unknown sizes, and the program."""
    x, start = K.placeholder((None, None, FEATURES)), K.placeholder((None, UNITS))
    last, ys, states = K.rnn(step, x, [start, 2 * start], **options)
    f = K.function([x, start], [last, ys, *states])
    rng = np.random.default_rng(2)
    return f([rng.normal(size=shape), rng.normal(size=(shape[0], UNITS))]), str(f.source())


STEPS: dict[str, Callable[[], Step]] = {
    "together": together,
    "another order": lambda: together((2, 0, 3, 1)),
    "no bias": lambda: together(bias=False),
    "apart": apart,
}


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("options", [{}, {"go_backwards": True}], ids=str)
def test_the_kernel_equals_the_loop(name: str, options: dict[str, Any]) -> None:
    step = STEPS[name]()
    found, text = outputs_of(step, **options)
    assert "lstm(" in text
    with passes.without("join_loops"):
        wanted, text = outputs_of(step, **options)
    assert "lstm(" not in text
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(0, 7, FEATURES), (5, 0, FEATURES)])
def test_no_samples_and_no_steps(shape: Any) -> None:
    found, _ = outputs_of(together(), shape)
    with passes.without("join_loops"):
        wanted, _ = outputs_of(together(), shape)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


def dropping() -> Step:
    inner = together()
    return lambda x, states: inner(x, [states[0] * K.constant([0.0, 1, 2]), states[1]])


OTHERS: dict[str, Callable[[], Step]] = {
    "hard sigmoid": lambda: apart(K.hard_sigmoid),
    "a gate is read": lambda: apart(change=lambda h, i: i),
    "states are dropped": dropping,
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_steps_stay_loops(name: str) -> None:
    assert "lstm(" not in outputs_of(OTHERS[name]())[1]


def test_masks_and_other_dtypes_stay_loops() -> None:
    mask = K.constant([[1, 0, 1, 1, 1, 1, 0]] * 5)
    assert "lstm(" not in outputs_of(together(), mask=mask)[1]
    K.set_floatx("float64")
    try:
        assert "lstm(" not in outputs_of(together())[1]
    finally:
        K.set_floatx("float32")


def test_a_training_step_keeps_its_loops_and_its_loss() -> None:
    x, start = K.placeholder((5, 7, FEATURES)), K.zeros((5, UNITS))
    w = K.variable(np.full((FEATURES, FEATURES), 0.5))
    last, *_ = K.rnn(together(), K.dot(x, w), [start, start])
    loss = K.mean(K.square(last))
    feed = np.random.default_rng(0).normal(size=(5, 7, FEATURES))
    alone = K.function([x], [loss])([feed])
    beside, _ = K.function([x], [loss, *K.gradients(loss, [w])])([feed])
    np.testing.assert_allclose(alone[0], beside, rtol=1e-5)


def test_compiled() -> None:
    pytest.importorskip("torch")
    with engines.use("torch"):
        _compare_compiled()


def _compare_compiled() -> None:
    x, start = K.placeholder((5, 7, FEATURES)), K.zeros((5, UNITS))
    last, *_ = K.rnn(together(), x, [start, start])
    feed = np.random.default_rng(0).normal(size=(5, 7, FEATURES))
    wish = {"backend": "aot_eager", "fullgraph": True}
    (found,) = K.function([x], [last], compile=wish)([feed])
    np.testing.assert_allclose(found, K.function([x], [last])([feed])[0], rtol=1e-5)
