"""The networks of the benchmark, small: they train on every engine, and engines agree."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from backplane import engines
from benchmarks.networks import NETWORKS

STEPS = 6


def trained(name: str) -> dict[str, np.ndarray]:
    """The losses of a few steps, and a prediction from the initial weights."""
    from benchmarks.networks.programs import k

    network = NETWORKS[name]
    sizes = network.chosen(tiny=True)
    batch = network.data(np.random.default_rng(0), sizes)
    run = k.train(network, batch, sizes)
    losses = np.array([run.call(*run.arguments) for _ in range(STEPS)])
    run = k.predict(network, batch, sizes)
    return {"losses": losses, "prediction": np.asarray(run.call(*run.arguments)[0])}


@cache
def expected(name: str) -> dict[str, np.ndarray]:
    with engines.use("numpy"):
        return trained(name)


@pytest.mark.parametrize("name", NETWORKS)
def test_network(name: str, engine: Any) -> None:
    found, wanted = trained(name), expected(name)
    for what, want in wanted.items():
        assert np.isfinite(found[what]).all(), what
        scale = np.abs(want).max()
        np.testing.assert_allclose(
            found[what], want, rtol=2e-4, atol=2e-4 * scale, err_msg=f"{name}: {what}"
        )
    total = wanted["losses"].sum(1)
    assert total[-1] < total[0], "nothing was learned"
