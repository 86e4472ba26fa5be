"""Emitted programs as engines get them and give them back, and the lines that errors come from."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from types import FrameType
from typing import Any, NamedTuple

from backplane.core.graph import Graph
from backplane.core.spec import Spec
from backplane.engines.table import NOTHING, Lowering, Value

Function = Callable[..., tuple[Value, ...]]
"""A program: from its inputs to its results."""


class Program(NamedTuple):
    """An emitted program, and what engines want to know about it.

    `function(*inputs)`, straight-line Python over the engine's table, takes and returns engine
    values. It takes placeholders and constants, then variables, and returns a tuple: the new values
    of the updated variables, in the order of the variables, then the outputs. If it runs primitives
    that write over their operands, the last item is a list of calls, which write
    when everything else of the call has been done. `inputs` and `outputs` are the specs in that
    order. `state` tells which inputs are variables that the program replaces (input position →
    output position), so an engine may donate their buffers.
    """

    function: Function
    inputs: Sequence[Spec]
    outputs: Sequence[Spec]
    state: Mapping[int, int] = NOTHING
    dtypes: frozenset[str] = frozenset()
    """All dtypes that occur in it, those of intermediate values and of loop bodies included."""
    operations: Sequence[str] = ()
    """The primitives that it runs, in their order, but for those inside loops and branches."""
    lowerings: Sequence[Lowering] = ()
    """The functions that its text calls."""
    source: str = ""
    sizes_from_values: bool = False
    """Whether the size of a tensor is taken from the value of another: while such a program is
    traced for given shapes, that size is not known."""
    values_from_host: bool = False
    """Whether it makes values of what the host computes, by `Engine.constant`."""
    tables: frozenset[int] = frozenset()
    """The inputs of which only rows are read: by lookups along the first axis. The new values of
    those that are replaced are made by `rows_add`, whose results nobody else reads."""
    reads_variables: bool = False
    """Whether inputs are variables, which other programs may replace while this one is called."""
    lasting: Sequence[int] = ()
    """The inputs that are variables and constants. From call to call they often stay the same."""
    options: Mapping[str, Any] = NOTHING
    """Wishes of the caller that only some engines know (`compile=True` for torch). `once` is for
    engines with that capability: the program is likely to run a few times only."""


class Scanning(NamedTuple):
    """The parameters of `scan`: how its operands and results are laid out. The operands are the
    states, the sequences over whose rows the loop runs, and constants. The body takes states, a row
    of each sequence and constants, and gives states and what is stacked.
    """

    body: Graph
    carry: int
    """The number of states."""
    xs: int
    """The number of sequences."""
    reverse: bool
    length: int | None
    """The number of steps if there are no sequences."""

    @property
    def carried(self) -> list[Spec]:
        """The specs of the states."""
        return [t.spec for t in self.body.inputs[: self.carry]]

    @property
    def stacked(self) -> list[Spec]:
        """The specs of a row of each stack."""
        return [t.spec for t in self.body.outputs[self.carry :]]

    def parts(self, operands: Sequence[Value]) -> tuple[Sequence[Value], ...]:
        """The states, the sequences and the constants."""
        end = self.carry + self.xs
        return operands[: self.carry], operands[self.carry : end], operands[end:]


class Blocks(NamedTuple):
    """The functions besides lowerings that the text of a tiled chain calls (`codegen.tiling`)."""

    empty: Callable[[tuple[int, ...], str], Value]
    """An array of a shape and dtype, of any content."""
    recycler: Callable[[], Any]
    """An object whose function `empty` gives arrays again that nobody refers to any more."""
    flat: Callable[..., Sequence[Value]]
    """The arrays as vectors if all of them are contiguous, else as they are."""
    size: Callable[[Value], int]
    reduced: Mapping[str, Callable[[Value], Value]]
    """Reductions of all elements, by primitive; `mean` adds up."""
    combined: Callable[[str, Sequence[Value], Value, str], Value]
    """The reduction `name` of an array from those of its blocks, for a dtype."""

    def rows(self, x: Value, elements: int) -> int:
        """The number of rows of an array that make a block of so many elements: at least one."""
        return max(elements * len(x) // max(self.size(x), 1), 1)


class Stack(NamedTuple):
    """The results of all steps for one output of the body, number `output`, in one array. If that
    output is a state, and the states before the steps are results too, `state` is its number. The
    array then has one row more, and begins with the initial state.
    """

    output: int
    state: int | None = None


class Steps(NamedTuple):
    """A loop's body as functions of single steps.

    `make(*constants)` gives two functions for one run of the loop. `first(*states, *rows)` computes
    the body's outputs. `later(*states, *rows, *places)` returns only the next states, and writes to
    `places`, one for each of `stacks`.
    """

    make: Callable[..., tuple[Callable[..., Any], Callable[..., Any]]]
    stacks: Sequence[Stack]
    results: Sequence[tuple[int, bool]]
    """For each stacked result: which of `stacks`, and whether its rows are the states before the
    steps."""
    placed: Sequence[bool]
    """Whether a state that a step returns is the row of a stack."""


Line = tuple[str, int]
"""A line of an emitted program: its file name and number."""


def emitted_line() -> Line | None:
    """The line of an emitted program that calls a lowering now."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not frame.f_code.co_filename.startswith("<backplane program"):
        frame = frame.f_back
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def writing(run: Callable[..., Any], outputs: Collection[int]) -> Callable[..., Any]:
    """A compiled program that replaces the variables behind these outputs: their old values go."""
    if outputs:
        run.written = frozenset(outputs)  # type: ignore[attr-defined]
    return run


def located(
    run: Callable[..., Any], failing_line: Callable[[BaseException], Line | None]
) -> Callable[..., Any]:
    """A compiled program that can tell from which emitted line an error comes.

    Engines that run a graph of their own need this, because no traceback passes through the
    program.
    """
    run.failing_line = failing_line  # type: ignore[attr-defined]
    return run
