"""The loop of an LSTM or a GRU by a kernel of the library: in which forms, and where it stays a
loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from backplane import engines
from backplane.compile import passes
from cases import gru_steps, lstm_steps
from cases.gru_steps import AFTER, BEFORE
from cases.lstm_steps import FEATURES, UNITS, Step

ENGINES = [("torch", "torch", [*AFTER]), ("cntk", "onnxruntime", [*AFTER, *BEFORE])]
"""Engines, their libraries, and the steps of a GRU for which these have a kernel."""
LSTM = [(name, make, 2) for name, make in lstm_steps.STEPS.items()]
GRU = [(name, make, 1) for name, make in (AFTER | BEFORE).items()]
OTHERS = [(make, 2) for make in lstm_steps.OTHERS.values()]
OTHERS += [(make, 1) for make in gru_steps.OTHERS.values()]
BOTH = [(lstm_steps.together, 2), (gru_steps.after, 1)]


@pytest.fixture(autouse=True, params=ENGINES, ids=lambda param: param[0])
def kernels(request: pytest.FixtureRequest) -> Iterator[list[str]]:
    name, library, served = request.param
    pytest.importorskip(library)
    with engines.use(name):
        yield served


def kernel_in(text: str) -> bool:
    return "lstm(" in text or "gru(" in text


def outputs_of(
    step: Step, states: int, shape: Any = (5, 7, FEATURES), **options: Any
) -> tuple[Any, str]:
    """The results of a loop of unknown sizes, and the program."""
    x, start = K.placeholder((None, None, FEATURES)), K.placeholder((None, UNITS))
    starts = [start, 2 * start][:states]
    last, ys, ends = K.rnn(step, x, starts, **options)
    f = K.function([x, start], [last, ys, *ends])
    rng = np.random.default_rng(2)
    return f([rng.normal(size=shape), rng.normal(size=(shape[0], UNITS))]), str(f.source())


@pytest.mark.parametrize(("name", "make", "states"), [*LSTM, *GRU])
@pytest.mark.parametrize("options", [{}, {"go_backwards": True}], ids=str)
def test_the_kernel_equals_the_loop(
    kernels: list[str], name: str, make: Callable[[], Step], states: int, options: dict[str, Any]
) -> None:
    step = make()
    found, text = outputs_of(step, states, **options)
    assert kernel_in(text) == (states == 2 or name in kernels)
    with passes.without("join_loops"):
        wanted, text = outputs_of(step, states, **options)
    assert not kernel_in(text)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("make", "states"), [*BOTH, (gru_steps.before, 1)])
@pytest.mark.parametrize("shape", [(0, 7, FEATURES), (5, 0, FEATURES)])
def test_no_samples_and_no_steps(make: Callable[[], Step], states: int, shape: Any) -> None:
    found, _ = outputs_of(make(), states, shape)
    with passes.without("join_loops"):
        wanted, _ = outputs_of(make(), states, shape)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("make", "states"), BOTH)
@pytest.mark.parametrize("samples", [1, 3, 7])
def test_states_of_another_number_of_samples_are_the_same_error(
    make: Callable[[], Step], states: int, samples: int
) -> None:
    """PyTorch's kernel would read or write beyond the states, and the process would end."""
    x, start = K.placeholder((None, None, FEATURES)), K.placeholder((None, UNITS))
    _, ys, _ = K.rnn(make(), x, [start] * states)
    f = K.function([x, start], [ys])
    assert kernel_in(str(f.source()))
    ours, theirs = rf"\({samples}, \d+\)", r"\(5, \d+\)"
    message = rf"shapes ({ours} and {theirs}|{theirs} and {ours}) do not broadcast"
    if samples == 1:
        message = r"K\.rnn: state 0 has shape \(1, 3\) .* but a step makes it shape \(5, 3\)"
    with pytest.raises(ValueError, match=message):
        f([np.ones((5, 40, FEATURES)), np.ones((samples, UNITS))])


@pytest.mark.parametrize(("make", "states"), OTHERS)
def test_other_steps_stay_loops(make: Callable[[], Step], states: int) -> None:
    assert not kernel_in(outputs_of(make(), states)[1])


@pytest.mark.parametrize(("make", "states"), BOTH)
def test_masks_and_other_dtypes_stay_loops(make: Callable[[], Step], states: int) -> None:
    mask = K.constant([[1, 0, 1, 1, 1, 1, 0]] * 5)
    assert not kernel_in(outputs_of(make(), states, mask=mask)[1])
    K.set_floatx("float64")
    try:
        assert not kernel_in(outputs_of(make(), states)[1])
    finally:
        K.set_floatx("float32")
