"""Every contender runs at a tiny size and gives the expected numbers. Nothing is timed here."""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[2]))

from backplane import engines
from benchmarks import against, interleaved, page, processes, targets, timing, workloads
from benchmarks.problem import BACKPLANE, ENGINES, STACKS, Plan, Run
from benchmarks.workers import ONE_THREAD, Worker, environment
from lean import lean


@pytest.mark.slow
@pytest.mark.parametrize("stack", STACKS)
def test_every_contender_gives_the_expected_numbers(stack: str) -> None:
    """Each process is a new one, as when it is measured: its engine is its own."""
    # They do not find what Keras imports and no contender needs.
    backend = environment(stack)["KERAS_BACKEND"].rpartition(".")[2]
    paths = lean({**os.environ, "KERAS_BACKEND": f"backplane.{backend}"})["PYTHONPATH"]
    flags = f"{ONE_THREAD['XLA_FLAGS']} {os.environ.get('XLA_FLAGS', '')}"
    quickly = {"XLA_FLAGS": flags, "NUMBA_OPT": "0"}  # Programs run a few times.
    worker = Worker(stack, interleaved.last_core(), {"PYTHONPATH": paths, **quickly})
    try:
        for name in workloads.INTERLEAVED:
            offered = workloads.module(name).contenders(name, stack)
            quick = [c for c in offered if "compile" not in c]
            report = worker.ask(do="prepare", workload=name, tiny=True, only=quick)
            assert report == dict.fromkeys(quick, "")
            worker.ask(do="drop")
    finally:
        worker.close()


def test_each_engine_has_a_rival_in_each_workload() -> None:
    for name in workloads.INTERLEAVED:
        for engine in ENGINES:
            offered = workloads.module(name).contenders(name, engine)
            if not offered:
                assert name == "overhead-eager"  # the engine computes nothing at once
                continue
            assert BACKPLANE in offered
            assert len(offered) > 1


def test_wrong_numbers_are_refused() -> None:
    from benchmarks import workers

    found = workloads.module("call")
    problem = found.problem("call")
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        workers.compare(found, problem, Run(lambda: np.zeros((8, 8))))


def test_a_block_resets_warms_up_and_counts() -> None:
    log: list[str] = []
    run = Run(lambda what: log.append(what), ("call",), lambda: log.append("reset"))
    seconds = timing.block(run, Plan(samples=3, inner=4, warmup=2))
    assert log == ["reset"] + ["call"] * (2 + 3) * 4
    assert seconds > 0


def test_ratios_are_formed_within_rounds() -> None:
    """A machine that gets slower in the middle changes times, not ratios."""
    seconds = {("jax", BACKPLANE): [2.0, 4.0, 20.0], ("jax", "by hand"): [1.0, 2.0, 10.0]}
    found = interleaved.summary("s", seconds, {})
    assert found["ratios"]["jax"]["hand"] == {
        "name": "by hand",
        "median": 2.0,
        "low": 2.0,
        "high": 2.0,
    }


def test_exponent() -> None:
    assert timing.exponent([10, 100, 1000], [1.0, 10.0, 100.0]) == pytest.approx(1)
    assert timing.exponent([10, 100, 1000], [1.0, 100.0, 10000.0]) == pytest.approx(2)


def test_rows_of_two_trees_are_compared_by_their_least_values() -> None:
    """What others do on the machine only adds to a time."""
    row = against.Row("call", "numpy", "Backplane", "s", ours=[1.0, 9.0], theirs=[2.0, 2.0])
    assert (row.ratio, row.paired) == (0.5, 2.5)
    assert against.show(Console(quiet=True), [row])
    slower = against.Row("call", "jax", "Backplane", "s", ours=[1.06], theirs=[1.0])
    assert not against.show(Console(quiet=True), [row, slower])


def test_the_comparison_of_trees_is_written_as_a_table(tmp_path: Path) -> None:
    rows = [
        against.Row("call", engine, "Backplane", "ms", [ours], [2e-3])
        for engine, ours in (("numpy", 1e-3), ("jax", 4e-3))
    ]
    file = tmp_path / "table.md"
    against.write(file, rows, ["mlp on torch: no memory"])
    text = file.read_text(encoding="utf-8")
    assert text.startswith("2 rows, geometric mean 1.000, worst 2.000, 1 above 1.05.\n")
    assert "| call | numpy | **Backplane** | 1 ms | 2 ms | 0.500 | 0.500 |" in text
    assert text.endswith("- Failed: mlp on torch: no memory\n")
    assert not against.show(Console(quiet=True), rows[:1], ["mlp on torch: no memory"])


