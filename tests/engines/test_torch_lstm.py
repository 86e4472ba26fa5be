"""The kernels that compute the loop of an LSTM and the loop of its gradient on PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from backplane import engines
from backplane.compile import passes
from backplane.ops.recurrence import lstm_grad, lstm_saving
from cases import gru_steps
from cases.lstm_steps import FEATURES, OTHERS, STEPS, UNITS, WEIGHTS, Step, together

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def on_torch() -> Iterator[None]:
    with engines.use("torch"):
        yield


SIZES = (5, 7, FEATURES)


def trained(
    step: Step,
    loss: Callable[..., Any],
    shape: Any = SIZES,
    samples: int | None = None,
    second: bool = False,
) -> tuple[Any, str]:
    """The loss, its gradients by the operands of a loop and by the weights, and the program."""
    x, start = K.placeholder((None, None, FEATURES)), K.placeholder((None, UNITS))
    factor = K.variable(np.full((FEATURES, FEATURES), 0.5))
    last, ys, states = K.rnn(step, K.dot(x, factor), [start, 2 * start])
    total = loss(last, ys, *states)
    slopes = K.gradients(total, [x, start, factor, *WEIGHTS])
    if second:
        slopes += K.gradients(K.sum(K.square(slopes[2])), [x, factor])
    f = K.function([x, start], [total, *[t for t in slopes if t is not None]])
    rng = np.random.default_rng(2)
    feeds = [rng.normal(size=shape), rng.normal(size=(samples or shape[0], UNITS))]
    return f(feeds), str(f.source())


LOSSES: dict[str, Callable[..., Any]] = {
    "the last output": lambda last, ys, *states: K.mean(K.square(last)),
    "all outputs": lambda last, ys, *states: K.sum(K.square(ys)) * 0.1,
    "a state": lambda last, ys, *states: K.sum(K.sin(states[1])),
    "all": lambda last, ys, *states: K.sum(ys * (last + states[0] * states[1])[:, None]),
}


def check_training(name: str, loss: Callable[..., Any], **options: Any) -> None:
    found, text = trained(STEPS[name](), loss, **options)
    assert "lstm_saving(" in text
    assert "lstm_grad(" in text
    assert "scan(" not in text
    with passes.without("join_loops"):
        wanted, text = trained(STEPS[name](), loss, **options)
    assert "lstm_grad(" not in text
    assert len(found) == len(wanted) > 4
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", STEPS)
def test_the_kernels_of_a_training_step_equal_its_loops(name: str, loss: str) -> None:
    check_training(name, LOSSES[loss])


@pytest.mark.parametrize("shape", [(0, 7, FEATURES), (5, 0, FEATURES), (1, 1, FEATURES)])
def test_gradients_of_few_steps(shape: Any) -> None:
    check_training("together", LOSSES["a state"], shape=shape)


def test_states_of_fewer_samples_are_the_same_error() -> None:
    """The kernels would read beyond the states."""
    message = r"K\.rnn: state 0 has shape \(1, 3\) .* but a step makes it shape \(5, 3\)"
    for off in ([], ["join_loops"]):
        with passes.without(*off), pytest.raises(ValueError, match=message):
            trained(together(), LOSSES["all"], samples=1)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.enable_grad, torch.inference_mode])
def test_whether_a_tape_is_on_does_not_matter(mode: Any) -> None:
    with mode():
        check_training("together", LOSSES["all"])


def test_two_layers_and_two_losses() -> None:
    """A loop over the results of another one, and two gradients of each."""

    def run() -> tuple[Any, str]:
        x, start = K.placeholder((None, 4, FEATURES)), K.zeros((3, UNITS))
        first, second = together(), together()
        factor = K.variable(np.ones((UNITS, FEATURES)))
        _, ys, states = K.rnn(first, x, [start, start])
        last, _, _ = K.rnn(second, K.dot(ys, factor), states)
        slopes = [K.gradients(t, [x, factor]) for t in (K.sum(K.square(last)), K.sum(last))]
        f = K.function([x], [last, *slopes[0], *slopes[1]])
        return f([np.random.default_rng(3).normal(size=(3, 4, FEATURES))]), str(f.source())

    found, text = run()
    assert (text.count("lstm_saving("), text.count("lstm_grad(")) == (2, 4)
    with passes.without("join_loops"):
        wanted, _ = run()
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_what_needs_the_steps_keeps_the_loops() -> None:
    (found, text), loss = trained(together(), LOSSES["all"], second=True), LOSSES["all"]
    assert "lstm_grad(" not in text
    with passes.without("join_loops"):
        wanted, _ = trained(together(), loss, second=True)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    for make in OTHERS.values():
        assert "lstm_grad(" not in trained(make(), LOSSES["all"])[1]
    K.set_floatx("float64")
    try:
        assert "lstm_grad(" not in trained(together(), LOSSES["all"])[1]
    finally:
        K.set_floatx("float32")


def test_gradients_of_weights_have_the_order_that_the_kernel_takes() -> None:
    """A step of an optimizer then stores the weights in it, and nobody transposes them again."""
    operands = [torch.ones(s) for s in [(4, 3, 2), (3, 3), (3, 3), (2, 12), (3, 12), (12,)]]
    table = engines.get("torch").table
    results = table["lstm_saving"].function(*operands)
    found = table["lstm_grad"].function(*results[:3], *operands, *results)
    assert all(t.t().is_contiguous() for t in found[3:5])


@pytest.mark.parametrize("loss", LOSSES)
def test_the_decompositions_equal_the_kernels(loss: str) -> None:
    """An engine without kernels computes the same from the same nodes."""
    rng = np.random.default_rng(4)
    shapes = [(4, 3, 2), (3, 3), (3, 3), (2, 12), (3, 12), (12,)]
    operands = [K.constant(rng.normal(size=shape)) for shape in shapes]
    with engines.use("torch"):
        results = lstm_saving(*operands)
        total = LOSSES[loss](results[1], K.permute_dimensions(results[0], (1, 0, 2)), *results[1:3])
        seeds = K.gradients(total, results[:3])
        seeds = [K.zeros_like(t) if g is None else g for g, t in zip(seeds, results, strict=False)]
        found = K.function([], [*results[:3], *lstm_grad(*seeds, *operands, *results)])([])
    with engines.use("numpy"):
        wanted = K.function([], [*results[:3], *lstm_grad(*seeds, *operands, *results)])([])
        direct = K.function([], K.gradients(total, operands))([])
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    for a, b in zip(found[3:], direct, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("make", "states"), [(together, 2), (gru_steps.after, 1)])
def test_compiled(make: Callable[[], Step], states: int) -> None:
    x, start = K.placeholder((5, 7, FEATURES)), K.zeros((5, UNITS))
    last, *_ = K.rnn(make(), x, [start] * states)
    feed = np.random.default_rng(0).normal(size=(5, 7, FEATURES))
    wish = {"backend": "aot_eager", "fullgraph": True}
    (found,) = K.function([x], [last], compile=wish)([feed])
    np.testing.assert_allclose(found, K.function([x], [last])([feed])[0], rtol=1e-5)
