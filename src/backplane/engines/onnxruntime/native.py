"""Users' functions of NumPy arrays: programs in parts, with calls of the functions between them.

A session runs no function of Python. So the model is cut at each call: a session computes the
operands and what else is needed later, the function is called, and the next session goes on.
Loops and branches with such calls in them are called likewise (`hosted.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from onnx import ModelProto

from backplane.core.spec import Spec
from backplane.engines.arrays.native import on_arrays
from backplane.engines.onnxruntime.builder import Node, Scope, Symbol, current_scope
from backplane.engines.onnxruntime.model import CALL, model, names_read
from backplane.engines.table import Lowering, Value

Start = Callable[[ModelProto], Any]
"""Makes a session of a model."""


def lowering(
    function: Lowering,
    results: Sequence[Spec] | None,
    what: str = "a function that was given to K.native",
) -> Lowering:
    """A node that stands for the call. `what` is called, in errors."""
    call = on_arrays(function, results)

    def lower(*operands: Symbol) -> list[Symbol]:
        scope = current_scope()
        assert results is not None
        assert scope.parent is None, "loops and branches around it are run by Python"
        names = scope.add(CALL, operands, len(results), {"call": call, "what": what})
        pairs = zip(names, results, strict=True)
        return [Symbol(name, spec.dtype, spec.shape) for name, spec in pairs]

    return lower


class _Part(NamedTuple):
    """The part of a program that one session computes, and the call behind it."""

    scope: Scope
    outputs: list[str]
    call: Node | None


def has_calls(scope: Scope) -> bool:
    """Whether a program must be run in parts."""
    return any(node.op == CALL for node in scope.nodes)


def in_parts(
    scope: Scope, inputs: Sequence[str], outputs: Sequence[str], start: Start
) -> Callable[..., tuple[Value, ...]]:
    """A function of the inputs that runs the parts, whose sessions the first call makes."""
    parts = list(_parts(scope, outputs))
    runs: list[Callable[..., list[Value]] | None] = [None] * len(parts)

    def run(*given: Value) -> tuple[Value, ...]:
        values: dict[str, Any] = {**scope.literals, **dict(zip(inputs, given, strict=True))}
        for i, part in enumerate(parts):
            if part.outputs:
                runs[i] = runs[i] or _session(part, values, start)
                values.update(zip(part.outputs, runs[i](values), strict=True))  # type: ignore[misc]
            if part.call is not None:
                operands = [np.asarray(values[name]) for name in part.call.inputs]
                values.update(
                    zip(part.call.outputs, part.call.attributes["call"](*operands), strict=True)
                )
        return tuple([values[name] for name in outputs])

    return run


def _parts(scope: Scope, outputs: Sequence[str]) -> Iterator[_Part]:
    """The parts. Each gives what the call behind it and later parts read of its results."""
    groups: list[tuple[list[Node], Node | None]] = [([], None)]
    for node in scope.nodes:
        if node.op == CALL:
            groups[-1] = (groups[-1][0], node)
            groups.append(([], None))
        else:
            groups[-1][0].append(node)
    wanted, done = set(outputs), list[_Part]()
    for nodes, call in reversed(groups):
        if call is not None and wanted.isdisjoint(call.outputs):
            call = None
        wanted |= set(call.inputs) if call is not None else set()
        part = Scope(nodes=nodes, literals=scope.literals)
        made = [name for node in nodes for name in node.outputs if name in wanted]
        wanted |= names_read(part, made)
        done.append(_Part(part, made, call))
    return reversed(done)


def _session(part: _Part, values: Mapping[str, Any], start: Start) -> Callable[..., list[Value]]:
    read = [name for name in names_read(part.scope, part.outputs) if name in values]
    inputs = [name for name in read if name not in part.scope.literals]
    arrays = {name: np.asarray(values[name]) for name in inputs}
    specs = {name: Spec((None,) * x.ndim, x.dtype.name) for name, x in arrays.items()}
    run = start(model(part.scope, specs, dict.fromkeys(part.outputs), "part")).run
    return lambda values: run(part.outputs, {name: values[name] for name in inputs}, None)