def test_this_tree_against_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = ["call", "chain"]
    cores, measured = [interleaved.last_core()], against.interleaved

    def interleave(name: str, *others: object) -> object:
        if name == "chain":
            raise RuntimeError("it does not run")
        return measured(name, *others)

    monkeypatch.setattr(against, "interleaved", interleave)
    rows, failures = against.run(jobs, ["numpy"], 1, cores, against.ROOT, lambda _: None)
    assert [(row.workload, row.stack, len(row.ours)) for row in rows] == [("call", "numpy", 1)]
    assert failures == ["chain on numpy: it does not run"]


def test_each_process_has_its_own_time_on_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others end meanwhile, as in another lane."""
    monkeypatch.setenv(timing.CLOCK, "cpu")
    work = "import time\nwhile time.process_time() < {}: pass\nprint(1, flush=True)"

    def timed(seconds: float) -> float:
        line = [sys.executable, "-I", "-S", "-c", work.format(seconds)]
        return processes.timed(line, dict(os.environ))[0]

    with ThreadPoolExecutor(2) as threads:
        short, long = threads.map(timed, (0.2, 0.6))
    assert 0.2 <= short < long
    assert long >= 0.6
    with pytest.raises(RuntimeError, match="no such thing"):
        processes.timed(
            [sys.executable, "-c", "raise SystemExit('no such thing')"], dict(os.environ)
        )


@pytest.mark.parametrize("stack", ENGINES)
def test_single_functions_are_offered_for_every_engine(stack: str) -> None:
    assert "concatenate" in workloads.module("single").contenders("single", stack)


def results() -> dict:
    """Results of two workloads: one target met, one missed."""
    call = {("numpy", BACKPLANE): [2e-6], ("numpy", "expression"): [1e-6]}
    call |= {("reference", "reference K"): [1e-4]}
    growth = [
        {"stack": "numpy", "name": BACKPLANE, "depths": [25, 1000], "seconds": [0.01, 0.4]}
        | {"exponent": 1.0}
    ]
    machine = {"processor": "P", "architecture": "A", "cores": 1, "memory_gb": 1, "system": "S"}
    machine |= {"python": "3", "date": "2000-01-01", "versions": {"numpy": "2"}}
    measured = {**interleaved.summary("µs", call, {}), "rounds": 1}
    return {
        "machine": machine,
        "workloads": {"call": measured, "growth": {"growth": growth, "failures": {}}},
    }


def test_targets_are_told_met_or_missed() -> None:
    found = {(v.workload, v.aim): v for v in targets.verdicts(results()["workloads"])}
    missed = found["call", "over best hand-written"]
    assert (missed.value, missed.limit, missed.met) == ("2.00", "1.3", False)
    assert found["call", "over reference K"].met
    assert found["growth", "exponent"].met
    assert found["growth", "depth 1000"].met


@pytest.mark.filterwarnings("ignore::DeprecationWarning:matplotlib.*")
def test_the_page_holds_results_and_plots(tmp_path: Path) -> None:
    file = tmp_path / "benchmarks.md"
    page.write(results(), file)
    text = file.read_text(encoding="utf-8")
    assert "| call | numpy | over best hand-written | 1.3 | 2.00 |" in text
    assert "2 (2–2)" in text
    assert "Not in these results: mlp-sgd, " in text
    assert (tmp_path / "benchmarks" / "call.svg").read_text(encoding="utf-8").count("<svg") == 1
    first = (tmp_path / "benchmarks" / "growth.svg").read_bytes()
    page.write(json.loads(json.dumps(results())), file)
    assert (tmp_path / "benchmarks" / "growth.svg").read_bytes() == first


@pytest.mark.slow
@pytest.mark.parametrize("stack", ENGINES)
def test_growth_gives_the_expected_numbers(stack: str) -> None:
    from benchmarks import growth

    with engines.use(stack):
        for program, _ in growth.contenders(stack).values():
            assert growth.timed(program, 3) > 0


@pytest.mark.slow
@pytest.mark.parametrize(("stack", "name"), [("numpy", BACKPLANE), ("reference", "reference K")])
def test_growth_is_measured_in_processes(stack: str, name: str) -> None:
    from benchmarks import growth, processes

    assert name in growth.contenders(stack)
    core = interleaved.last_core()
    _, took = processes.child("benchmarks.growth", stack, core, stack, name, "3", "5")
    assert min(took) > 0
