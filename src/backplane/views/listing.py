"""`f.source()`: the emitted program, with the nodes and the user's lines behind its lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from backplane.compile.codegen.loop_steps import StepEmitter
from backplane.compile.codegen.programs import Emitter
from backplane.compile.function import Function, request_of
from backplane.compile.program import closed, emitter_for, prepared
from backplane.compile.source_map import Place
from backplane.core.graph import Graph, Tensor, graphs_of, toposort
from backplane.core.sizes import assuming
from backplane.core.source import Source
from backplane.engines.base import Engine
from backplane.ops.control import scan_
from backplane.views.words import Text, described, line_text, spec_text

MOST_COLUMNS = 60
"""The last column in which comments may begin."""


def source(function: Function, switches: Sequence[Any]) -> Text:
    """The text of a function's program, and of the loops and branches in it."""
    with assuming(function.first.alike):
        return _source(function, switches)


def _source(function: Function, switches: Sequence[Any]) -> Text:
    engine = function.plan.engine
    graph = prepared(request_of(function.plan, tuple(switches), function.first)[0])
    emitter = emitter_for(graph)
    emitter.emit()
    head = [f"# {function.plan.name}, emitted for the engine {engine.name}"]
    head += [f"# a{i}: {described(t)}, {spec_text(t.spec)}" for i, t in enumerate(graph.inputs)]
    texts = ["\n".join([*head, *_lines(emitter.source)])]
    texts += [
        "\n".join([f"# {title}", *_lines(source)])
        for title, source in _bodies(graph.outputs, engine)
    ]
    return Text("\n\n".join(texts))


def _bodies(outputs: Sequence[Tensor], engine: Engine) -> Iterator[tuple[str, Source]]:
    """The texts of loops and branches, outermost first."""
    for node in toposort(outputs):
        for name, graph in graphs_of(node).items():
            assert node.op is not None
            results = closed(graph, engine)
            title = f"{name} of {node.op.name}: {line_text(node.where, MOST_COLUMNS)}"
            yield title, _body(node, graph, results, engine)
            yield from _bodies(results, engine)


def _body(node: Tensor, graph: Graph, results: list[Tensor], engine: Engine) -> Source:
    if node.op is scan_ and "steps" in engine.capabilities:
        stepper = StepEmitter(graph, results, engine, node.params["carry"], node.params["xs"])
        stepper.steps()
        return stepper.source
    emitter = Emitter(graph.inputs, results, engine, writes="out" in engine.capabilities)
    emitter.emit(whole=False)
    return emitter.source


def _lines(source: Source) -> list[str]:
    """The lines of a text, those of nodes with comments."""
    longest = max((len(source.lines[i - 1]) for i in source.marks), default=0)
    column = min(longest, MOST_COLUMNS)
    return [
        f"{line:{column}}  # {_comment(source.marks[i])}" if i in source.marks else line
        for i, line in enumerate(source.lines, 1)
    ]


def _comment(place: Place) -> str:
    gradient = "gradient, " if place.where is not None and place.where.gradient else ""
    line = line_text(place.where, MOST_COLUMNS)
    return f"{place.op.name} {spec_text(place.spec)}, {gradient}{line}"
