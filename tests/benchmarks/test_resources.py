"""What networks need: threads, memory, and where the time to the first loss goes."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[2]))

from backplane import engines
from backplane.compile import function, program
from benchmarks.networks import causes, first, resources, resources_page
from benchmarks.networks.workers import Server
from benchmarks.problem import BACKPLANE


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


CAUSE = """\
[{key}]
heading = "Why so {key}?"
time = "In a profile."
tried = "Much."
needs = "More."
where = [{{ engines = ["{engine}"], parts = ["{part}"] }}]
"""


def test_the_page_of_resources(tmp_path: Path) -> None:
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
    threads = [row("numpy", BACKPLANE, seconds=[0.2, 0.1])]
    threads += [row("jax", name, seconds=[0.2, 0.16]) for name in (BACKPLANE, "by hand")]
    threads += [row("torch", BACKPLANE, seconds=[0.15, 0.1])]
    data = resources.updated(data, "threads", threads)
    file = tmp_path / "causes.toml"
    file.write_text(CAUSE.format(key="slow", engine="torch", part="ours"), encoding="utf-8")
    with pytest.raises(causes.UnexplainedError, match=r"toml:\nno cause for gpt on torch, t"):
        resources_page.text(data, file)
    with file.open("a", encoding="utf-8") as more:
        more.write(CAUSE.format(key="alone", engine="torch", part="threads"))
    text = resources_page.text(data, file)
    assert "| `gpt` | `torch` | threads |  | 1.13 | [alone](#why-so-alone) |" in text
    assert "| `gpt` | `torch` | ours |  | 2.00 | [slow](#why-so-slow) |" in text
    assert text.count("of the misses") == 2
    assert "| `gpt` | `numpy` | **Backplane** | 200 | 100 | 2.00 |" in text
    assert "| `gpt` | `torch` | **Backplane** | 150 | 0.75 |" in text
    assert "| `gpt` | `torch` | **Backplane** | 1.75 | 1.00 | 0.25 |" in text
    assert "`gpt` on `jax`, Backplane: no way" in text
