"""Published architectures below Keras 3: `keras.applications`, and backbones of keras_hub.

    python -m benchmarks.keras_applications [MODEL …] [--engine NAME …] [--resume]

builds each model on Keras' own TensorFlow backend and on Backplane's engines, with the same
weights, and compares predictions and two training steps. It writes
`benchmarks/results/keras_applications.json` model by model, and `docs/keras-3-applications.md`.
Models and engines that are not named keep what was measured before. `--resume` goes on with what is
left. With `--page` nothing is measured. The backbones need `pip install keras-hub`; without it they
have to be left out by naming models.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.keras_architectures import (
    APPLICATIONS,
    BACKBONES,
    BATCH,
    CLASSES,
    HUB,
    RATE,
    REFERENCE,
    ROUNDINGS,
    SIZE,
)
from benchmarks.page import table
from benchmarks.workers import Worker, WorkerError

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks/results/keras_applications.json"
PAGE = ROOT / "docs/keras-3-applications.md"
FILES = ROOT / "build/keras_applications"
"""What the reference predicts, one file for each model."""

ENGINES = ("numpy", "torch", "cntk")
BOUND = 1e-4
CONDITION = 10
"""A loss may differ by so many times what the last bit of the weights changes."""
SPREAD = 1e-3
"""Predictions that depend less on the inputs compare nothing."""
KEPT = 2**30
"""A process that holds more after a model is followed by a new one."""
LARGE = 1e8
"""A model with more parameters has a process of its own."""


CAUSES = {
    "NASNetMobile": "the draws of the last bit were too few. Six others changed the losses on "
    "TensorFlow by 7e-5 to 4e-4.",
}
"""Why losses of models are not within the bounds."""
STACKS = (REFERENCE, *(f"backplane.{name}" for name in ENGINES))

INTRODUCTION = """\
<!-- Written by `python -m benchmarks.keras_applications`; do not edit. -->
# Keras 3 on Backplane: published architectures

Use this page when you want to know whether a published model gives the same numbers on Backplane.
It compares models of unmodified Keras 3 on Backplane's engines with Keras' own TensorFlow backend,
with the same weights, inputs and labels. Weights are drawn from seeds; moving averages are the
moments of the batch. Images have {size} pixels a side, or the least that a model takes; a batch has
{batch} rows, and there are {classes} classes. Dropout is off, since each backend draws masks of its
own.

- *predictions*: the largest difference of an output over the largest output, at most {bound}.
- *loss*: the relative difference of the training loss after one step of gradient descent, with
  the rate {rate}. Deep networks with random weights enlarge rounding errors, so
  *rounding* says how much this loss changes on TensorFlow alone when each weight is changed by at
  most half of its last bit ({rounding}). A loss may differ by {bound} or by {condition} times
  that, and so may the loss before the step.
- Where predictions differ by more, the page says how much the last bit of the weights moves those
  of TensorFlow alone.
- *memory*: what the process held at most on each engine, libraries and models before it included.

