"""The page in docs/, made of the results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import plots
from benchmarks.networks import NETWORKS, conditions, run
from benchmarks.networks.causes import Cause, Miss, explained, section
from benchmarks.networks.workers import parts
from benchmarks.page import table
from benchmarks.problem import BACKPLANE, ENGINES, LIBRARY
from benchmarks.timing import spread

CLOCK = "cpu"
HEAD = """\
<!-- Written by `python -m benchmarks.networks`; do not edit. -->
# Networks

Use this page when you want to know how fast a network like yours trains and predicts. It compares
networks that are written once in K with the same networks by hand in TensorFlow, PyTorch and JAX,
and as layers of Keras 3. They have the sizes of the publications. [Benchmarks](benchmarks.md)
measures single mechanisms on small programs.

`python -m benchmarks.networks --only gpt,unet --engines torch,jax` measures some of them on your
machine. The programs are in `benchmarks/networks/`. All of them start from the same weights, and
their losses are compared over 20 steps before anything is timed.
"""
NOTES = (
    "One thread in every library and one core for every process. The programs of one engine take "
    "turns, block by block. Ratios are formed within each round, and their median is given.",
    "The C library keeps what a program frees for its next allocation, in every process alike "
    "(`MALLOC_MMAP_MAX_=0` and a large `MALLOC_TRIM_THRESHOLD_`). By default it gives large blocks "
    "back at once, and the time to get them again depends on the machine.",
    "Times are the processor's. `wall` is the time on the clock, in which other programs are "
    "contained. These lengthen the processor's time too, because they share caches and memory. So "
    "what is over the best by hand and Keras 3, which took turns with ours, can be trusted more "
    "than what is over the fastest of all, which ran at another time.",
    "`first` is the time from an empty program to the first loss: graph, gradients, compilation "
    "and one step, with the library imported and used before. `memory` is the most that the "
    "process held up to the 20th step beyond what it held before the network was built.",
    "By hand in PyTorch: images in the memory format `channels_last`, the library's own layer "
    "norm, GELU, attention, LSTM and cross-entropy, fused optimizers, sparse gradients for large "
    "tables. By hand in JAX: `jax.jit` of the whole step with its state donated, where descent "
    "writes only the rows of large tables that were looked up, once with the compiler's defaults "
    "and once without YNNPACK's convolutions. By hand in TensorFlow: one "
    "`tf.function` of the whole step, with fused batch norm, losses and update kernels, and where "
    "no steps follow each other the same compiled by XLA. By hand on ONNX Runtime: the prediction "
    "of the program in PyTorch, exported. There are no programs by hand for PyTensor, and no "
    "training by hand for ONNX Runtime; some networks have a model of Keras 3.",
    "By hand in NumPy there are `unet`, `gpt`, `gpt-768` and `bert`: windows of one image as the "
    "rows of a matrix, batched products, GELU block by block together with its derivative, Adam in "
    "place.",
    "`roof` is more than 100% for the recommender, because a step reads and writes only those rows "
    "of its tables that the batch names.",
)
PROFILES = (
    "Profiles were taken when a cause was found, on this machine or another one, where times "
    "differ by a factor of two."
)
LIMITS = {"hand": 1.05, "keras3": 1.0, "fastest": 1.3}
WITHOUT_COMPILER = ("numpy", "theano")
"""Engines that run NumPy's kernels one by one."""
MEAN = 2.0
"""The limit of their geometric mean over the fastest. Single networks above it are listed."""
RIVALS = {"hand": "best by hand", "keras3": "Keras 3", "fastest": "fastest of all"}

Rows = Sequence[dict[str, Any]]


