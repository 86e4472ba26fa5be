"""Under which conditions a row was measured: when, which sources, and how busy the machine was."""

from __future__ import annotations

import os
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.problem import ENGINES, LIBRARY

ROOT = Path(__file__).parents[2]
SOURCES = ("src", "benchmarks", ":!benchmarks/results", ":!benchmarks/networks/causes.toml")
"""What a measurement depends on."""
STAT = Path("/proc/stat")
IDLE = 0.1
"""An otherwise idle machine: others kept less than so much of a core busy."""

BUSY = "while other programs ran"

Place = tuple[str, str]
"""A network and an engine."""


def commit() -> str:
    """The last commit that changed the sources, with a `+` if they differ from it; "" without
    git.
    """

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments, "--", *SOURCES],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()

    try:
        name = git("log", "-1", "--format=%h")
        return f"{name}{'+' if git('status', '--porcelain') else ''}"
    except (OSError, subprocess.CalledProcessError):
        return ""


class Watch:
    """Counts how many cores other programs keep busy, from its start on."""

    def __init__(self) -> None:
        self.wall, self.busy = time.perf_counter(), _busy()

    def others(self, own: float) -> float | None:
        """The mean number of cores that were busy, without `own` seconds of ours; None where the
        system does not tell.
        """
        if self.busy is None or (now := _busy()) is None:
            return None
        return max((now - self.busy - own) / (time.perf_counter() - self.wall), 0.0)


def _busy() -> float | None:
    """Seconds that all cores have worked since the system started."""
    try:
        first = STAT.read_text(encoding="utf-8").partition("\n")[0]
    except OSError:
        return None
    user, nice, system, _, _, irq, soft, *_ = map(int, first.split()[1:])
    return (user + nice + system + irq + soft) / os.sysconf("SC_CLK_TCK")


def measured(commit: str, lanes: int, others: float | None) -> dict[str, Any]:
    """What is kept beside the figures of a row."""
    quiet = others is not None and others < lanes - 1 + IDLE
    rounded = None if others is None else round(others, 2)
    date = datetime.now(UTC).date().isoformat()
    return {"date": date, "commit": commit, "lanes": lanes, "others": rounded, "quiet": quiet}


def remarks(networks: dict[str, Any]) -> list[str]:
    """What the page says of it: when and how rows were measured, and what holds for some only."""
    how: dict[Place, str] = {}
    dates, special = set(), defaultdict(set)
    for name, network in networks.items():
        for row in network["programs"]:
            if (known := row.get("measured")) is None:
                continue
            place = name, row["stack"].removeprefix("keras3-")
            dates.add(known["date"])
            how[place] = BUSY if BUSY in (how.get(place), _words(known)) else _words(known)
            if "remark" in known:
                special[known["remark"]].add(place)
    groups: dict[str, set[Place]] = defaultdict(set)
    for place, words in how.items():
        groups[words].add(place)
    told = [f"{text[0].upper()}{text[1:]}." for text in _conditions(groups, dates)]
    return told + [f"{text}: {places(found)}." for text, found in sorted(special.items())]


def _words(known: dict[str, Any]) -> str:
    if not known["quiet"]:
        return BUSY
    at_once = f"{known['lanes']} at a time " if known["lanes"] > 1 else ""
    return f"{at_once}on an otherwise idle machine"


def _conditions(groups: dict[str, set[Place]], dates: set[str]) -> Iterator[str]:
    """One sentence; the largest group is all that the others are not."""
    if not groups:
        return
    when = f" from {min(dates)} to {max(dates)}" if len(dates) > 1 else f" on {min(dates)}"
    *listed, largest = sorted(groups, key=lambda words: (len(groups[words]), words))
    texts = [f"{places(groups[words])} were measured {words}" for words in listed]
    rest = "all other rows" if listed else "all rows were measured"
    yield f"{', '.join(texts)}{'; ' if listed else ''}{rest} {largest}{'' if listed else when}"
    if listed:
        yield f"rows were measured{when}"


def places(found: set[Place]) -> str:
    """Networks by engines, those with the same engines in one."""
    engines: dict[str, list[str]] = defaultdict(list)
    for engine in ENGINES:
        for name, stack in sorted(found):
            if stack == engine:
                engines[name].append(LIBRARY[engine])
    together: dict[str, list[str]] = defaultdict(list)
    for name, known in engines.items():
        together[listing(known)].append(f"`{name}`")
    return ", and ".join(f"{listing(names)} on {where}" for where, names in together.items())


def listing(words: Sequence[str]) -> str:
    """`a, b and c`."""
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last
