"""The hand-written programs of the networks give the same losses as K, and the command runs."""

from __future__ import annotations

import importlib
import itertools
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[2]))

from backplane import engines
from backplane.compile import function, program
from benchmarks.networks import NETWORKS, __main__, first, page, resources, resources_page, roofline
from benchmarks.networks.workers import Server, programs
from benchmarks.problem import BACKPLANE

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


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["mobilenet-v2", "bert", "bidirectional", "ctc", "wgan-gp", "recommender"]
)
def test_by_hand_in_tensorflow(name: str) -> None:
    compare("tensorflow", name)


def test_which_programs_there_are() -> None:
    assert programs("gpt", "numpy") == ["Backplane"]
    assert programs("gpt", "keras3-torch") == ["Keras 3"]
    assert programs("wgan-gp", "keras3-torch") == []
    assert "by hand" in programs("wgan-gp", "torch")
    assert programs("ctc", "tensorflow") == ["Backplane", "by hand"]  # XLA would take minutes
    assert programs("gpt", "cntk") == ["Backplane", "by hand, exported from PyTorch"]
    assert programs("physics", "theano") == ["Backplane"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mobilenet-v2", "bert", "bidirectional"])
def test_exported_predictions(name: str) -> None:
    network = NETWORKS[name]
    sizes = network.chosen(tiny=True)
    batch = network.data(np.random.default_rng(0), sizes)
    found = [
        importlib.import_module(f"benchmarks.networks.programs.{module}").predict(
            network, batch, sizes
        )
        for module in ("onnxruntime", "torch")
    ]
    exported, wanted = (np.asarray(run.call(*run.arguments)) for run in found)
    np.testing.assert_allclose(exported[0], wanted, rtol=1e-4, atol=1e-5)


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


@pytest.mark.filterwarnings("ignore::DeprecationWarning:matplotlib.*")
def test_the_page_tells_what_is_missed(tmp_path: Path) -> None:
    def row(stack: str, name: str, seconds: float) -> dict:
        found = {"stack": stack, "name": name, "error": "", "peak": 1e6}
        found["first"] = {"wall": 1.0, "cpu": 1.0}
        return found | {f"step {clock}": [seconds] * 3 for clock in ("wall", "cpu")}

    rows = [row("torch", BACKPLANE, 0.02), row("torch", "by hand", 0.01)]
    rows += [row("keras3-torch", "Keras 3", 0.04), {**row("jax", BACKPLANE, 1), "error": "no way"}]
    machine = {"processor": "P", "cores": 1, "python": "3", "date": "2000-01-01", "versions": {}}
    data = {
        "machine": machine,
        "limits": {"flops": 1e11, "bytes": 1e10},
        "networks": {"gpt": {"work": {"flops": 5e8, "bytes": 1e6}, "programs": rows}},
    }
    assert page.over(rows, "torch", "step") == {
        "hand": (2.0, "by hand"),
        "keras3": (0.5, "Keras 3"),
        "fastest": (2.0, "by hand on torch"),
    }
    file = tmp_path / "networks.md"
    page.write(data, file)
    text = file.read_text(encoding="utf-8")
    assert "1 of 3 such ratios" in text
    assert "| gpt | torch | step | best by hand: by hand | 1.05 | 2.00 |" in text
    assert "takes at least 5 ms" in text
    assert "`unet`, " in text[text.index("Not measured yet: ") :].partition("\n")[0]
    assert "; on NumPy all; on TensorFlow all; on JAX all; on PyTensor all;" in text
    assert "did not run: no way" in text
    picture = (tmp_path / "networks" / "steps.svg").read_bytes()
    page.write(data, file)
    assert (tmp_path / "networks" / "steps.svg").read_bytes() == picture


@pytest.mark.parametrize("stack", ["numpy", "jax"])
def test_the_phases_of_the_first_step(stack: str) -> None:
    before = [function.compiled, function.straight, program.emitter_for]
    with engines.use(stack):
        server = Server(stack, "vae", BACKPLANE, "tiny")
        found = first.split(server)
        run = server.runs["step"]
        assert np.isfinite(run.call(*run.arguments)).all()
    assert list(found) == list(resources_page.PHASES)
    assert min(found.values()) >= 0
    # Nothing of the work is counted as something else.
    assert all(found[name] > 0 for name in (*resources_page.OURS, "data", "run"))
    assert [function.compiled, function.straight, program.emitter_for] == before
    assert "compile" not in vars(engines.get(stack))


def test_only_the_inner_phase_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    class Work:
        def inner(self) -> int:
            return 1

        def outer(self) -> int:
            return self.inner() + self.inner()

    monkeypatch.setattr(first, "process_time", itertools.count().__next__)
    clocks, work = first.Clocks(), Work()
    with clocks.around(Work, "inner", "code"), clocks.around(work, "outer", "graph"):
        assert work.outer() == 2
    assert (clocks.seconds["graph"], clocks.seconds["code"]) == (3, 2)
    assert vars(work) == {}
    assert work.outer() == 2
    assert sum(clocks.seconds.values()) == 5


@pytest.mark.slow
def test_the_command_for_resources(tmp_path: Path) -> None:
    file = tmp_path / "resources.json"
    done = CliRunner().invoke(
        resources.main, ["all", "numpy", "--only", "gpt", "--tiny", "--output", str(file)]
    )
    assert done.exit_code == 0, done.output
    assert "gpt on numpy, Backplane: " in done.output
    assert "gain" in done.output
    assert "passes" in done.output
    assert not file.exists()  # small sizes are no result


def test_the_page_of_resources() -> None:
    def row(stack: str, name: str, **found: object) -> dict:
        return {"network": "gpt", "stack": stack, "program": name, "error": "", **found}

    phases = dict.fromkeys(resources_page.PHASES, 0.25)
    rows = [
        row("torch", "by hand", first=1.0, bytes=1e8),
        row("torch", BACKPLANE, first=1.75, bytes=1.5e8, phases=phases),
        row("jax", BACKPLANE, error="no way"),
    ]
    data = resources.updated({}, "costs", rows)
    again = row("torch", "by hand", first=1.0, bytes=2e8)
    data = resources.updated(data, "costs", [again])
    assert len(data["costs"]) == 3
    data = resources.updated(data, "threads", [row("numpy", BACKPLANE, seconds=[0.2, 0.1])])
    text = resources_page.text(data)
    assert "| `gpt` | `numpy` | **Backplane** | 200 | 100 | 2.00 |" in text
    assert "| `gpt` | `torch` | **Backplane** | 150 | 0.75 |" in text
    assert "| `gpt` | `torch` | **Backplane** | 1.75 | 1.00 | 0.25 |" in text
    assert "`gpt` on `jax`, Backplane: no way" in text
