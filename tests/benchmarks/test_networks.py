"""The hand-written programs of the networks give the same losses as K, and the command runs."""

from __future__ import annotations

import importlib
import os
import sys
import threading
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[2]))

from backplane import engines
from benchmarks import lanes
from benchmarks.networks import (
    NETWORKS,
    __main__,
    answer,
    causes,
    conditions,
    page,
    results,
    roofline,
    run,
)
from benchmarks.networks.causes import Cause, Miss
from benchmarks.networks.workers import IN_NUMPY, programs
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


@pytest.mark.parametrize("name", IN_NUMPY)
def test_by_hand_in_numpy(name: str) -> None:
    compare("numpy", name)


@pytest.mark.parametrize("name", NETWORKS)
def test_by_hand_in_torch(name: str) -> None:
    compare("torch", name)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "mobilenet-v2",
        "bert",
        "ctc",
        "dcgan",
        "graph-convolution",
        "message-passing",
        "swin",
        "conformer",
        "mamba",
        "mamba-2",
        "ode",
        "tagger",
        "tabnet",
        "diffusion",
    ],
)
def test_by_hand_in_jax(name: str) -> None:
    compare("jax", name)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["recommender", "deepfm", "deepfm-26"])
def test_rows_of_large_tables_by_hand_in_jax(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("benchmarks.networks.layers.jax"), "LARGE", 4)
    compare("jax", name)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "mobilenet-v2",
        "bert",
        "bidirectional",
        "ctc",
        "wgan-gp",
        "recommender",
        "graph-convolution",
        "message-passing",
        "llama",
        "swin",
        "conformer",
        "mamba",
        "tagger",
        "tabnet",
        "diffusion",
    ],
)
def test_by_hand_in_tensorflow(name: str) -> None:
    compare("tensorflow", name)


def test_which_programs_there_are() -> None:
    assert programs("gpt", "numpy") == ["Backplane", "by hand"]
    assert programs("vae", "numpy") == ["Backplane"]
    assert programs("gpt", "keras3-torch") == ["Keras 3"]
    assert programs("wgan-gp", "keras3-torch") == []
    assert "by hand" in programs("wgan-gp", "torch")
    assert programs("ctc", "tensorflow") == ["Backplane", "by hand"]  # XLA would take minutes
    assert programs("gpt", "cntk") == ["Backplane", "by hand, exported from PyTorch"]
    assert programs("physics", "theano") == ["Backplane"]
    assert programs("graph-convolution", "cntk") == ["Backplane"]  # ONNX has no sparse product
    assert programs("graph-convolution", "tensorflow") == ["Backplane", "by hand"]


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


@pytest.mark.parametrize("name", NETWORKS)
def test_each_network_has_its_work(name: str) -> None:
    network = NETWORKS[name]
    sizes = network.chosen(tiny=True)
    batch = network.data(np.random.default_rng(0), sizes)
    with engines.use("numpy"):
        found = roofline.work(network, batch, sizes)
    assert found["flops"] > 0
    assert found["bytes"] > batch["x"].nbytes


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
    why = [cause("slow", engines=["torch"])]
    page.write(data, file, why)
    text = file.read_text(encoding="utf-8")
    assert "1 of 3 ratios" in text
    assert "| by hand | 1.05 | 2.00 | [slow](#it-is-slow) |" in text.replace("best by hand: ", "")
    assert "### It is slow\n\n2 of the misses.\n\n- **Where the time goes.** In slow." in text
    assert "takes at least 5 ms" in text
    assert "`unet`, " in text[text.index("Not measured yet: ") :].partition("\n")[0]
    assert "; on NumPy all; on TensorFlow all; on JAX all; on PyTensor all;" in text
    assert "did not run: no way" in text
    picture = (tmp_path / "networks" / "steps.svg").read_bytes()
    page.write(data, file, why)
    assert (tmp_path / "networks" / "steps.svg").read_bytes() == picture
    with pytest.raises(causes.UnexplainedError, match="no cause for gpt on torch, step over hand"):
        page.write(data, file, [cause("slow", rivals=["fastest"])])
    assert file.read_text(encoding="utf-8") == text  # nothing was written


# --- why goals are missed -------------------------------------------------------------------------


def cause(key: str, **where: object) -> Cause:
    told = {"time": f"In {key}.", "tried": "Much.", "needs": "More."}
    return Cause(key, f"It is {key}", told, [where])