Predictions have to depend on the inputs: their standard deviation over the batch is at least
{spread} of the largest output.
"""


class Process:
    """A process for models of one backend, one after the other, and its successors."""

    def __init__(self, stack: str) -> None:
        self.stack = stack
        self.worker: Worker | None = None

    def ask(self, **request: Any) -> Any:
        """Ask the process, which is started if need be."""
        if self.worker is None:
            arguments = (self.stack, 0, None, "benchmarks.keras_architectures")
            self.worker = Worker(*arguments)
        try:
            return self.worker.ask(**request)
        except WorkerError:
            self.end()
            raise

    def end(self) -> None:
        """End the process."""
        if self.worker is not None:
            self.worker.close()
            self.worker = None

    def run(self, group: str, name: str, parameters: float) -> dict[str, Any]:
        """What a model gives."""
        if parameters > LARGE:
            self.end()
        try:
            found: dict[str, Any] = self.ask(
                do="run", group=group, name=name, file=str(_file(name))
            )
            if found["parameters"] > LARGE or self.ask(do="memory") > KEPT:
                self.end()
        except WorkerError as error:
            found = {"error": str(error).removeprefix(f"{self.stack}: ")[:500]}
        return found


def measure(data: dict[str, Any], models: list[tuple[str, str]], stack: str, resume: bool) -> None:
    """Run models on one backend, from small to large, and write the results after each."""

    def size(model: tuple[str, str]) -> float:
        row = data["models"].get(model[1], {}).get(REFERENCE, {})
        return float(row.get("parameters", 0))

    process = Process(stack)
    try:
        for group, name in sorted(models, key=size):
            rows = data["models"].setdefault(name, {"group": group})
            measured = "error" not in rows.get(stack, {"error": ""})
            if resume and measured and (stack != REFERENCE or _file(name).exists()):
                continue
            rows[stack] = process.run(group, name, size((group, name)))
            print(f"{stack} {name}: {rows[stack]}", flush=True)
            data["machine"] = machine.description()
            RESULTS.write_text(json.dumps(data, indent=1) + "\n")
    finally:
        process.end()


def main() -> None:
    """Measure, and write the results and the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.keras_applications")
    parser.add_argument("models", nargs="*")
    parser.add_argument("--engine", action="append", choices=ENGINES)
    parser.add_argument("--resume", action="store_true", help="keep what is measured")
    parser.add_argument("--page", action="store_true", help="write the page; measure nothing")
    given = parser.parse_args()
    data = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"models": {}}
    if not given.page:
        FILES.mkdir(parents=True, exist_ok=True)
        data["names"] = _asked("names")
        models = _chosen(given.models, data["names"])
        if any(group == HUB for group, _ in models):
            data[HUB] = _asked("release")
        measure(data, models, REFERENCE, given.resume or bool(given.engine))
        for name in given.engine or ENGINES:
            measure(data, models, f"backplane.{name}", given.resume)
    PAGE.write_text("\n".join(_lines(data)) + "\n", encoding="utf-8")


def verdict(row: dict[str, Any], reference: dict[str, Any]) -> list[str]:
    """What of a model's numbers is not as it has to be; nothing where all is well."""
    if found := row.get("error") or reference.get("error"):
        return [str(found)]
    missed = []
    if row["weights"] != reference["weights"]:
        missed.append("its weights have another order or other shapes")
    if reference["spread"] < SPREAD:
        missed.append("its predictions hardly depend on the inputs")
    if not row["predictions"] <= BOUND:
        moved = reference.get("predictions_rounding")
        cause = "" if moved is None else f"; the last bit of the weights moves them by {moved:.1e}"
        missed.append(f"its predictions differ by {row['predictions']:.1e}{cause}")
    losses = [n for n in ("first", "second") if not row[n] <= _allowed(reference, n)]
    return [*missed, *(f"the {name} loss differs by {row[name]:.1e}" for name in losses)]


def _allowed(reference: dict[str, Any], part: str) -> float:
    return float(max(BOUND, CONDITION * reference[f"{part}_rounding"]))


def _lines(data: dict[str, Any]) -> Iterator[str]:
    rounding = f"the largest of up to {ROUNDINGS} draws"
    yield INTRODUCTION.format(
        batch=BATCH, classes=CLASSES, size=SIZE, rate=RATE, rounding=rounding, bound=BOUND,
        condition=CONDITION, spread=SPREAD,
    )  # fmt: skip
    for group, title in ((APPLICATIONS, "`keras.applications`"), (HUB, "Backbones of keras_hub")):
        rows = {n: row for n, row in data["models"].items() if row["group"] == group}
        complete = {n: row for n, row in rows.items() if len(row.keys() & set(STACKS)) > 1}
        yield f"## {title}\n"
        yield from _summary(data, group, complete)
        ordered = sorted(complete.items(), key=lambda item: item[1][REFERENCE].get("parameters", 0))
        yield from _numbers(dict(ordered))
    found = data["machine"]
    versions = [*found["versions"].items(), ("keras-hub", data[HUB])]
    yield (
        f"Measured on {found['processor']}, {found['date']}, with "
        f"{', '.join(f'{name} {version}' for name, version in versions)}."
    )


