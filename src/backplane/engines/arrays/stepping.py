"""A scan as a Python loop over steps that write to the rows of its stacks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import NamedTuple

from backplane.engines.base import Stack, Steps, Value


class Rows(NamedTuple):
    """What a loop does with an engine's values."""

    empty: Callable[[int, Value], Value]
    """A stack for so many values like the one given."""
    of: Callable[[Value], Sequence[Value]]
    """The rows of a stack as views, in order."""
    copy: Callable[[Value], Value]


def run(
    steps: Steps,
    state: Sequence[Value],
    elements: Iterable[Sequence[Value]],
    constants: Sequence[Value],
    count: int,
    reverse: bool,
    rows: Rows,
) -> list[Value]:
    """The final states and the stacks of `count` steps, one at least. `elements` are the rows of
    the sequences in the order of the steps; `reverse` says that the last ones come first.
    """
    first, later = steps.make(*constants)
    elements = iter(elements)
    results = first(*state, *next(elements))
    made = [_stack(stack, state, results, count, reverse, rows) for stack in steps.stacks]
    places = zip(*[views for _, views in made], strict=True) if made else repeat(())
    carried = results[: len(state)]
    for element, place in zip(elements, places, strict=False):
        carried = later(*carried, *element, *place)
    # A row of a stack would keep the whole stack.
    finals = [
        rows.copy(x) if is_row else x for x, is_row in zip(carried, steps.placed, strict=True)
    ]
    return [*finals, *[_result(made[k][0], count, before, reverse) for k, before in steps.results]]


def _stack(
    stack: Stack,
    state: Sequence[Value],
    results: Sequence[Value],
    count: int,
    reverse: bool,
    rows: Rows,
) -> tuple[Value, Sequence[Value]]:
    """A stack that holds the first step's result, and the places of the others."""
    y = results[stack.output]
    more = stack.state is not None
    room = rows.empty(count + more, y)
    views = rows.of(room)
    if reverse:
        views = views[::-1]
    if stack.state is not None:
        views[0][...] = state[stack.state]
    views[more][...] = y
    return room, views[1 + more :]


def _result(room: Value, count: int, before: bool, reverse: bool) -> Value:
    """The rows of a stack that belong to a result."""
    if len(room) == count:
        return room
    return room[:-1] if before != reverse else room[1:]
