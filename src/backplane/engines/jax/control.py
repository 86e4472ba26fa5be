"""Branches and loops: `jax.lax`, around functions that trace the closed graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
from jax import lax

from backplane.core.graph import Graph
from backplane.core.spec import Spec
from backplane.engines.base import Engine
from backplane.engines.programs import Scanning
from backplane.engines.table import Lowering, Table, Value

Values = tuple[Value, ...]
Step = Callable[..., Values]

_once = partial(jax.jit, inline=True)
"""An eager loop would be traced and compiled at every call: JAX knows a traced step by the identity
of its function, and that one holds the constants of the call."""


def lowerings(engine: Engine) -> Table:
    """The table of control flow, whose graphs `engine` turns into functions."""
    table = Table()

    @table.build("cond")
    def cond(specs: Sequence[Spec], *, then: Graph, orelse: Graph) -> Lowering:
        branches = _typed(engine, then), _typed(engine, orelse)
        return _once(lambda predicate, *operands: list(lax.cond(predicate, *branches, *operands)))

    @table.build("while_loop")
    def while_loop(specs: Sequence[Spec], *, test: Graph, body: Graph, carry: int) -> Lowering:
        goes_on, step = engine.callable(test), _typed(engine, body)

        def lowering(*operands: Value) -> list[Value]:
            constants = operands[carry:]
            final = lax.while_loop(
                lambda state: goes_on(*state, *constants)[0],
                lambda state: step(*state, *constants)[:carry],
                operands[:carry],
            )
            return list(final)

        return _once(lowering)

    @table.build("scan", wanted=True)
    def scan(specs: Sequence[Spec], *, wanted: tuple[bool, ...], **given: Any) -> Lowering:
        loop = Scanning(**given)
        return _once(_scan(loop, _typed(engine, loop.body), wanted))

    return table


def _scan(loop: Scanning, step: Step, wanted: Sequence[bool]) -> Lowering:
    """The lowering of a loop over sequences. Outputs that nobody reads are None."""
    read = [i for i, w in enumerate(wanted) if w and i >= loop.carry]

    def lowering(*operands: Value) -> list[Value]:
        initial, sequences, constants = loop.parts(operands)

        def run(state: Values, items: Values) -> tuple[Values, list[Value]]:
            outputs = step(*state, *items, *constants)
            return outputs[: loop.carry], [outputs[i] for i in read]

        steps = None if sequences else loop.length
        final, stacks = lax.scan(run, initial, sequences, steps, loop.reverse)
        results = [*final, *[None] * (len(wanted) - loop.carry)]
        for i, stack in zip(read, stacks, strict=True):
            results[i] = stack
        return results

    return lowering


def _typed(engine: Engine, graph: Graph) -> Step:
    """The graph as a function whose results have the dtypes that it says.

    JAX wants the same types from both branches and at both ends of a step, but what is private to
    the engine has types of its own.
    """
    function = engine.callable(graph)
    dtypes = [t.spec.dtype for t in graph.outputs]

    def run(*inputs: Value) -> Values:
        outputs = zip(function(*inputs), dtypes, strict=True)
        return tuple([lax.convert_element_type(y, dtype) for y, dtype in outputs])

    return run
