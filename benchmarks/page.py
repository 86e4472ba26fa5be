"""The page in docs/, made of the results."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import machine, plots, show, targets
from benchmarks.problem import BACKPLANE, LIBRARY, REFERENCE

HEAD = """\
<!-- Written by `python -m benchmarks`; do not edit. -->
# Benchmarks

Use this page when you want to know how fast Backplane is. It compares Backplane with the best
hand-written program on each engine, with Keras 3 on each of its backends, and with the K of classic
Keras ("reference K": `tensorflow.python.keras.backend`, in graph mode with a session, as TensorFlow
still ships it). The K programs are written once, in the plain documented way, and the reference
runs the same text. The programs are in `benchmarks/`; `make benchmarks` measures again and writes
this page.
"""

TITLES = {
    "call": "Call of tanh(x @ W + b), 8 × 8, NumPy in and out",
    "mlp-sgd": "MLP 784-512-512-10, batch 128: a step of SGD with momentum",
    "mlp-adam": "The same, a step of Adam",
    "cnn": "CNN 28 × 28: conv 3×3×32, conv 3×3×64, max-pool, dense 128, dropout; Adam, batch 32",
    "lstm": "LSTM 32 × 80 × 128, 128 units: forward, backward, SGD",
    "chain": "mean(square(sigmoid(x) * tanh(x) + relu(x))) of 4M floats",
    "overhead-eager": "One eager call: tanh of a tensor, 8 × 8",
    "overhead-eval": "`K.eval` of tanh of a variable, 8 × 8",
    "start-import": "Import",
    "start-small": "Process start to first result: the small function",
    "start-mlp": "Process start to first result: a step of the MLP",
    "growth": "Growth: an MLP of width 16 with all gradients, built, compiled and called once",
    "memory": "Peak memory of a training step: the CNN at batch 256",
}

NOTES = {
    "cnn": "PyTensor has no convolution: its program is products of windows laid out in rows.",
    "lstm": "PyTensor's own scan, differentiated by PyTensor, compiles for half a minute and then "
    "takes six times as long as the program here, whose steps and gradient are written out.",
    "chain": "ONNX Runtime sums the 4M numbers one after the other in float32, so its mean is "
    "right to 6e-4 only.",
    "start-small": "Of the hand-written programs the one that starts fastest was taken. Files are "
    "in the page cache.",
    "growth": "Seconds from an empty graph to the first result, in a process of its own with the "
    "library imported. PyTensor's own (`FAST_COMPILE`) stops at depth 200 and the reference at "
    "400, where they become slow.",
    "memory": "What the process held at most during three steps, less what it held with the "
    "library imported and a tiny build of the same program run; without pages of files, which are "
    "the code of libraries. Median of three processes.",
}


CLOCKS = {
    "wall": "",
    "cpu": "Measured on a machine that others used too, so what counts is the processor's time of "
    "the process, not the time that passed.",
}


def write(data: dict[str, Any], page: Path) -> None:
    """Write the page and its plots (in a folder beside it, named like it)."""
    pictures = page.with_suffix("")
    pictures.mkdir(parents=True, exist_ok=True)
    page.write_text("\n".join(_lines(data, pictures)) + "\n", encoding="utf-8")


def _lines(data: dict[str, Any], pictures: Path) -> Iterator[str]:
    yield HEAD
    yield from _machine(data["machine"])
    yield from _verdicts(data["workloads"])
    if missing := [name for name in TITLES if name not in data["workloads"]]:
        yield f"Not in these results: {', '.join(missing)}.\n"
    for name, title in TITLES.items():
        found = data["workloads"].get(name)
        if found is None:
            continue
        yield f"## {title}\n"
        notes = [NOTES.get(name, ""), CLOCKS[found.get("clock", "wall")]]
        if any(notes):
            yield " ".join(filter(None, notes)) + "\n"
        if picture := plots.draw(name, found, pictures):
            yield f"![{title}]({pictures.name}/{picture.name})\n"
        yield from _growth(found) if "growth" in found else _tables(found)


def _machine(found: dict[str, Any]) -> Iterator[str]:
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    yield "## Measured on\n"
    yield (
        f"{found['processor']} ({found['architecture']}), {found['cores']} cores, of which one is "
        f"used, {found['memory_gb']} GB, {found['system']}, Python {found['python']}, "
        f"{found['date']}. {versions}.\n"
    )
    yield from (f"- {text}" for text in machine.CONTROLS)
    yield ""


def _verdicts(workloads: dict[str, Any]) -> Iterator[str]:
    found = targets.verdicts(workloads)
    missed = [v for v in found if not v.met]
    yield "## Targets\n"
    yield (
        f"{len(found) - len(missed)} of {len(found)} are met. Missed:\n" if missed else "All met.\n"
    )
    if missed:
        yield from table(
            ["workload", "engine", "what", "at most", "measured"],
            [[v.workload, v.engine, v.aim, v.limit, v.value] for v in missed],
        )
    yield "<details><summary>Met</summary>\n"
    yield from table(
        ["workload", "engine", "what", "at most", "measured"],
        [[v.workload, v.engine, v.aim, v.limit, v.value] for v in found if v.met],
    )
    yield "</details>\n"


def _tables(found: dict[str, Any]) -> Iterator[str]:
    if found["ratios"]:
        yield "Backplane over each rival, median of the rounds (below 1 Backplane is faster):\n"
        kinds = [k for k in targets.RIVALS if any(k in r for r in found["ratios"].values())]
        rows = [
            [engine, *(show.cell(ratios.get(kind), kind == "hand") for kind in kinds)]
            for engine, ratios in found["ratios"].items()
        ]
        yield from table(["engine", *(targets.RIVALS[kind] for kind in kinds)], rows)
    rows = [
        [label(row), row["name"], show.amount(row, found["unit"])] for row in found["contenders"]
    ]
    yield from table(["on", "program", f"{found['unit']} (quartiles)"], rows)
    yield from (f"- did not run: {name}: {error}" for name, error in found["failures"].items())


def label(row: dict[str, Any]) -> str:
    """Where a contender runs, as people know it."""
    stack = row["stack"].removeprefix("keras3-")
    return "TensorFlow" if stack == REFERENCE else LIBRARY.get(stack, stack)


def _growth(found: dict[str, Any]) -> Iterator[str]:
    rows = found["growth"]
    depths = max((row["depths"] for row in rows), key=len)
    cells = []
    for row in rows:
        seconds = [f"{s:.3g}" for s in row["seconds"]]
        seconds += ["–"] * (len(depths) - len(seconds))
        slope = "" if row["exponent"] is None else f"{row['exponent']:.2f}"
        cells.append([label(row), row["name"], *seconds, slope])
    yield from table(["on", "program", *map(str, depths), "exponent"], cells)


def table(headings: list[str], rows: list[list[str]]) -> Iterator[str]:
    """A table, Backplane in bold."""
    yield "| " + " | ".join(headings) + " |"
    yield "|" + "---|" * len(headings)
    for row in rows:
        cells = [f"**{cell}**" if cell == BACKPLANE else cell for cell in row]
        yield "| " + " | ".join(cells) + " |"
    yield ""
