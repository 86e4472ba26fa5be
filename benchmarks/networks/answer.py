"""The page that answers in a few lines whether Backplane is fast."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.networks import NETWORKS
from benchmarks.networks.causes import Cause, explained
from benchmarks.networks.page import (
    CLOCK,
    LIMITS,
    kernels_of_tensorflow,
    mean,
    medians,
    misses,
    over,
)
from benchmarks.page import table
from benchmarks.problem import BACKPLANE, ENGINES, LIBRARY

PAGE = Path(__file__).parents[2] / "docs" / "is-it-fast.md"
SLOWEST = 8
"""How many of the misses are listed."""
HEAD = """\
<!-- Written by `python -m benchmarks.networks --page`; do not edit. -->
# Is it fast?

Use this page when you want the answer in a minute. Networks that people train are written in K, and
by hand in TensorFlow, PyTorch and JAX, as well as we can. The table has the time of the program in
K over that of the best program by hand on the same engine, both on one core. Less than 1 means that
K is faster. Means are geometric.
"""
NOTE = """\
ONNX Runtime has no gradients, so only its predictions have a rival. By hand in NumPy there are four
networks. PyTensor, which runs NumPy's kernels, is compared with these. What is fastest is the best
program for a network on any engine.
"""
FIRST = """\
The goal for first steps on PyTorch is 1.2, and small networks miss it. Nothing is compiled there,
so by hand the first step costs little more than the second one. For a TabNet, on a machine that is
twice as fast, it took 25 ms by hand and 88 here. Of these, K took 24 to build 1,100 nodes, 20 in
passes over the graph, 19 to write the program and to compile its text, and a step 11. What lies
between is done once, such as trials of kernels. Tried were loops in calls of many variables, fewer
and smaller trials, specs and normal forms that are kept, and Python's cycle collector off. It would
take a graph that is not built in Python.
"""
BEHIND = """\
Behind this page: [networks](networks.md) has the times of every network, and the cause of each
miss. [Benchmarks](benchmarks.md) has single mechanisms, [Keras 3](keras-3-speed.md) compares with
Keras' own backends, and [measurements](measurements.md) has threads, memory and the first step.
[What is fast](performance.md) says what you can do.
"""


def write(data: dict[str, Any], page: Path, causes: list[Cause]) -> None:
    """Write the page. Its plot is that of the page on networks."""
    found = {n: data["networks"][n]["programs"] for n in NETWORKS if n in data["networks"]}
    lines = [HEAD, *_engines(found, data["machine"]["processor"])]
    lines += ["![Steps over the best program by hand or of Keras 3](networks/steps.svg)\n"]
    lines += [*_slowest(found, causes), BEHIND]
    page.write_text("\n".join(lines), encoding="utf-8")


def _engines(found: dict[str, Any], processor: str) -> Iterator[str]:
    """A row for each engine, and what to know of them."""
    rows = []
    for engine in ENGINES:
        there = [rows for rows in found.values() if _ours(rows, engine) is not None]
        step, predict = (_over_hand(there, engine, part) for part in ("step", "predict"))
        fastest = [over(rows, engine, "step")["fastest"][0] for rows in there]
        first = [r for r in (_first(rows, engine) for rows in there) if r]
        near = f"{sum(r <= LIMITS['hand'] for r in step)} of {len(step)}" if step else "–"
        means = [mean(x) for x in (step, predict, first, fastest)]
        rows.append([LIBRARY[engine], str(len(there)), means[0], near, *means[1:]])
    head = ["on", "networks", "a step over by hand", f"at most {LIMITS['hand']}",
            "a prediction over by hand", "the first step over by hand",
            "a step over the fastest engine"]  # fmt: skip
    yield from table(head, rows)
    yield NOTE
    yield from in_tensorflow(found, processor)
    yield FIRST


def _ours(rows: list[dict[str, Any]], engine: str) -> dict[str, Any] | None:
    key = f"step {CLOCK}"
    ours = (r for r in rows if (r["stack"], r["name"]) == (engine, BACKPLANE))
    return next((r for r in ours if not r["error"] and key in r), None)


def _over_hand(there: list[Any], engine: str, part: str) -> list[float]:
    """Ours over the best program by hand: on PyTensor, which has none, over NumPy's."""
    if engine == "theano":
        known = [medians(rows, part) for rows in there]
        return [
            x[engine, BACKPLANE] / x["numpy", "by hand"] for x in known if ("numpy", "by hand") in x
        ]
    ratios = (over(rows, engine, part).get("hand") for rows in there)
    return [ratio[0] for ratio in ratios if ratio is not None]


def in_tensorflow(found: dict[str, Any], processor: str) -> Iterator[str]:
    """A paragraph on programs by hand in TensorFlow, if there are any."""
    if plain := _plain(found):
        if remark := kernels_of_tensorflow(processor):
            yield remark
        yield "The best program by hand in TensorFlow is often one that XLA compiles. Without XLA,"
        yield f"a step by hand takes {mean(plain)} of the time of ours.\n"


def _plain(found: dict[str, Any]) -> list[float]:
    """The steps of programs by hand in TensorFlow without XLA, over ours."""
    known = [medians(rows, "step") for rows in found.values()]
    hand, ours = ("tensorflow", "by hand"), ("tensorflow", BACKPLANE)
    return [x[hand] / x[ours] for x in known if hand in x and ours in x]


def _first(rows: list[dict[str, Any]], engine: str) -> float | None:
    """The first step over that of the quickest program by hand."""
    hand = [
        r["first"][CLOCK]
        for r in rows
        if r["stack"] == engine and r["name"] != BACKPLANE and not r["error"] and "first" in r
    ]
    ours = _ours(rows, engine)
    return ours["first"][CLOCK] / min(hand) if ours is not None and hand else None


def _slowest(found: dict[str, Any], causes: list[Cause]) -> Iterator[str]:
    """What falls behind most, with its cause."""
    missed, _ = misses({name: {"programs": rows} for name, rows in found.items()})
    behind = [(m, why) for m, why in zip(missed, explained(missed, causes), strict=True)
              if m.kind == "hand"]  # fmt: skip
    behind.sort(key=lambda pair: -pair[0].ratio)
    yield f"Furthest behind a program by hand, of {len(behind)} that take more than 1.05 of it:\n"
    rows = [
        [NETWORKS[m.network].title, LIBRARY[m.engine], m.part, f"{m.ratio:.2f}",
         why.link.replace("(#", "(networks.md#")]
        for m, why in behind[:SLOWEST]
    ]  # fmt: skip
    yield from table(["network", "on", "", "over by hand", "why"], rows)
