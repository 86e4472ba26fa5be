"""Draws many programs for one engine."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded

from backplane import backend as K
from backplane import engines
from fuzz.programs import check, dtypes_of, programs
from fuzz.writer import Program, literal

CHUNK = 50
"""Programs of one seed. A failure ends its chunk."""
SHRINKING = 20.0
"""Seconds that a failing program may be made smaller."""


class Report(NamedTuple):
    """How many programs ran, and what went wrong: the smallest program that was found for each."""

    programs: int
    skipped: int
    """Programs that the engine refuses by name, or with a size that depends on rounding."""
    failures: list[BaseException]


def search(name: str, seed: int, count: int, end: float) -> Report:
    """Run programs on an engine until there are `count`, or until the clock says `end`."""
    ran, skipped, failures, chunk = 0, 0, [], 0
    while ran + skipped < count and time.monotonic() < end:
        found = _Chunk(name, end)
        found.run(seed * 100_003 + chunk, min(CHUNK, count - ran - skipped))
        ran, skipped, chunk = ran + found.ran, skipped + found.skipped, chunk + 1
        if found.failure is not None:
            failures.append(found.failure)
    return Report(ran, skipped, failures)


class _Chunk:
    def __init__(self, name: str, end: float) -> None:
        self.name, self.end = name, end
        self.ran = self.skipped = 0
        self.failure: BaseException | None = None
        with engines.use(name) as engine:
            self.strategy = programs(dtypes_of(engine))

    def run(self, seed: int, count: int) -> None:
        """Draw `count` programs, or fewer if one fails."""
        options = settings(
            max_examples=count, database=None, deadline=None, suppress_health_check=list(HealthCheck),
            phases=(Phase.generate,), report_multiple_bugs=False, print_blob=False,
        )  # fmt: skip
        try:
            seeded(seed)(options(given(self.strategy)(self.one)))()
        except Exception as error:  # noqa: BLE001 - whatever goes wrong is a finding
            self.failure = self.failure or error

    def one(self, program: Program) -> None:
        if time.monotonic() > self.end or self.failure is not None:
            return
        K.clear_session()
        error = failure(program, self.name)
        if isinstance(error, BaseException):
            self.failure = shrunk(program, self.name, error)
            raise self.failure
        self.ran += error
        self.skipped += not error


def failure(program: Program, engine: str) -> BaseException | bool:
    """What goes wrong when the program runs; if nothing does, whether it could be compared."""
    try:
        return check(program, engine)
    except Exception as error:  # noqa: BLE001 - whatever goes wrong is a finding
        return error


def shrunk(program: Program, engine: str, error: BaseException) -> BaseException:
    """The failure of a smaller program: outputs and updates are dropped, and tensors become inputs
    with the values that they had. `hypothesis` would write the whole program again for each
    attempt, which takes minutes where this takes a second.
    """
    end = time.monotonic() + SHRINKING
    smaller = True
    while smaller and time.monotonic() < end:
        smaller = False
        for attempt in _attempts(program):
            found = failure(attempt, engine)
            if isinstance(found, BaseException) and _place(found) == _place(error):
                program, error, smaller = attempt, found, True
                break
            if time.monotonic() > end:
                break
    return error


def _place(error: BaseException) -> tuple[type, str, int | None]:
    """What and where an error is."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return type(error), last.filename, last.lineno


def _attempts(program: Program) -> Iterator[Program]:
    """Smaller programs, the smallest ones first."""
    if len(program.outputs) + len(program.updates) > 1:
        for name in program.outputs:
            yield replace(program, outputs=[name], updates=[])
        for pair in program.updates:
            yield replace(program, outputs=[], updates=[pair])
    for i in range(len(program.outputs)):
        yield replace(program, outputs=program.outputs[:i] + program.outputs[i + 1 :])
    for i in range(len(program.updates)):
        yield replace(program, updates=program.updates[:i] + program.updates[i + 1 :])
    needed = {line.partition(" = ")[0] for line in program.needed()}
    for name in [
        n
        for n in reversed(program.values)
        if n in needed and n not in program.feeds and n not in program.outputs
    ]:
        shape, dtype, value = program.values[name]
        line = f"{name} = K.placeholder({shape}, dtype={dtype!r})"
        lines = [line if old.startswith(f"{name} = ") else old for old in program.lines]
        yield replace(
            program, lines=lines, feeds={**program.feeds, name: literal(value, shape, dtype)}
        )
    for name in program.feeds:
        if len(program.feeds) > 1:
            left = replace(program, feeds={x: v for x, v in program.feeds.items() if x != name})
            if all(not line.startswith(f"{name} = ") for line in left.needed()):
                yield left
