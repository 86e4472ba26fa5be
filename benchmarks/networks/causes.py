"""Why goals are missed: reads causes.toml, which says how to add a cause."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

FILE = Path(__file__).with_name("causes.toml")
PARAGRAPHS = {"time": "Where the time goes", "tried": "Tried", "needs": "Needed from the library"}
PLACES = ("networks", "engines", "parts", "rivals", "near", "busier")


class Miss(NamedTuple):
    """A ratio above its limit."""

    network: str
    engine: str
    part: str
    """`step` or `predict`; `threads`, `memory`, `first` or `ours` on the page on resources."""
    kind: str
    """Over which rival: `hand`, `keras3` or `fastest`; `alone` if there is none."""
    ratio: float
    limit: float
    rival: str = ""
    busier: float = 1.0
    """How much more of the time on the clock others took from ours than from the rival."""


class Cause(NamedTuple):
    """Why some goals are missed."""

    key: str
    heading: str
    paragraphs: dict[str, str]
    where: list[dict[str, Any]]

    @property
    def link(self) -> str:
        """To its heading on the page."""
        return f"[{self.key}](#{slug(self.heading)})"

    def explains(self, miss: Miss) -> bool:
        """Whether one of its places is that of a miss."""
        return any(_holds(place, miss) for place in self.where)


class UnexplainedError(ValueError):
    """A miss without a cause, or a cause without a miss."""


def _holds(place: dict[str, Any], miss: Miss) -> bool:
    at = {"networks": miss.network, "engines": miss.engine, "parts": miss.part, "rivals": miss.kind}
    named = all(value in place[key] for key, value in at.items() if key in place)
    near = miss.ratio <= miss.limit * place.get("near", float("inf"))
    return named and near and miss.busier >= place.get("busier", 0.0)


def read(file: Path = FILE) -> list[Cause]:
    """The causes, in their order.

    Raises:
        ValueError: if a cause lacks a part, or has one that nobody knows.
    """
    found = []
    for key, entry in tomllib.loads(file.read_text(encoding="utf-8")).items():
        if {*entry} != {"heading", *PARAGRAPHS, "where"}:
            raise ValueError(f"{file.name}: {key} has {sorted(entry)}")
        if unknown := {name for place in entry["where"] for name in place} - {*PLACES}:
            raise ValueError(f"{file.name}: {key}: where has {sorted(unknown)}")
        paragraphs = {name: " ".join(entry[name].split()) for name in PARAGRAPHS}
        found.append(Cause(key, entry["heading"], paragraphs, entry["where"]))
    return found


def explained(misses: Sequence[Miss], causes: Sequence[Cause], file: Path = FILE) -> list[Cause]:
    """The cause of each miss: the first that explains it.

    Raises:
        UnexplainedError: if a miss has no cause, or a cause no miss.
    """
    found = [next((cause for cause in causes if cause.explains(m)), None) for m in misses]
    lost = [
        f"{m.network} on {m.engine}, {m.part} over {m.kind}: {m.ratio:.2f}"
        for m, cause in zip(misses, found, strict=True)
        if cause is None
    ]
    used = {cause.key for cause in found if cause is not None}
    idle = [cause.key for cause in causes if cause.key not in used]
    if lost or idle:
        lines = [*(f"no cause for {text}" for text in lost), *(f"no miss has {k}" for k in idle)]
        raise UnexplainedError("\n".join([f"{file.name}:", *lines]))
    return [cause for cause in found if cause is not None]


def section(causes: Sequence[Cause], found: Sequence[Cause], profiles: str) -> Iterator[str]:
    """The part of the page that the links lead to. `profiles` says where profiles were taken."""
    yield "## Why\n"
    yield f"Each miss has one main cause. {profiles} Shares are of processor time.\n"
    for cause in causes:
        count = sum(other.key == cause.key for other in found)
        yield f"### {cause.heading}\n"
        yield f"{count} of the misses.\n"
        for name, title in PARAGRAPHS.items():
            yield f"- **{title}.** {cause.paragraphs[name]}"
        yield ""


def slug(heading: str) -> str:
    """The anchor that Markdown gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
