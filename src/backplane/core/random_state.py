"""The state of random numbers: the seed and the counter of every key source.

A state that another process has saved is found again by what a program says of its sources: their
seeds, and the order in which they were made. In the process that has saved it, serial numbers tell
them apart.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from backplane.core.graph import KeySource, drawing, key_sources, process

_MASK = 2**64 - 1

_awaited: list[Saved] = []
"""The saved states of sources that this process has not made yet."""


class Saved(NamedTuple):
    """The saved state of a key source."""

    serial: int
    """Its number in the process that has saved it; negative if it was not made there yet."""
    seed: int
    counter: int
    given: bool
    drawn: bool


_identity: list[int | str] = []


def identity() -> str:
    """A value that tells this process from others, forked children too."""
    if _identity[:1] != [os.getpid()]:
        _identity[:] = [os.getpid(), os.urandom(8).hex()]
    return str(_identity[1])


def saved() -> list[Saved]:
    """The state of all sources, in order of creation; those still awaited come last."""
    with drawing:
        made = [Saved(s.serial, _seed(s), _count(s), s.given, s.drawn) for s in _living()]
        return [*made, *[e._replace(serial=-1 - i) for i, e in enumerate(_awaited)]]


def restore(entries: Sequence[Saved], own: bool) -> None:
    """Give the sources the state of `entries`; without `own`, also sources that are made later."""
    with drawing:
        pairs, left = _matched(entries, _living(), own)
        for source, entry in pairs:
            _take(source, entry)
        _awaited[:] = [entry for entry in left if entry.serial < 0] if own else left


def arriving(seed: int | None) -> KeySource | None:
    """The source that a restored state awaits for this seed, or, for None, the next one of those
    whose seeds were drawn. None if there is no such source.
    """
    if not _awaited:
        return None
    with drawing:
        for i, entry in enumerate(_awaited):
            if entry.drawn if seed is None else not entry.drawn and entry.seed == seed & _MASK:
                made = KeySource(entry.seed, entry.given, entry.drawn)
                _take(made, _awaited.pop(i))
                return made
    return None


def forget_awaited() -> None:
    """Let sources that are made from now on begin anew."""
    _awaited.clear()


def _living() -> list[KeySource]:
    sources = [reference() for reference in key_sources.valuerefs()]
    return sorted([s for s in sources if s is not None], key=lambda s: s.serial)


def _seed(source: KeySource) -> int:
    low, high, _, _ = source.words()
    return low | high << 32


def _count(source: KeySource) -> int:
    counted = None if source.elsewhere is None else source.elsewhere.read()
    return source.counter if counted is None else counted


def _take(source: KeySource, entry: Saved) -> None:
    source.given, source.drawn, source.counter = entry.given, entry.drawn, entry.counter
    # The words of the key are to be those that were saved.
    source.seed = entry.seed if entry.given else entry.seed ^ process[0] << 32
    if source.elsewhere is not None:
        source.elsewhere.write(entry.counter)


def _matched(
    entries: Sequence[Saved], made: Iterable[KeySource], own: bool
) -> tuple[list[tuple[KeySource, Saved]], list[Saved]]:
    """Sources with their entries, and the entries that are left."""
    by_serial = {entry.serial: entry for entry in entries} if own else {}
    pairs: list[tuple[KeySource, Saved]] = []
    by_seed: dict[int, list[KeySource]] = defaultdict(list)
    for source in made:
        if source.serial in by_serial:
            pairs.append((source, by_serial[source.serial]))
        else:
            by_seed[_seed(source)].append(source)
    unknown: list[KeySource] = []
    for seed, alike in by_seed.items():
        # A process may hold the sources of several models with the same seeds. Those that were made
        # last belong together.
        fitting = [entry for entry in entries if entry.seed == seed]
        if fitting:
            turns = [fitting[-1 - i % len(fitting)] for i in range(len(alike))]
            pairs += zip(reversed(alike), turns, strict=True)
        else:
            unknown += [source for source in alike if source.drawn]
    used = {entry for _, entry in pairs}
    drawn = [entry for entry in entries if entry.drawn and entry not in used]
    if drawn:
        # If there are more sources than were saved, the first ones belong to something else.
        unknown.sort(key=lambda s: s.serial)
        more = list(zip(unknown[-len(drawn) :], drawn, strict=False))
        pairs += more
        used.update([entry for _, entry in more])
    return pairs, [entry for entry in entries if entry not in used]
