"""Checks the programs of many seeds, and makes those that fail smaller."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from backplane import backend as K
from backplane import engines
from fuzz.programs import Check, check_of, dtypes_of, written
from fuzz.writer import Program, literal

SHRINKING = 20.0
"""Seconds that a failing program may be made smaller."""


OUTCOMES = ("compared", "refused", "uncertain", "failed")


class Result(NamedTuple):
    """What became of the program of a seed on an engine."""

    seed: int
    engine: str
    outcome: str
    """`compared`; `refused` by name; `uncertain`, because a size depends on rounding; or `failed`.
    """
    failure: str = ""
    """The failing program, made smaller, and the error."""


def prepared(seed: int) -> tuple[Program, Check]:
    """The program of a seed, and its check, which makes the reference when it is first needed."""
    program = written(seed)
    return program, check_of(program)


def results(
    seed: int, names: Sequence[str], known: Callable[[int], tuple[Program, Check]] = prepared
) -> Iterator[Result]:
    """Check the program of a seed on engines, one after the other, with one reference. Who calls
    for one engine at a time may keep what has been prepared.
    """
    K.clear_session()
    try:
        program, check = known(seed)
    except Exception:  # noqa: BLE001 - the reference may fail
        for name in names:
            yield Result(seed, name, "failed", traceback.format_exc())
        return
    for name in names:
        with engines.use(name) as engine:
            lacking = "bfloat16" in program.text() and "bfloat16" not in dtypes_of(engine)
        if lacking:
            yield Result(seed, name, "refused")
            continue
        try:
            yield Result(seed, name, check.outcome(name))
        except Exception as error:  # noqa: BLE001 - whatever goes wrong is a finding
            yield Result(seed, name, "failed", shrunk(program, name, error))


def failure(program: Program, engine: str) -> BaseException | None:
    """What goes wrong when the program runs."""
    try:
        check_of(program).outcome(engine)
    except Exception as error:  # noqa: BLE001 - whatever goes wrong is a finding
        return error
    return None


def shrunk(program: Program, engine: str, error: BaseException) -> str:
    """A smaller program that fails in the same place, as text: outputs and updates are dropped, and
    tensors become inputs with the values that they had.
    """
    end = time.monotonic() + SHRINKING
    smaller = True
    while smaller and time.monotonic() < end:
        smaller = False
        for attempt in _attempts(program):
            found = failure(attempt, engine)
            if found is not None and _place(found) == _place(error):
                program, error, smaller = attempt, found, True
                break
            if time.monotonic() > end:
                break
    frames = traceback.format_list(traceback.extract_tb(error.__traceback__)[-3:])
    return "".join([*frames, *traceback.format_exception_only(error), program.text()])


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
