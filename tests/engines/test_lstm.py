"""The loop of an LSTM by a kernel of the library: in which forms, and where it stays a loop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from backplane import engines
from backplane.compile import passes
from cases.lstm_steps import FEATURES, OTHERS, STEPS, UNITS, Step, together


@pytest.fixture(autouse=True, params=[("torch", "torch"), ("cntk", "onnxruntime")], ids=str)
def on_engine(request: pytest.FixtureRequest) -> Iterator[None]:
    name, library = request.param
    pytest.importorskip(library)
    with engines.use(name):
        yield


def outputs_of(step: Step, shape: Any = (5, 7, FEATURES), **options: Any) -> tuple[Any, str]:
    """The results of a loop of unknown sizes, and the program."""
    x, start = K.placeholder((None, None, FEATURES)), K.placeholder((None, UNITS))
    last, ys, states = K.rnn(step, x, [start, 2 * start], **options)
    f = K.function([x, start], [last, ys, *states])
    rng = np.random.default_rng(2)
    return f([rng.normal(size=shape), rng.normal(size=(shape[0], UNITS))]), str(f.source())


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


@pytest.mark.parametrize("samples", [1, 3, 7])
def test_states_of_another_number_of_samples_are_the_same_error(samples: int) -> None:
    """PyTorch's kernel would read or write beyond the states, and the process would end."""
    x, h, c = K.placeholder((None, None, FEATURES)), *[K.placeholder((None, UNITS))] * 2
    _, ys, _ = K.rnn(together(), x, [h, c])
    f = K.function([x, h], [ys])
    assert "lstm(" in str(f.source())
    message = rf"shapes \({samples}, 12\) and \(5, 12\) do not broadcast"
    if samples == 1:
        message = r"K\.rnn: state 0 has shape \(1, 3\) .* but a step makes it shape \(5, 3\)"
    with pytest.raises(ValueError, match=message):
        f([np.ones((5, 40, FEATURES)), np.ones((samples, UNITS))])


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
