"""Steps of Keras 3 on Backplane beside those on Keras' own backends.

    python -m benchmarks.keras_steps [MODEL …] [--rounds N]

trains each model on every backend, one thread on one core, on the processor's clock. The processes
take turns, epoch by epoch. It writes `benchmarks/results/keras_steps.json` and
`docs/keras-3-speed.md`. Models that are not named keep what was measured before. With `--page`
nothing is measured.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import machine, timing
from benchmarks.interleaved import last_core
from benchmarks.keras_models import BATCHES, LARGE_BATCHES, LARGE_UNTIMED, MODELS, UNTIMED
from benchmarks.page import table
from benchmarks.workers import Worker, WorkerError

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks/results/keras_steps.json"
PAGE = ROOT / "docs/keras-3-speed.md"

OWN = ("torch", "tensorflow", "jax")
"""The backends of Keras that train."""
OURS = ("torch", "tensorflow", "jax", "numpy", "theano", "cntk")
COMPILED = "keras3-torch-jit"
STACKS = [*(f"keras3-{n}" for n in OWN), COMPILED, *(f"backplane.{n}" for n in OURS)]
AIMS = {"torch": 0.6, "tensorflow": 0.8, "jax": 1.0}
"""Time of a step over that of Keras' own backend on the same library, at most."""
ROUNDS = 7

INTRODUCTION = """\
<!-- Written by `python -m benchmarks.keras_steps`; do not edit. -->
# Keras 3 on Backplane: speed

Use this page when you want to know how fast Keras 3 is on Backplane. It compares training and
prediction by unmodified Keras 3 on Backplane's engines with Keras' own backends on the same
libraries. Each process has one thread on one core. Times are the processor's. The processes take
turns, epoch by epoch, and the numbers are medians of the rounds. An epoch has {batches} batches,
{large} for the five large models. The first {untimed}, or {skipped}, are not timed. Models are
compiled with Adam, the sparse categorical crossentropy and the accuracy. Keras on PyTorch runs
eagerly, as by its default. "Compiled" means `jit_compile=True`, with which Keras has PyTorch's
compiler compile the step.
"""


def measured(name: str, rounds: int) -> dict[str, Any]:
    """Blocks of one model on all backends, in turns."""
    core = last_core()
    workers: dict[str, Worker] = {}
    found: dict[str, Any] = {}
    try:
        for stack in STACKS:
            worker = Worker(stack, core, None, "benchmarks.keras_worker", name)
            try:
                found[stack] = {**worker.ask(do="first"), "fit": [], "predict": []}
                worker.ask(do="block")
                workers[stack] = worker
            except WorkerError as error:
                found[stack] = {"error": str(error)}
                worker.close()
        shuffled = random.Random(0)
        for turn in range(rounds):
            print(f"{name}: round {turn + 1} of {rounds}", flush=True)
            for stack in shuffled.sample(list(workers), len(workers)):
                for kind, seconds in workers[stack].ask(do="block").items():
                    found[stack][kind].append(seconds)
        for stack, worker in workers.items():
            found[stack]["memory"] = worker.ask(do="memory")
    finally:
        for worker in workers.values():
            worker.close()
    return found


def main() -> None:
    """Measure, and write the results and the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.keras_steps")
    parser.add_argument("models", nargs="*", choices=[*MODELS, []])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--page", action="store_true", help="write the page; measure nothing")
    given = parser.parse_args()
    data = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"models": {}}
    if not given.page:
        for name in given.models or MODELS:
            data["models"][name] = measured(name, given.rounds)
            data["machine"] = machine.description()
            RESULTS.write_text(json.dumps(data, indent=1) + "\n")
    PAGE.write_text("\n".join(_lines(data)) + "\n", encoding="utf-8")


def _lines(data: dict[str, Any]) -> Iterator[str]:
    yield INTRODUCTION.format(
        batches=BATCHES, untimed=UNTIMED, large=LARGE_BATCHES, skipped=LARGE_UNTIMED
    )
    models = {name: data["models"][name] for name in MODELS if name in data["models"]}
    yield "The models:\n"
    for name in models:
        yield f"- `{name}`: {MODELS[name].__doc__}"
    yield ""
    for kind, title in (("fit", "A step of `fit`"), ("predict", "A batch of `predict`")):
        yield f"## {title}, over Keras' own backend\n"
        yield "The ratio of the two on the same library; below 1 Backplane is faster.\n"
        yield from _ratios(models, kind)
        yield f"## {title}, ms\n"
        yield from _times(models, kind)
    yield "## First step, s\n"
    yield "The model is built and compiled, and the first step is traced and run.\n"
    yield from _plain(models, "first", 1.0)
    yield "## Memory, MB\n"
    yield "What the process held at most, less what it held with the libraries imported.\n"
    yield from _plain(models, "memory", 1e-6)
    found = data["machine"]
    yield (
        f"Measured on {found['processor']}, {found['date']}, with "
        f"{', '.join(f'{n} {v}' for n, v in found['versions'].items())}."
    )


def _ratios(models: dict[str, Any], kind: str) -> Iterator[str]:
    pairs = {name: (f"backplane.{name}", f"keras3-{name}") for name in OWN}
    pairs["torch, compiled"] = "backplane.torch", COMPILED
    rows: list[list[str]] = []
    logarithms: dict[str, list[float]] = {name: [] for name in pairs}
    for model, found in models.items():
        cells = []
        for name, (ours, theirs) in pairs.items():
            blocks = [found.get(stack, {}).get(kind) for stack in (ours, theirs)]
            if not all(blocks):
                cells.append("")
                continue
            ratio = timing.ratio(*blocks)
            logarithms[name].append(math.log(ratio["median"]))
            cells.append("{median:.2f} ({low:.2f}–{high:.2f})".format(**ratio))
        rows.append([f"`{model}`", *cells])
    means = [math.exp(sum(logs) / len(logs)) if logs else 1.0 for logs in logarithms.values()]
    rows.append(["geometric mean", *(f"**{mean:.2f}**" for mean in means)])
    if kind == "fit":
        rows.append(["aim, at most", *(f"{AIMS.get(name, '')}" for name in pairs)])
    yield from table(["model", *pairs], rows)


def _cell(row: dict[str, Any], kind: str, scale: float) -> str:
    if "error" in row or kind not in row:
        return "fails" if "error" in row else ""
    value = timing.spread(row[kind])["median"] if isinstance(row[kind], list) else row[kind]
    return f"{value * scale:.3g}"


def _times(models: dict[str, Any], kind: str) -> Iterator[str]:
    yield from _plain(models, kind, 1e3)


def _plain(models: dict[str, Any], kind: str, scale: float) -> Iterator[str]:
    heads = [f"Keras on {name}" for name in OWN] + ["Keras on torch, compiled"]
    heads += [f"Backplane on {name}" for name in OURS]
    rows = [
        [head, *(_cell(found.get(stack, {}), kind, scale) for found in models.values())]
        for head, stack in zip(heads, STACKS, strict=True)
    ]
    yield from table(["", *(f"`{name}`" for name in models)], rows)


if __name__ == "__main__":
    main()