def _summary(data: dict[str, Any], group: str, rows: dict[str, Any]) -> Iterator[str]:
    missed = [
        f"- `{name}` on `{engine}`: {text}"
        for name, row in rows.items()
        for engine in ENGINES
        if f"backplane.{engine}" in row
        for text in verdict(row[f"backplane.{engine}"], row[REFERENCE])
    ]
    known = data["names"] if group == APPLICATIONS else list(BACKBONES)
    full = sum(set(STACKS) <= row.keys() for row in rows.values())
    yield (
        f"{full} of {len(known)} models were measured on all of {', '.join(ENGINES)}. "
        f"{'All are within the bounds.' if not missed else 'Not within the bounds:'}\n"
    )
    if missed:
        yield "\n".join(missed) + "\n"
        yield "".join(f"`{name}`: {why}\n" for name, why in CAUSES.items() if name in rows)
    if left := [f"`{name}`" for name in known if name not in rows]:
        yield f"Not measured yet: {', '.join(left)}.\n"
    if group == HUB:
        yield "Their sizes:\n"
        yield "\n".join(f"- `{name}`: {BACKBONES[name].__doc__}" for name in rows) + "\n"


def _numbers(rows: dict[str, Any]) -> Iterator[str]:
    lines = []
    for name, row in rows.items():
        reference = row[REFERENCE]
        size = reference.get("size")
        cells = [f"`{name}`", _count(reference.get("parameters", 0)), str(size or "")]
        cells += [_cell(row, engine, "predictions") for engine in ENGINES]
        cells.append(_limit(reference))
        cells += [_cell(row, engine, "second") for engine in ENGINES]
        cells.append(_memory(row))
        lines.append(cells)
    yield from table(
        [
            "model",
            "parameters",
            "pixels",
            *(f"predictions, {engine}" for engine in ENGINES),
            "loss, rounding",
            *(f"loss, {engine}" for engine in ENGINES),
            "memory, GB",
        ],
        lines,
    )


def _cell(row: dict[str, Any], engine: str, part: str) -> str:
    found = row.get(f"backplane.{engine}")
    if found is None:
        return ""
    return "fails" if "error" in found else _short(found[part])


def _short(value: float) -> str:
    return f"{value:.0e}".replace("e-0", "e-") if value else "0"


def _limit(reference: dict[str, Any]) -> str:
    return "" if "error" in reference else _short(reference["second_rounding"])


def _memory(row: dict[str, Any]) -> str:
    held = (row.get(f"backplane.{engine}", {}).get("memory") for engine in ENGINES)
    return " / ".join(f"{size / 1e9:.1f}" if size else "–" for size in held)


def _count(parameters: int) -> str:
    return f"{parameters / 1e6:.1f} M" if parameters > 1e6 else f"{parameters / 1e3:.0f} k"


def _file(name: str) -> Path:
    return FILES / f"{name}.npz"


def _asked(what: str) -> Any:
    process = Process(REFERENCE)
    try:
        return process.ask(do=what)
    finally:
        process.end()


def _chosen(names: list[str], applications: list[str]) -> list[tuple[str, str]]:
    """The models to measure, with their groups."""
    known = dict.fromkeys(applications, APPLICATIONS) | dict.fromkeys(BACKBONES, HUB)
    if unknown := set(names) - set(known):
        raise SystemExit(f"unknown models: {sorted(unknown)}; there are {', '.join(known)}")
    return [(known[name], name) for name in names or known]


if __name__ == "__main__":
    main()
