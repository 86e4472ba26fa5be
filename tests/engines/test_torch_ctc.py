"""PyTorch's kernels for the loss of CTC: where they serve, and where the loop does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from backplane import engines
from backplane.ops import ctc

pytest.importorskip("torch")
import torch

from backplane.engines.torch import ENGINE

LABELS = np.array([[1, 1, 0], [0, 2, 2], [2, 0, 1], [1, 0, 0]])
STEPS, COUNTS = np.array([6, 4, 2, 0]), np.array([2, 3, 3, 1])
"""The third and the last sample have too few steps."""


@pytest.fixture(autouse=True)
def on_torch() -> Any:
    with engines.use("torch"):
        yield


def loss_and_slope(steps: int | None = None, **options: Any) -> Any:
    y = K.placeholder((None, steps, 4))
    loss = K.ctc_batch_cost(LABELS, y, STEPS, COUNTS)
    return K.function([y], [loss, *K.gradients(loss, [y])], **options)


def predictions() -> np.ndarray:
    return np.random.default_rng(3).dirichlet([1] * 4, (4, 6)).astype("float32")


def looped(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    with monkeypatch.context() as patch:
        patch.delitem(ENGINE.table, "ctc_loss")
        found: list[np.ndarray] = loss_and_slope()([predictions()])
    return found


def test_the_kernel_equals_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    f = loss_and_slope()
    wanted = looped(monkeypatch)
    for found, want in zip(f([predictions()]), wanted, strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)
    assert np.isinf(wanted[0][2:]).all()
    assert "ctc_loss(" in f.source()


@pytest.mark.parametrize("shape", [(4, 0, 4), (0, 6, 4)])
def test_no_steps_and_no_samples(shape: Any) -> None:
    ones = [np.full(shape[0], n, "int32") for n in (0, 1)]
    scores, labels = K.placeholder(shape), np.zeros((shape[0], 2), "int32")
    loss, slopes = ctc.ctc_loss(scores, *[K.constant(x, "int32") for x in (labels, *ones)])
    found = K.function([scores], [loss, slopes])([np.zeros(shape, "float32")])
    assert found[0].tolist() == [np.inf] * shape[0]
    assert found[1].shape == shape


def test_compiled_it_is_one_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    f = loss_and_slope(6, compile={"backend": "aot_eager", "fullgraph": True})
    for found, want in zip(f([predictions()]), looped(monkeypatch), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)


def test_the_tape_gives_second_derivatives() -> None:
    y = torch.tensor(predictions()[:2].astype("float64"), requires_grad=True)
    rest = STEPS[:2], COUNTS[:2]
    assert torch.autograd.gradgradcheck(lambda y: K.ctc_batch_cost(LABELS[:2], y, *rest), [y])
