"""The model of what a mesh costs, and the workers of `python -m benchmarks.scaling`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.scaling import cost
from benchmarks.scaling.__main__ import run

NETWORK = cost.Network(width=100, layers=2)
DEVICE = cost.Device(speed=1e6, update=1e-6)
LINK = cost.Link("test", 1e-3, 1e6)


def test_sums_over_a_ring() -> None:
    assert LINK.reduce(4000, 1) == 0
    assert LINK.reduce(4000, 2) == pytest.approx(2 * (1e-3 + 2e-3))
    assert LINK.reduce(4000, 4) == pytest.approx(6 * (1e-3 + 1e-3))


def test_computing_and_communication() -> None:
    assert NETWORK.work(10) == 6 * 20_000 * 10
    assert cost.step(NETWORK, 10, 1, 1, DEVICE, LINK) == (pytest.approx(1.22), 0)
    computing, sending = cost.step(NETWORK, 20, 2, 1, DEVICE, LINK)
    assert (computing, sending) == (pytest.approx(1.22), pytest.approx(2 * LINK.reduce(40_000, 2)))
    computing, sending = cost.step(NETWORK, 10, 1, 2, DEVICE, LINK)
    assert (computing, sending) == (pytest.approx(0.61), pytest.approx(2 * LINK.reduce(4000, 2)))
    assert NETWORK.memory(10, 1, 1) == 4 * (4 * 20_000 + 10 * 200)
    assert NETWORK.memory(10, 2, 2) == 4 * (4 * 10_000 + 5 * 200)


def test_a_link_is_found_from_its_sums() -> None:
    measured = [(s, n, LINK.reduce(s, n)) for s in (1e3, 1e5, 1e6) for n in (2, 4)]
    found = cost.fitted("found", measured)
    assert found.latency == pytest.approx(LINK.latency)
    assert found.bandwidth == pytest.approx(LINK.bandwidth)


def test_a_device_is_found_from_its_steps() -> None:
    steps = [(rows, sum(cost.step(NETWORK, rows, 1, 1, DEVICE, LINK))) for rows in (5, 20)]
    assert cost.measured_device(NETWORK, steps) == pytest.approx(DEVICE)


def test_where_it_stops_to_pay() -> None:
    fast, slow = cost.Link("fast", 0, 1e15), cost.Link("slow", 1.0, 1e3)
    assert cost.last_useful(NETWORK, 10, "batch", DEVICE, slow, grow=True) == 1
    assert cost.last_useful(NETWORK, 10, "batch", DEVICE, fast, grow=True) == 4096
    fixed = cost.last_useful(NETWORK, 10, "batch", DEVICE, LINK, grow=False)
    assert 1 <= fixed < cost.last_useful(NETWORK, 1000, "batch", DEVICE, LINK, grow=True)


@pytest.mark.slow
def test_workers_measure(tmp_path: Path) -> None:
    mesh = {"model": 2}
    found = run("jax", "train", 2, 1, mesh, width=8, layers=2, rows=4, layouts=True)
    assert 0 < found["fastest"] <= found["median"]
    assert all(s > 0 for s in run("jax", "reduce", 2, 1, {"batch": 2}, sizes=[64, 128]))
    found = run("jax", "train", 2, width=8, layers=2, rows=4, beside=(str(tmp_path), 2))
    assert found["median"] > 0
    assert len(list(tmp_path.iterdir())) == 2
