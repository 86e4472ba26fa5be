"""The hand-written programs of the networks give the same losses as K, and the command runs."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[2]))

from backplane import engines
from benchmarks.networks import NETWORKS, __main__, roofline
from benchmarks.networks.workers import programs

STEPS = 4


def losses(module: str, name: str) -> np.ndarray:
    network = NETWORKS[name]
    sizes = network.chosen(tiny=True)
    batch = network.data(np.random.default_rng(0), sizes)
    program = importlib.import_module(f"benchmarks.networks.programs.{module}")
    run = program.train(network, batch, sizes)
    return np.array([np.ravel(run.call(*run.arguments)) for _ in range(STEPS)], "float64")


def compare(module: str, name: str) -> None:
    with engines.use("numpy"):
        wanted = losses("k", name)
    np.testing.assert_allclose(losses(module, name), wanted, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("name", NETWORKS)
def test_by_hand_in_torch(name: str) -> None:
    compare("torch", name)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mobilenet-v2", "bert", "ctc", "dcgan"])
def test_by_hand_in_jax(name: str) -> None:
    compare("jax", name)


def test_which_programs_there_are() -> None:
    assert programs("gpt", "numpy") == ["Backplane"]
    assert programs("gpt", "keras3-torch") == ["Keras 3"]
    assert programs("wgan-gp", "keras3-torch") == []
    assert "by hand" in programs("wgan-gp", "torch")


def test_the_work_of_a_product() -> None:
    """The products of an autoencoder: three for each matrix, but two for the first one, whose
    operand is data.
    """
    network = NETWORKS["vae"]
    sizes = {"batch": 64, "pixels": 100, "units": 50, "code": 10}
    batch = network.data(np.random.default_rng(0), sizes)
    found = roofline.work(network, batch, sizes)
    products = 2 * 64 * (2 * 100 * 50 + 3 * (2 * 50 * 10 + 10 * 50 + 50 * 100))
    assert products < found["flops"] < 1.3 * products


@pytest.mark.slow
def test_the_command(tmp_path: Path) -> None:
    arguments = ["--only", "wavenet", "--engines", "numpy,torch", "--rounds", "1", "--tiny"]
    file = tmp_path / "networks.json"
    done = CliRunner().invoke(__main__.main, [*arguments, "--output", str(file)])
    assert done.exit_code == 0, done.output
    assert "WaveNet" in done.output
    assert not file.exists()  # small sizes are no result
