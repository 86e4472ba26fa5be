"""What is to be reached, as data; whether it is, told from the results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.problem import BACKPLANE, ENGINES, LIBRARY

STEPS = ("mlp-sgd", "mlp-adam", "cnn", "lstm")


@dataclass(frozen=True)
class Target:
    """A limit of Backplane's time (or memory) over a rival's, for some engines."""

    workload: str
    rival: str
    """`hand`, `keras3` or `reference`; or `hand: NAME` for one of the hand-written programs."""
    limit: float
    engines: tuple[str, ...] = ENGINES


@dataclass(frozen=True)
class Verdict:
    """A target on one engine: what was to be reached, and what was."""

    workload: str
    engine: str
    aim: str
    limit: str
    value: str
    met: bool


OTHERS = tuple(engine for engine in ENGINES if engine != "numpy")

TARGETS = (
    Target("call", "hand", 1.3, ("numpy",)),
    Target("call", "hand", 1.1, OTHERS),
    Target("call", "reference", 0.1, ("numpy", "jax", "torch", "cntk")),
    Target("call", "reference", 1.0, ("tensorflow",)),
    *(Target(step, "hand", 1.05) for step in STEPS),
    *(Target(step, "keras3", 1.0) for step in STEPS),
    Target("chain", "hand: expression", 0.55, ("numpy",)),
    Target("start-small", "hand", 1.15),
    Target("start-mlp", "hand", 1.15),
    Target("memory", "hand", 1.1),
)

WITHIN_BEST = (
    ("mlp-sgd", "torch", 1.15),
    ("mlp-adam", "torch", 1.15),
    ("cnn", "jax", 1.4),
    ("lstm", "numpy", 1.3),
)
"""(workload, engine, limit over the fastest contender of all, on whatever engine)."""

EXTRA = {"overhead-eager": 2e-6, "overhead-eval": 2e-6}
"""Seconds that a call may take beyond the library's own."""

IMPORT = 0.030
"""Seconds that `import backplane` may take beyond an interpreter with NumPy."""

GROWTH = {"numpy": 0.5, "torch": 0.5}
"""Seconds for depth 1000."""

GROWTH_OVER_OWN = {"jax": 1.1, "tensorflow": 1.1}
"""Ratio to the engine's own program at the greatest depth that both ran."""

LINEAR = 1.15
"""The exponent up to which growth counts as linear."""

RIVALS = {"hand": "best hand-written", "keras3": "Keras 3", "reference": "reference K"}


def verdicts(found: dict[str, Any]) -> list[Verdict]:
    """Every target that the results say something about."""
    return [*_ratios(found), *_best(found), *_extra(found), *_import(found), *_growth(found)]


def _ratios(found: dict[str, Any]) -> Iterator[Verdict]:
    for target in TARGETS:
        kind, _, name = target.rival.partition(": ")
        for engine in target.engines:
            if name:
                value = _over(found.get(target.workload), engine, name)
            else:
                ratios = found.get(target.workload, {}).get("ratios", {})
                value = ratios.get(engine, {}).get(kind, {}).get("median")
            if value is not None:
                aim = f"over {name or RIVALS[kind]}"
                met = value <= target.limit
                yield Verdict(
                    target.workload, engine, aim, f"{target.limit:g}", f"{value:.2f}", met
                )


def _median(found: dict[str, Any] | None, stack: str, name: str) -> float | None:
    rows = (found or {}).get("contenders", [])
    match = (r["median"] for r in rows if r["stack"] == stack and r["name"] == name)
    return next(match, None)


def _over(found: dict[str, Any] | None, engine: str, name: str) -> float | None:
    ours, other = _median(found, engine, BACKPLANE), _median(found, engine, name)
    return None if ours is None or other is None else ours / other


def _best(found: dict[str, Any]) -> Iterator[Verdict]:
    for workload, engine, limit in WITHIN_BEST:
        rows = found.get(workload, {}).get("contenders", [])
        rivals = [r["median"] for r in rows if r["name"] != BACKPLANE]
        ours = _median(found.get(workload), engine, BACKPLANE)
        if ours is not None and rivals:
            value = ours / min(rivals)
            aim = "over the fastest program of all"
            yield Verdict(workload, engine, aim, f"{limit:g}", f"{value:.2f}", value <= limit)


def _extra(found: dict[str, Any]) -> Iterator[Verdict]:
    for workload, limit in EXTRA.items():
        for engine in ENGINES:
            ours = _median(found.get(workload), engine, BACKPLANE)
            own = _median(found.get(workload), engine, "own call")
            if ours is not None and own is not None:
                more = f"{(ours - own) * 1e6:.1f} µs"
                aim = "beyond the library's own call"
                yield Verdict(
                    workload, engine, aim, f"{limit * 1e6:g} µs", more, ours - own <= limit
                )


def _import(found: dict[str, Any]) -> Iterator[Verdict]:
    result = found.get("start-import")
    with_numpy = _median(result, "numpy", "import numpy")
    both = _median(result, "numpy", "import numpy, backplane")
    if with_numpy is not None and both is not None:
        more = both - with_numpy
        aim = "`import backplane` beyond NumPy"
        value = f"{more * 1e3:.0f} ms"
        yield Verdict("start-import", "numpy", aim, f"{IMPORT * 1e3:g} ms", value, more <= IMPORT)


def _growth(found: dict[str, Any]) -> Iterator[Verdict]:
    rows = found.get("growth", {}).get("growth", [])
    for row in rows:
        engine = row["stack"]
        if row["name"] != BACKPLANE:
            continue
        if row["exponent"] is not None:
            slope, met = row["exponent"], row["exponent"] <= LINEAR
            yield Verdict("growth", engine, "exponent", f"{LINEAR:g}", f"{slope:.2f}", met)
        last = dict(zip(row["depths"], row["seconds"], strict=True))
        if engine in GROWTH and 1000 in last:
            value, limit = last[1000], GROWTH[engine]
            yield Verdict(
                "growth", engine, "depth 1000", f"{limit:g} s", f"{value:.2f} s", value <= limit
            )
        own = next((r for r in rows if r["stack"] == engine and r["name"] != BACKPLANE), None)
        if engine in GROWTH_OVER_OWN and own is not None:
            deepest = min(row["depths"][-1], own["depths"][-1])
            theirs = dict(zip(own["depths"], own["seconds"], strict=True))[deepest]
            value, limit = last[deepest] / theirs, GROWTH_OVER_OWN[engine]
            aim = f"depth {deepest} over {LIBRARY[engine]}'s own"
            yield Verdict("growth", engine, aim, f"{limit:g}", f"{value:.2f}", value <= limit)
