"""Closed graphs as functions: engines ask for the bodies of loops and for branches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from backplane.compile import passes
from backplane.compile.codegen.loop_steps import StepEmitter
from backplane.compile.codegen.programs import emit
from backplane.core.graph import Graph, Tensor
from backplane.engines.base import Engine, Steps


def closed(graph: Graph, engine: Engine) -> list[Tensor]:
    """The outputs of a closed graph, ready for emission."""
    # Eager calls run these graphs too, and the engine's own tape must see where it stops.
    return passes.optimized(graph.outputs, passes.Job(engine, keep_stops=True)).outputs


def callable_of(graph: Graph, engine: Engine) -> Callable[..., tuple[Any, ...]]:
    """A function over engine values that evaluates a closed graph. It is made once per engine."""
    key = engine, passes.switched_off()
    found: Callable[..., tuple[Any, ...]] | None = graph.cache.get(key)
    if found is None:
        found = emit(graph.inputs, closed(graph, engine), engine, whole=False).function
        graph.cache[key] = found
    return found


def steps_of(body: Graph, engine: Engine, carry: int, xs: int) -> Steps:
    """A loop's body as steps that write to memory which is kept. They are made once per engine."""
    key = engine, carry, xs, passes.switched_off()
    found: Steps | None = body.cache.get(key)
    if found is None:
        found = StepEmitter(body, closed(body, engine), engine, carry, xs).steps()
        body.cache[key] = found
    return found
