"""Normalization on PyTorch, by its kernel and without."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
import torch

from backplane.core.spec import Spec
from backplane.engines.torch import ENGINE, groups


def normalized(x: Any, g: Any, gamma: Any, beta: Any, axes: tuple[int, ...]) -> list[Any]:
    """All results of a normalization and of its gradient."""
    specs = [Spec(tuple(t.shape), str(t.dtype)[6:]) for t in (x, gamma, beta)]
    forward = ENGINE.table["normalize"].function(specs, axes=axes, epsilon=0.25, wanted=(True,) * 4)
    y, mean, variance, scale = forward(x, gamma, beta)
    moment = Spec(tuple(mean.shape), specs[0].dtype)
    specs = [specs[0], specs[0], moment, moment, specs[1]]
    backward = ENGINE.table["normalize_grad"].function(specs, axes=axes, wanted=(True,) * 3)
    return [y, mean, variance, scale, *backward(g, x, mean, scale, gamma)]


@pytest.mark.parametrize("axes", [(0, 1, 2), (1, 3)])
def test_normalization_is_the_same_with_and_without_the_kernel(
    axes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(3)
    x, g = torch.tensor(rng.normal(size=(2, 2, 6, 3, 4)))
    shape = (4,) if axes[0] == 0 else (3, 4)
    given = (x, g, *torch.tensor(rng.normal(size=(2, *shape))), axes)
    found = normalized(*given)
    monkeypatch.setattr(groups, "MOST_ROWS", 0)
    for got, want in zip(found, normalized(*given), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


def test_groups_with_a_large_mean_keep_their_digits() -> None:
    """PyTorch's group normalization of images with the channels last is wrong by 1e-2."""
    rng = np.random.default_rng(3)
    x, g = rng.normal(size=(2, 2, 64, 3, 4)) + np.array([[[[[100.0]]]], [[[[0.0]]]]])
    given = [x, g, *rng.normal(size=(2, 3, 4))]
    wide = normalized(*[torch.tensor(t) for t in given], (1, 3))
    found = normalized(*[torch.tensor(t, dtype=torch.float32) for t in given], (1, 3))
    for got, want in zip(found, wide, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
