"""What XLA's partitioner gathers or moves: found in compiled programs, and told by operation.

The partitioner has no interface for this. But every instruction of a compiled program has the names
of the scopes in which JAX has traced it. So each lowering is traced in a scope of its own.
"""

from __future__ import annotations

import math
import re
import threading
from collections import Counter
from collections.abc import Sequence
from itertools import count
from typing import Any, NamedTuple

import jax

from backplane.core.graph import Graph
from backplane.core.registry import PRIMITIVES
from backplane.core.spec import Spec
from backplane.engines.base import Line, emitted_line
from backplane.engines.layouts import warn_of_gathering
from backplane.engines.table import Entry, Lowering, Table, Value

INSTRUCTION = re.compile(r"^\s*(?:ROOT )?%(\S+) = .*$", re.MULTILINE)
MOVE = re.compile(
    r"^\s*(?:ROOT )?%(?P<name>\S+) = (?P<shapes>\S+|\(.*?\)) "
    r"(?P<kind>all-gather|all-to-all|collective-permute)(?:-start)?\(%(?P<operand>[^,)\s]+).*$",
    re.MULTILINE,
)
SIZES = re.compile(r"\[([\d,]*)\]")
SCOPE = re.compile(r"\w+?__(\d+)")


class _Operation(NamedTuple):
    """A lowering that was traced."""

    name: str
    line: Line | None
    shapes: Sequence[tuple[int, ...]]
    """Of the operands that have axes."""
    runs_graph: bool


class Gathers(threading.local):
    """The operations of a program, and what the compiler gathers or moves for them. Each thread
    traces programs of its own.
    """

    _numbers = count()

    def __init__(self, devices: int) -> None:
        self._devices = devices
        self._operations: dict[int, _Operation] = {}

    def watch(self, table: Table, wanted: Sequence[str]) -> None:
        """Put the lowerings of a table into scopes, but for those that users call to have parts
        moved, and effects.
        """
        for name, entry in table.items():
            if name not in wanted and not PRIMITIVES[name].effect:
                table[name] = entry._replace(function=self._scoped(name, entry))

    def _scoped(self, name: str, entry: Entry) -> Lowering:
        if not entry.builds:
            return self._in_scope(name, entry.function, runs_graph=False)

        def build(specs: Sequence[Spec], **params: Any) -> Lowering:
            runs_graph = any(isinstance(value, Graph) for value in params.values())
            return self._in_scope(name, entry.function(specs, **params), runs_graph)

        return build

    def _in_scope(self, name: str, lowering: Lowering, runs_graph: bool) -> Lowering:
        def run(*operands: Value, **params: Any) -> Any:
            if not any(isinstance(x, jax.core.Tracer) for x in operands):
                return lowering(*operands, **params)
            shapes = [x.shape for x in operands if getattr(x, "ndim", 0)]
            number = next(self._numbers)
            self._operations[number] = _Operation(name, emitted_line(), shapes, runs_graph)
            with jax.named_scope(f"{name}__{number}"):
                return lowering(*operands, **params)

        return run

    def tell(self, text: str) -> None:
        """Warn of each operation in the program that was compiled last, none of whose operands
        stays in its place. One that is element-wise keeps any layout: if something moves there,
        users want that. The operations are then forgotten.
        """
        operations, self._operations = self._operations, {}
        scopes = {found[1]: SCOPE.findall(found[0]) for found in INSTRUCTION.finditer(text)}
        gathers, moves = Counter[str](), Counter[str]()
        for found in MOVE.finditer(text):
            # What follows the program's last operation has no scope.
            known = scopes[found["name"]] or scopes.get(found["operand"], [])
            for scope in known[-1:]:
                operation = operations.get(int(scope))
                if operation is None:
                    continue  # It was traced for an earlier program, and told with that.
                if found["kind"] == "all-gather":
                    gathers[scope] += 1
                elif found["kind"] == "all-to-all" or self._is_part(found["shapes"], operation):
                    moves[scope] += 1
        for scope in {**gathers, **moves}:
            operation = operations[int(scope)]
            count = len(operation.shapes)
            many = operation.runs_graph or (gathers[scope] or moves[scope]) >= count
            if many and not PRIMITIVES[operation.name].elementwise:
                does = "gathers" if gathers[scope] else "moves"
                shapes = ", ".join(map(str, operation.shapes))
                warn_of_gathering(
                    f"{operation.name!r} cannot keep the layout of its operands on the mesh, or "
                    f"K.shard asks for another one: XLA {does} parts of {shapes}",
                    operation.line,
                )

    def _is_part(self, shapes: str, operation: _Operation) -> bool:
        """Whether so much goes to another device as it has of the largest operand. Less is what a
        device needs of its neighbours.
        """
        most = max(math.prod(map(int, filter(None, s.split(",")))) for s in SIZES.findall(shapes))
        whole = max(map(math.prod, operation.shapes), default=0)
        return most * self._devices >= whole
