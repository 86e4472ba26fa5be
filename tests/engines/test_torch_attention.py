"""PyTorch's kernel of attention: when it serves, and when single operations do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from backplane.compile import passes

pytest.importorskip("torch")
from backplane.engines.torch.fast import attention

KEYS = 128


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The shapes of the queries that the kernel and the single operations were called with."""
    found: list[Any] = []

    def watched(name: str) -> None:
        own = getattr(attention, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            found.append((name, tuple(args[0].shape)))
            return own(*args, **kwargs)

        monkeypatch.setattr(attention, name, call)

    watched("kernel")
    watched("_composed")
    with K.engine("torch"):
        yield found


def predicted(q: np.ndarray, keys: int = KEYS) -> np.ndarray:
    given = [K.placeholder((None, 2, n, 4)) for n in (3, None, None)]
    y = K.matmul(
        K.softmax(K.matmul(given[0], K.permute_dimensions(given[1], (0, 1, 3, 2)))), given[2]
    )
    k = np.random.default_rng(0).uniform(1, 2, (len(q), 2, keys, 4)).astype("float32")
    result: np.ndarray = K.function(given, [y])([q, k, k])[0]
    return result


def test_the_kernel_serves(calls: list[Any]) -> None:
    predicted(np.ones((5, 2, 3, 4), "float32"))
    assert calls == [("kernel", (5, 2, 3, 4))]


def test_few_keys_and_no_samples_go_without(calls: list[Any]) -> None:
    predicted(np.ones((5, 2, 3, 4), "float32"), KEYS - 1)
    predicted(np.ones((0, 2, 3, 4), "float32"))
    assert [name for name, _ in calls] == ["_composed", "_composed"]


def test_rows_that_see_nothing_are_computed_again(calls: list[Any]) -> None:
    q = np.ones((5, 2, 3, 4), "float32")
    q[1, 1, 2] = -np.inf
    y = predicted(q)
    assert [name for name, _ in calls] == ["kernel", "_composed"]
    assert np.isnan(y[1, 1, 2]).all()
    assert np.isfinite(y).sum() == y.size - 4


def test_rows_that_a_mask_hides_weigh_all_values_alike(calls: list[Any]) -> None:
    """So do those of padding in Keras 3, in most batches."""
    given = [K.placeholder((None, 2, n, 4)) for n in (3, KEYS, KEYS)]
    mask = K.placeholder((None, 1, 3, KEYS), dtype="bool")
    scores = K.matmul(given[0], K.permute_dimensions(given[1], (0, 1, 3, 2)))
    y = K.matmul(K.softmax(K.where(mask, scores, -1e9)), given[2])
    data = [np.random.default_rng(n).normal(size=(2, 2, n, 4)) for n in (3, KEYS, KEYS)]
    shown = np.ones((2, 1, 3, KEYS), bool)
    shown[1, :, 1:] = False
    found = K.function([*given, mask], [y])([*data, shown])[0]
    assert [name for name, _ in calls] == ["kernel"]
    np.testing.assert_allclose(found[1, :, 1], data[2][1].mean(1), rtol=1e-5, atol=1e-6)
    with passes.without("join_groups"):
        wanted = K.function([*given, mask], [y])([*data, shown])[0]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