def test_the_first_cause_that_holds_explains_a_miss() -> None:
    slow = Miss("gpt", "numpy", "step", "fastest", 1.5, 1.3)
    close = slow._replace(ratio=1.33)
    near, any_ = cause("near", near=1.05), cause("any", networks=["gpt"], parts=["step"])
    assert causes.explained([close, slow], [near, any_]) == [near, any_]


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ({"networks": ["bert"]}, "no cause for gpt on numpy, step over fastest: 1.50"),
        ({"engines": ["jax"]}, "no miss has one"),
        ({"parts": ["predict"]}, "no miss has one"),
        ({"rivals": ["hand", "keras3"]}, "no cause for gpt on numpy"),
        ({"near": 1.1}, "no cause for gpt on numpy"),
    ],
)
def test_misses_without_causes_and_causes_without_misses_are_errors(
    place: dict, words: str
) -> None:
    slow = Miss("gpt", "numpy", "step", "fastest", 1.5, 1.3)
    with pytest.raises(causes.UnexplainedError, match=words):
        causes.explained([slow], [cause("one", **place)])
    with pytest.raises(causes.UnexplainedError, match="no miss has one"):
        causes.explained([slow], [cause("other"), cause("one", **place)])


def test_what_a_cause_must_say(tmp_path: Path) -> None:
    file = tmp_path / "causes.toml"
    file.write_text("[slow]\nheading = 'x'\n")
    with pytest.raises(ValueError, match="slow has"):
        causes.read(file)
    file.write_text("[slow]\nheading='x'\ntime='t'\ntried='t'\nneeds='n'\nwhere=[{machine='x'}]\n")
    with pytest.raises(ValueError, match=r"where has \['machine'"):
        causes.read(file)


@pytest.mark.filterwarnings("ignore::DeprecationWarning:matplotlib.*")
def test_the_page_in_the_docs_is_made_of_the_results_and_causes(tmp_path: Path) -> None:
    file = tmp_path / "networks.md"
    page.write(results.read(__main__.FILE), file, causes.read())
    assert file.read_text(encoding="utf-8") == __main__.PAGE.read_text(encoding="utf-8")
    answer.write(results.read(__main__.FILE), file, causes.read())
    assert file.read_text(encoding="utf-8") == answer.PAGE.read_text(encoding="utf-8")


def test_the_answer_in_a_few_lines(tmp_path: Path) -> None:
    def row(stack: str, name: str, seconds: float, first: float) -> dict:
        found = {"stack": stack, "name": name, "error": "", "first": {"cpu": first, "wall": first}}
        return found | {f"step {clock}": [seconds] * 3 for clock in ("wall", "cpu")}

    def network(ours: float) -> dict:
        rows = [row("torch", BACKPLANE, ours, 3.0), row("torch", "by hand", 1.0, 2.0)]
        return {"programs": [*rows, row("jax", BACKPLANE, 0.5, 1.0)]}

    file = tmp_path / "answer.md"
    networks = {"gpt": network(0.5), "vae": network(2.0)}
    data = {"networks": networks, "machine": {"processor": "P with AVX2"}}
    answer.write(data, file, [cause("slow", engines=["torch"])])
    text = file.read_text(encoding="utf-8")
    # The mean of a half and two, one of two within the limit, three seconds over two, one and four.
    assert "| PyTorch | 2 | 1.00 | 1 of 2 | – | 1.50 | 2.00 |" in text
    assert "| JAX | 2 | – | – | – | – | 1.00 |" in text
    assert "of 1 that take more than 1.05" in text
    assert "| PyTorch | step | 2.00 | [slow](networks.md#it-is-slow) |" in text


def test_programs_by_hand_in_tensorflow_without_xla() -> None:
    rows = [
        {"stack": "tensorflow", "name": name, "error": "", "step cpu": [seconds]}
        for name, seconds in ((BACKPLANE, 2.0), ("by hand", 3.0), ("by hand, XLA", 1.0))
    ]
    told = "\n".join(answer.in_tensorflow({"gpt": rows}, "P with AVX2"))
    assert told.startswith("The processor has no AVX-512")
    assert "step by hand takes 1.50 of the time of ours" in told
    assert "AVX-512" not in "".join(answer.in_tensorflow({"gpt": rows}, "P with AVX-512"))
    assert not list(answer.in_tensorflow({"gpt": rows[:1]}, "P"))


# --- conditions -----------------------------------------------------------------------------------


def measured(stack: str, **how: object) -> dict:
    known = conditions.measured("abc", 1, 0.0) | {"date": "2000-01-02"} | how
    row = {"stack": stack, "name": BACKPLANE, "error": "", "measured": known, "losses": [2.0, 1.0]}
    return row | {f"{part} {c}": [1.0] for part in ("step", "predict") for c in ("wall", "cpu")}


