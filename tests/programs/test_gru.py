"""GRUs in all forms on every engine: the loop, with gradients, and the steps written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from backplane.compile import passes
from cases.gru_steps import AFTER, BEFORE
from cases.lstm_steps import FEATURES, UNITS, WEIGHTS

SAMPLES, STEPS = 3, 4
GRUS = AFTER | BEFORE
MASK = [[1, 0, 1, 1], [1, 1, 1, 0], [0, 0, 1, 1]]
PLAIN: dict[str, Any] = {}


def results(name: str, **options: Any) -> list[np.ndarray]:
    """The results of a GRU, alone and then with gradients by its operands and weights."""
    x, start = K.placeholder((SAMPLES, STEPS, FEATURES)), K.placeholder((SAMPLES, UNITS))
    last, ys, ends = K.rnn(GRUS[name](), x, [start], **options)
    loss = K.sum(ys * (last + K.sin(ends[0]))[:, None])
    slopes = [g for g in K.gradients(loss, [x, start, *WEIGHTS]) if g is not None]
    rng = np.random.default_rng(0)
    feeds = [rng.normal(size=t.shape) for t in (x, start)]
    outputs = [last, ys, *ends]
    found = [*K.function([x, start], outputs)(feeds)]
    return found + K.function([x, start], [*outputs, loss, *slopes])(feeds)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("reset after", {"mask": MASK}),
        ("gates together", PLAIN),
        ("reset before", {"go_backwards": True}),
        ("reset before, apart", PLAIN),
    ],
    ids=["after-masked", "after", "before-backwards", "before"],
)
def test_the_loop_equals_the_steps_written_out(
    engine: object, name: str, options: dict[str, Any]
) -> None:
    wanted = results(name, unroll=True, **options)
    found = results(name, **options)
    with passes.without("hoist", "join_loops"):
        plain = results(name, **options)
    assert len(found) == len(plain) == len(wanted) > 9
    for a, b, want in zip(found, plain, wanted, strict=True):
        np.testing.assert_allclose(a, want, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(b, want, rtol=1e-4, atol=1e-5)