def write(data: dict[str, Any], page: Path, causes: Sequence[Cause]) -> None:
    """Write the page and its plot, in a folder beside it, named like it.

    Raises:
        UnexplainedError: if a miss has no cause, or a cause no miss. Nothing is written then.
    """
    found = {name: data["networks"][name] for name in NETWORKS if name in data["networks"]}
    lines = [HEAD, *_machine(data, found), *_misses(found, causes)]
    pictures = page.with_suffix("")
    pictures.mkdir(parents=True, exist_ok=True)
    picture = plots.ratios(_plotted(found), pictures / "steps.svg")
    lines += [
        f"![Steps over the best program by hand or of Keras 3]({pictures.name}/{picture.name})",
        "",
    ]
    for name, measured in found.items():
        lines += [f"## {NETWORKS[name].title}", ""]
        lines += _network(name, measured, data["limits"])
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _machine(data: dict[str, Any], networks: dict[str, Any]) -> Iterator[str]:
    found = data["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    limits = data["limits"]
    yield "## Measured on\n"
    yield (
        f"{found['processor']}, {found['cores']} cores, of which one is used, Python "
        f"{found['python']}, {found['date']}. {versions}. On this core NumPy multiplies large "
        f"matrices at {limits['flops'] / 1e9:.0f} GFLOP/s and copies at "
        f"{limits['bytes'] / 1e9:.1f} GB/s.\n"
    )
    notes = (
        *NOTES,
        kernels_of_tensorflow(found["processor"]),
        _unmeasured(networks),
        _unpredicted(networks),
        *conditions.remarks(networks),
    )
    yield from (f"- {text}" for text in notes if text)
    yield ""


def kernels_of_tensorflow(processor: str) -> str:
    """A remark on processors for which TensorFlow does not use oneDNN by itself."""
    if "AVX2" not in processor:
        return ""
    return "The processor has no AVX-512, so TensorFlow takes kernels of its own, not oneDNN's."


def _unmeasured(found: dict[str, Any]) -> str:
    """What has no figures yet, by engine."""
    gaps = []
    if absent := [f"`{name}`" for name in NETWORKS if name not in found]:
        gaps.append(", ".join(absent))
    for engine in ENGINES:
        there, missing = [], []
        for name, measured in found.items():
            ran = [r for r in measured["programs"] if r["name"] == BACKPLANE and not r["error"]]
            (there if any(r["stack"] == engine for r in ran) else missing).append(f"`{name}`")
        if missing and len(missing) <= len(there):
            gaps.append(f"on {LIBRARY[engine]} {', '.join(missing)}")
        elif missing:
            kept = f" but {', '.join(there)}" if there else ""
            gaps.append(f"on {LIBRARY[engine]} all{kept}")
    return f"Not measured yet: {'; '.join(gaps)}." if gaps else ""


def _unpredicted(found: dict[str, Any]) -> str:
    """Where Backplane's predictions have no figures."""
    places = {
        (name, row["stack"])
        for name, measured in found.items()
        for row in measured["programs"]
        if row["name"] == BACKPLANE
        and not row["error"]
        and "predict" in parts(NETWORKS[name], row["name"])
        and f"predict {CLOCK}" not in row
    }
    return f"Predictions were not measured of {conditions.places(places)}." if places else ""


def medians(rows: Rows, part: str, clock: str = CLOCK) -> dict[tuple[str, str], float]:
    """Seconds of the programs that ran."""
    key = f"{part} {clock}"
    known = [row for row in rows if not row["error"] and key in row]
    return {(row["stack"], row["name"]): spread(row[key])["median"] for row in known}


def over(rows: Rows, engine: str, part: str) -> dict[str, tuple[float, str]]:
    """Backplane's time over that of each kind of rival, and the rival's name."""
    seconds = medians(rows, part)
    found = {
        kind: (ratio["median"], ratio["name"])
        for kind, ratio in run.ratios(rows, engine, part, CLOCK).items()
    }
    ours = seconds.get((engine, BACKPLANE))
    if ours is not None:
        stack, name = min(seconds, key=seconds.__getitem__)
        found["fastest"] = ours / seconds[stack, name], f"{name} on {stack}"
    return found


def limit(kind: str, engine: str) -> float:
    """The limit of a ratio over a kind of rival."""
    return MEAN if kind == "fastest" and engine in WITHOUT_COMPILER else LIMITS[kind]


def mean(ratios: Sequence[float]) -> str:
    """The geometric mean, for people."""
    return f"{np.exp(np.mean(np.log(ratios))):.2f}" if ratios else "–"


def _over_fastest(found: dict[str, Any], engine: str, part: str) -> str:
    known = [over(measured["programs"], engine, part) for measured in found.values()]
    return mean([ratios["fastest"][0] for ratios in known if "fastest" in ratios])


def misses(found: dict[str, Any]) -> tuple[list[Miss], int]:
    """The goals that are missed, and how many there are in all."""
    missed, count = [], 0
    for name, measured in found.items():
        for engine in ENGINES:
            for part in ("step", "predict"):
                rows = measured["programs"]
                for kind, (ratio, rival) in over(rows, engine, part).items():
                    count += 1
                    if ratio > (most := limit(kind, engine)):
                        busier = _busier(rows, engine, part) if kind == "fastest" else 1.0
                        known = kind, ratio, most, rival, busier
                        missed.append(Miss(name, engine, part, *known))
    return missed, count


def _busier(rows: Rows, engine: str, part: str) -> float:
    """The time on the clock over the processor's, of ours, over the same of the fastest program."""
    seconds, wall = medians(rows, part), medians(rows, part, "wall")
    fastest = min(seconds, key=seconds.__getitem__)
    stretched = [wall[key] / seconds[key] for key in ((engine, BACKPLANE), fastest)]
    return stretched[0] / stretched[1]


def _misses(found: dict[str, Any], causes: Sequence[Cause]) -> Iterator[str]:
    missed, count = misses(found)
    why = explained(missed, causes)
    yield "## Goals\n"
    yield (
        "A step and a prediction take at most 1.05 of the best program by hand on the engine, less "
        "than Keras 3 on it, and at most 1.3 of the fastest program of all. On NumPy and PyTensor, "
        f"which compile no kernels, the last one is a geometric mean of at most {MEAN:g}.\n"
    )
    for engine in WITHOUT_COMPILER:
        step, predict = (_over_fastest(found, engine, part) for part in ("step", "predict"))
        yield f"- {LIBRARY[engine]}: {step} for steps and {predict} for predictions"
    yield (
        f"\n{count - len(missed)} of {count} ratios are within their limit, {MEAN:g} for single "
        "networks on these two engines. The others:\n"
    )
    yield "<details><summary>Missed</summary>\n"
    rows = [
        [m.network, m.engine, m.part, f"{RIVALS[m.kind]}: {m.rival}", f"{m.limit:g}",
         f"{m.ratio:.2f}", cause.link]
        for m, cause in zip(missed, why, strict=True)
    ]  # fmt: skip
    yield from table(["network", "engine", "", "over", "at most", "measured", "why"], rows)
    yield "</details>\n"
    yield from section(causes, why, PROFILES)


def _plotted(found: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Network → engine → a step over the best rival on that engine."""
    plotted: dict[str, dict[str, float]] = {}
    for name, measured in found.items():
        for engine in ENGINES:
            ratios = over(measured["programs"], engine, "step")
            rivals = [ratio for kind, (ratio, _) in ratios.items() if kind != "fastest"]
            if rivals:
                plotted.setdefault(name, {})[engine] = max(rivals)
    return plotted


def _network(name: str, measured: dict[str, Any], limits: dict[str, float]) -> Iterator[str]:
    work = measured["work"]
    least = max(work["flops"] / limits["flops"], work["bytes"] / limits["bytes"])
    yield (
        f"`{name}`. A step takes {work['flops'] / 1e9:.3g} GFLOP. To read and write all weights, "
        f"state and data once is {work['bytes'] / 1e6:.3g} MB. A program that does both takes at "
        f"least {least * 1e3:.3g} ms on this core; `roof` is that over the time of a step.\n"
    )
    rows = []
    for row in measured["programs"]:
        where = LIBRARY.get(row["stack"].removeprefix("keras3-"), row["stack"])
        if row["error"]:
            rows.append([where, row["name"], "did not run", *[""] * 6])
            continue
        step, predict = (
            f"{spread(row[key])['median'] * 1e3:.3g}" if key in row else "–"
            for key in (f"step {CLOCK}", f"predict {CLOCK}")
        )
        roof = wall = first = memory = "–"
        if "first" in row:
            roof = f"{least / spread(row[f'step {CLOCK}'])['median']:.0%}"
            wall = f"{spread(row['step wall'])['median'] * 1e3:.3g}"
            first, memory = f"{row['first'][CLOCK]:.2f}", f"{row['peak'] / 1e6:.0f}"
        kinds = over(measured["programs"], row["stack"], "step") if row["name"] == BACKPLANE else {}
        ratio = (
            ", ".join(f"{kinds[k][0]:.2f}" if k in kinds else "–" for k in LIMITS) if kinds else ""
        )
        rows.append([where, row["name"], step, wall, ratio, predict, roof, first, memory])
    yield from table(
        ["on", "program", "step ms", "wall", "over hand, Keras 3, fastest", "predict ms", "roof",
         "first s", "memory MB"],
        rows,
    )  # fmt: skip
    failed = [r for r in measured["programs"] if r["error"]]
    yield from (f"- {r['name']} on {r['stack']} did not run: {r['error']}" for r in failed)