def test_what_the_page_says_of_conditions() -> None:
    rows = {
        "gpt": [measured("numpy"), measured("torch"), measured("keras3-torch", quiet=False)],
        "vae": [measured("numpy"), measured("torch", quiet=False, remark="Old", date="2000-01-09")],
        "bert": [measured("numpy")],
    }
    assert conditions.remarks({name: {"programs": found} for name, found in rows.items()}) == [
        "`gpt` and `vae` on PyTorch were measured while other programs ran; all other rows on an "
        "otherwise idle machine.",
        "Rows were measured from 2000-01-02 to 2000-01-09.",
        "Old: `vae` on PyTorch.",
    ]
    pairs = {"gpt": {"programs": [measured("numpy", lanes=2)]}}
    words = "2 at a time on an otherwise idle machine on 2000-01-02"
    assert conditions.remarks(pairs) == [f"All rows were measured {words}."]
    assert conditions.remarks({"gpt": {"programs": []}}) == []


def test_how_busy_others_kept_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stat = tmp_path / "stat"
    monkeypatch.setattr(conditions, "STAT", stat)
    monkeypatch.setattr(conditions.time, "perf_counter", iter([0.0, 10.0]).__next__)
    ticks = conditions.os.sysconf("SC_CLK_TCK")
    stat.write_text(f"cpu {5 * ticks} 0 0 999 7 0 0 0 0 0\ncpu0 1 2 3\n")
    watch = conditions.Watch()
    stat.write_text(f"cpu {20 * ticks} {ticks} {ticks} 999999 77 0 0 0 0 0\n")
    others = watch.others(own=9.0)
    assert others == pytest.approx(0.8)
    assert not conditions.measured("", 1, others)["quiet"]
    assert conditions.measured("", 2, others)["quiet"]  # the other lane's
    stat.unlink()
    assert watch.others(1.0) is None
    assert not conditions.measured("", 1, None)["quiet"]


# --- measuring some and keeping the rest ----------------------------------------------------------


def test_rows_stay_until_they_are_measured_anew(tmp_path: Path) -> None:
    file, how = tmp_path / "networks.json", run.How(1, commit="abc")
    work, limits = {"flops": 1, "bytes": 1}, {"flops": 1.0, "bytes": 1.0}

    def keep(*rows: dict) -> list[tuple[str, list]]:
        results.keep(file, "physics", rows[0]["stack"], list(rows), how, work, limits)
        found = results.read(file)["networks"]["physics"]["programs"]
        return [(row["stack"], row["error"]) for row in found]

    assert keep(measured("jax")) == [("jax", "")]
    assert keep(measured("numpy")) == [("numpy", ""), ("jax", "")]
    other = {**measured("torch"), "losses": [2.0, 1.5, 1.1]}
    assert keep(other)[1:] == [("jax", ""), ("torch", "losses are 0.05 away from those of numpy")]
    rows = measured("torch"), {**measured("torch"), "name": "by hand, compiled"}
    assert keep(*rows)[2:] == [("torch", "")] * 2
    assert keep(measured("torch"))[2:] == [("torch", "")]  # what did not take turns has gone
    assert results.has(file, "physics", "numpy", how)
    assert not results.has(file, "physics", "numpy", how._replace(commit="def"))
    assert not results.has(file, "physics", "torch", how)  # by hand is missing
    assert not results.has(file, "gpt", "numpy", how)


def test_lanes_measure_at_once_and_go_on_where_they_were_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, both, taken = tmp_path / "networks.json", threading.Barrier(2), []

    def engine(name: str, engine: str, core: int, say: object, how: run.How) -> run.Rows:
        both.wait(60)  # Neither goes on without the other.
        taken.append((name, engine, core))
        return [measured(engine, lanes=how.lanes)]

    monkeypatch.setattr(run, "engine", engine)
    monkeypatch.setattr(lanes, "cores", lambda core, count: [3, 5][:count])
    monkeypatch.setattr(results, "limits", lambda core: {"flops": 1.0, "bytes": 1.0})
    monkeypatch.setattr(results, "work", lambda name, core: {"flops": 1, "bytes": 1})
    monkeypatch.setattr(conditions, "commit", lambda: "abc")
    asked = ["--only", "vae,physics", "--output", str(file), "--lanes", "2", "--resume"]
    done = CliRunner().invoke(__main__.main, [*asked, "--engines", "numpy,theano"])
    assert done.exit_code == 0, done.output
    assert {core for *_, core in taken} == {3, 5}
    assert len(taken) == 4
    found = results.read(file)["networks"]
    assert {(name, row["stack"]) for name in found for row in found[name]["programs"]} == {
        (name, engine) for name in ("vae", "physics") for engine in ("numpy", "theano")
    }
    taken.clear()
    done = CliRunner().invoke(__main__.main, [*asked, "--engines", "numpy,theano"])
    assert (done.exit_code, taken) == (0, [])


def test_more_lanes_than_cores_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    assert lanes.cores(0, 1) == [0]
    assert lanes.cores(0, 2) == [0, 1]
    with pytest.raises(click.BadParameter, match="may use 2 cores"):
        lanes.cores(0, 3)
