"""Programs on `cpu:0` by the code that an accelerator takes, on every engine that has such code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from backplane.core.context import changed
from compile.training import lstm, mlp, trained
from devices.checks import LARGE, counted
from devices.placing import on_device


@pytest.fixture
def placed(engine: Any) -> Any:
    """The engine on the processor, also where that is its only device."""
    return on_device(engine, "cpu:0")


@pytest.mark.parametrize("build", [mlp, lstm])
def test_training_is_the_same(build: Any, placed: Any) -> None:
    with changed(device=placed):
        weights, losses = trained(build, 3)
    plain, others = trained(build, 3)
    np.testing.assert_allclose(losses, others, rtol=1e-5)
    for w, v in zip(weights, plain, strict=True):
        np.testing.assert_allclose(w, v, rtol=1e-4, atol=1e-6)


def test_weights_and_slots_go_there_once(placed: Any) -> None:
    """Several functions share them, and nothing comes back."""
    size = int(LARGE**0.5)
    x = K.placeholder((None, size))
    with changed(device=placed):
        w, slot = K.variable(np.full((size, size), 0.01)), K.zeros((size, size))
        loss = K.mean(K.square(K.dot(x, w) - 1.0))
        new = 0.9 * slot - 0.1 * K.gradients(loss, [w])[0]
        train = K.function([x], [loss], [(slot, new), (w, w + new)])
        test = K.function([x], [loss])
        data = np.ones((4, size), "float32")
        with counted(placed) as copies:
            found = [f([data])[0] for f in (train, test, train, test)]
    assert found[0] > found[2]
    assert found[1] == pytest.approx(found[2])
    assert copies["in"] <= 2
    assert copies["out"] == 0
    assert list(w.values) == list(slot.values) == [placed]
