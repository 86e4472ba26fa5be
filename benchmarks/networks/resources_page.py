"""The first section of docs/measurements.md: the results of `benchmarks.networks.resources`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.networks import causes
from benchmarks.networks.causes import Miss
from benchmarks.page import table
from benchmarks.problem import BACKPLANE, ENGINES, KERAS3

CAUSES = causes.FILE.with_name("resources_causes.toml")

DATA, VARIABLES = "data", "variables"
GRAPH, GRADIENTS, PASSES, CODE = "graph", "gradients", "passes", "code"
LIBRARY, RUN = "library", "run"

PHASES = {
    DATA: "random initial weights, which every program draws",
    VARIABLES: "`K.variable` and `K.zeros`, which copies the weights",
    GRAPH: "all other calls of K",
    GRADIENTS: "`K.gradients`",
    PASSES: "the passes over the graph",
    CODE: "the text of the program and of its call, compiled by Python",
    LIBRARY: "what the library compiles, and whatever else happens only once",
    RUN: "a step, as long as the second one takes",
}
"""The phases, in their order, with what they are."""
OURS = (GRAPH, GRADIENTS, PASSES, CODE)
"""Those that Backplane itself spends."""

HEAD = """\
# Threads, memory and the first step

This section shows what training steps of a few networks need besides time. [Networks](networks.md)
has the times, and describes the programs by hand. `python -m benchmarks.networks.resources all`
measures this section on your machine. Each figure comes from one process.
"""
THREADS = """\
The table has the least milliseconds of a training step with one thread and with two. The last
column says how many times as fast two are. The C library keeps what a program frees.
"""
MEMORY = """\
The table has the most memory that a process holds during three training steps, less what it held
before the network was built, in MB. The last column divides this by the smallest figure of the
programs by hand on the same engine.
"""
FIRST = """\
The table has the processor's seconds from an empty program to the first loss, with the library
imported and used before. For Backplane, the columns say where they go:
"""
GOALS = """\
Two threads are at least 1.7 times as fast as one, or as much as the best program by hand gains
from them on the same engine. A training step of ResNet-50 and of the GPT holds at most 1.05 of the
memory of the best program by hand. The first step takes at most as long as that of Keras 3, and on
JAX as that of the program by hand. `ours` is at most a tenth of it on engines whose library
compiles, and less than 0.5 s on the others. These goals are missed:
"""
GAIN, MEMORY_LIMIT, SHARE, SECONDS = 1.7, 1.05, 0.1, 0.5
COMPILERS = ("tensorflow", "jax", "theano", "cntk")
"""Engines whose library compiles programs."""
ORDER = (*ENGINES, *KERAS3)

Row = Mapping[str, Any]


def text(data: Mapping[str, Any], file: Path = CAUSES) -> str:
    """The page, with the causes of a file.

    Raises:
        UnexplainedError: if a goal is missed without a cause, or a cause has no such goal.
    """
    lines = [HEAD]
    found = data.get("machine")
    if found is not None:
        versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
        lines += [
            f"Measured on {found['processor']}, {found['cores']} cores, Python {found['python']}, "
            f"{found['date']}. {versions}. A load above 1 says that other programs ran; the first "
            "of the three is that of the last minute.\n"
        ]
    for kind, section in (("threads", _threads), ("costs", _memory), ("costs", _first)):
        rows = sorted(data.get(kind, ()), key=_place)
        if rows:
            lines += section([row for row in rows if not row["error"]])
            lines += (
                [f"The load was {data['load'][kind]} when it began.\n"] if "load" in data else []
            )
    if "threads" in data and "costs" in data:
        lines += _goals(misses(data), file)
    failed = [row for kind in ("threads", "costs") for row in data.get(kind, ()) if row["error"]]
    lines += [f"`{r['network']}` on `{r['stack']}`, {r['program']}: {r['error']}\n" for r in failed]
    return "\n".join(lines).rstrip() + "\n"


def _place(row: Row) -> tuple[str, int, str]:
    program = row["program"]
    return row["network"], ORDER.index(row["stack"]), "" if program == BACKPLANE else program


def _named(row: Row) -> list[str]:
    return [f"`{row['network']}`", f"`{row['stack']}`", row["program"]]


def _threads(rows: Sequence[Row]) -> Iterator[str]:
    yield f"## Threads\n\n{THREADS}"
    listed = []
    for row in rows:
        one, two = (seconds * 1e3 for seconds in row["seconds"])
        listed.append([*_named(row), f"{one:.3g}", f"{two:.3g}", f"{one / two:.2f}"])
    yield from table(["network", "on", "program", "one", "two", "gain"], listed)


def _memory(rows: Sequence[Row]) -> Iterator[str]:
    yield f"## Memory\n\n{MEMORY}"
    listed = []
    for row in rows:
        rivals = [r["bytes"] for r in _by_hand(row, rows)]
        ratio = f"{row['bytes'] / min(rivals):.2f}" if rivals and min(rivals) else ""
        listed.append([*_named(row), f"{row['bytes'] / 1e6:.0f}", ratio])
    yield from table(["network", "on", "program", "MB", "over by hand"], listed)


def _by_hand(row: Row, rows: Sequence[Row]) -> list[Row]:
    if row["program"] != BACKPLANE:
        return []
    same = [r for r in rows if (r["network"], r["stack"]) == (row["network"], row["stack"])]
    return [r for r in same if r["program"] != BACKPLANE]


def _first(rows: Sequence[Row]) -> Iterator[str]:
    yield f"## The first step\n\n{FIRST}"
    for name, meaning in PHASES.items():
        yield f"- `{name}`: {meaning}"
    yield f"- `ours`: the sum of {', '.join(f'`{name}`' for name in OURS)}\n"
    listed = []
    for row in rows:
        phases = row.get("phases")
        cells = [""] * (len(PHASES) + 1)
        if phases is not None:
            cells = [f"{sum(phases[name] for name in OURS):.2f}"]
            cells += [f"{phases[name]:.2f}" for name in PHASES]
        listed.append([*_named(row), f"{row['first']:.2f}", *cells])
    yield from table(["network", "on", "program", "s", "ours", *PHASES], listed)


# --- goals ----------------------------------------------------------------------------------------


def misses(data: Mapping[str, Any]) -> list[Miss]:
    """The goals that are missed. A ratio is what was measured over the limit, so the limit is 1."""
    found = []
    for kind, goals in (("threads", _of_threads), ("costs", _of_costs)):
        rows = [row for row in sorted(data[kind], key=_place) if not row["error"]]
        for row in [row for row in rows if row["program"] == BACKPLANE]:
            for part, rival, ratio in goals(row, rows):
                if ratio > 1:
                    found.append(Miss(row["network"], row["stack"], part, rival, ratio, 1.0))
    return found


Goal = tuple[str, str, float]
"""What it is about, beside what, and the measured value over the limit."""


def _of_threads(row: Row, rows: Sequence[Row]) -> Iterator[Goal]:
    gains = [_gain(rival) for rival in _by_hand(row, rows)]
    limit = min([GAIN, max(gains, default=GAIN)])
    yield "threads", "hand" if gains else "alone", limit / _gain(row)


def _gain(row: Row) -> float:
    one, two = row["seconds"]
    return float(one / two)


def _of_costs(row: Row, rows: Sequence[Row]) -> Iterator[Goal]:
    rivals = _by_hand(row, rows)
    if rivals:
        least = min([rival["bytes"] for rival in rivals])
        yield "memory", "hand", row["bytes"] / least / MEMORY_LIMIT
    if rivals and row["stack"] == "jax":
        yield "first", "hand", row["first"] / min([rival["first"] for rival in rivals])
    stack = f"keras3-{row['stack']}"
    for keras in [r for r in rows if (r["network"], r["stack"]) == (row["network"], stack)]:
        yield "first", "keras3", row["first"] / keras["first"]
    ours = sum([row["phases"][name] for name in OURS])
    limit = SHARE * row["first"] if row["stack"] in COMPILERS else SECONDS
    yield "ours", "alone", ours / limit


def _goals(missed: Sequence[Miss], file: Path) -> Iterator[str]:
    """What is missed, and why."""
    yield f"## Goals\n\n{GOALS}"
    known = causes.read(file)
    found = causes.explained(missed, known, file)
    rivals = {"hand": "by hand", "keras3": "Keras 3", "alone": ""}
    listed = [
        [f"`{m.network}`", f"`{m.engine}`", m.part, rivals[m.kind], f"{m.ratio:.2f}", cause.link]
        for m, cause in zip(missed, found, strict=True)
    ]
    header = ["network", "on", "missed", "beside", "measured over the limit", "why"]
    yield from table(header, listed)
    yield from causes.section(known, found, "Profiles were taken on the machine above.")
