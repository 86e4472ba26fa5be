"""The operands that XLA's partitioner gathers or moves: found in compiled programs, and told by
operation.

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
from backplane.engines.layouts import warn_of_gathering
from backplane.engines.programs import Line, emitted_line
from backplane.engines.table import Entry, Lowering, Table, Value

LINE = re.compile(r"(?:ENTRY )?%(?P<computation>\S+) .*\{$|\s+(?P<root>ROOT )?%(?P<name>\S+) = .*$")
OPERAND = re.compile(r"(?:[(, ]|calls=)%([\w.-]+)")
MOVE = re.compile(
    r"^\s*(?:ROOT )?%(?P<name>\S+) = (?P<shapes>\S+|\(.*?\)) "
    r"(?P<kind>all-gather|all-to-all|collective-permute)(?:-start)?\(%(?P<operand>[^,)\s]+).*$",
    re.MULTILINE,
)
SIZES = re.compile(r"\[([\d,]*)\]")
SCOPE = re.compile(r"\w+?__(\d+)")


WANTED = "sharding_constraint"
"""The primitive by which `K.shard`, or the layout of a variable that is updated, has parts moved.
"""


def _lines(text: str) -> dict[str, str]:
    """The instructions of a program by name. A computation stands for its result."""
    lines, computation = {}, ""
    for match in filter(None, map(LINE.match, text.splitlines())):
        if match["computation"]:
            computation = match["computation"]
            continue
        lines[match["name"]] = match[0]
        if match["root"]:
            lines[computation] = match[0]
    return lines


class _Operation(NamedTuple):
    """A lowering that was traced."""

    name: str
    line: Line | None
    shapes: Sequence[tuple[int, ...]]
    """The shapes of the operands that have axes."""
    runs_graph: bool


class Gathers(threading.local):
    """The operations of a program, by thread, and what the compiler gathers or moves for them."""

    _numbers = count()

    def __init__(self, devices: int) -> None:
        self._devices = devices
        self._operations: dict[int, _Operation] = {}

    def watch(self, table: Table, wanted: Sequence[str]) -> None:
        """Put a table's lowerings into scopes, except for effects and moves that users want."""
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
        """Warn of each operation that keeps none of its operands in its place, in the program that
        was compiled last. There is no warning of an element-wise operation: it keeps any layout, so
        if something moves there, users have asked for it. The operations are then forgotten.
        """
        operations, self._operations = self._operations, {}
        lines = _lines(text)
        gathers, moves, at_end = Counter[str](), Counter[str](), set[str]()
        for match in MOVE.finditer(text):
            scope, kind = (SCOPE.findall(match[0]) or [""])[-1], match["kind"]
            if not scope and WANTED not in match[0]:
                scope = self._behind(match["operand"], lines, operations)
                at_end.add(scope)
            operation = operations.get(int(scope or -1))
            if operation is None:
                continue  # It was traced for an earlier program, and told with that.
            if kind == "all-gather":
                gathers[scope] += 1
            elif kind == "all-to-all" or self._is_part(match["shapes"], operation):
                moves[scope] += 1
        for scope in {**gathers, **moves}:
            operation = operations[int(scope)]
            count = len(operation.shapes)
            many = operation.runs_graph or (gathers[scope] or moves[scope]) >= count
            if scope in at_end or (many and not PRIMITIVES[operation.name].elementwise):
                does = "gathers" if gathers[scope] else "moves"
                shapes = ", ".join(map(str, operation.shapes))
                warn_of_gathering(
                    f"{operation.name!r} cannot keep the layout of its operands on the mesh, or "
                    f"K.shard asks for another one: XLA {does} parts of {shapes}",
                    operation.line,
                )

    def _behind(self, name: str, lines: dict[str, str], operations: dict[int, _Operation]) -> str:
        """The scope of what gives a value that has to move without an operation that asks for it:
        a result of the program that cannot stay in parts. Element-wise operations could have kept
        its layout, so one before them is looked for first.
        """
        waiting, seen, nearest = [name], {name}, ""
        for name in waiting:
            line = lines.get(name, "")
            for scope in SCOPE.findall(line)[-1:]:
                operation = operations.get(int(scope))
                if operation is not None and not PRIMITIVES[operation.name].elementwise:
                    return scope
                nearest = nearest or scope
            operands = [x for x in OPERAND.findall(line) if x not in seen]
            waiting += operands
            seen.update(operands)
        return nearest

    def _is_part(self, shapes: str, operation: _Operation) -> bool:
        """Whether so much goes to another device as it has of the largest operand. Less is what a
        device needs of its neighbours.
        """
        most = max(math.prod(map(int, filter(None, s.split(",")))) for s in SIZES.findall(shapes))
        whole = max(map(math.prod, operation.shapes), default=0)
        return most * self._devices >= whole
