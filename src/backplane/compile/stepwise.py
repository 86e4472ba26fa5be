"""Runs a graph op by op, so that somebody can watch: each node is a program of its own.

The nodes are those of the graph as it was built, or as the passes left it; nothing is fused, and
loops run in Python. `K.debug` looks at the values, `f.profile` at the times.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, NamedTuple

import numpy as np

from backplane.compile.passes.lower import UNREAD
from backplane.compile.passes.prune import prune
from backplane.compile.plan import Plan
from backplane.compile.program import Request, compiled
from backplane.compile.source_map import failed_at, place_of
from backplane.compile.sparse import in_rows, makers
from backplane.core.graph import (
    Constant,
    Graph,
    Placeholder,
    Tensor,
    constant,
    draw,
    is_array,
    is_scalar,
    rebuild,
    substitute,
    toposort,
    undraw,
)
from backplane.core.primitive import OUTPUT, Primitive, outputs_of
from backplane.core.variable import assign, lent
from backplane.engines.base import Engine
from backplane.engines.table import Value
from backplane.ops.branches import cond_
from backplane.ops.control import scan_, while_loop_


class Step(NamedTuple):
    """A node that has run, or a leaf that has been given."""

    node: Tensor
    operands: Sequence[Value]
    results: Sequence[Value]
    seconds: float
    loops: tuple[tuple[Tensor, int], ...]
    """The loops and branches around it, outermost first, and the numbers of their steps."""


Watch = Callable[[Step], None]

ARRANGEMENT_LIMIT = 4096
"""Programs of single nodes that a run remembers."""


class Stepper:
    """Runs graphs op by op on an engine, and shows each step to `watch`."""

    def __init__(self, engine: Engine, watch: Watch) -> None:
        self.engine = engine
        self.watch = watch
        self.options = (("once", True),) if "once" in engine.capabilities else ()
        self.loops: tuple[tuple[Tensor, int], ...] = ()
        self._programs: dict[Any, Callable[..., tuple[Value, ...]]] = {}

    def run(self, outputs: Sequence[Tensor], values: Mapping[Tensor, Value]) -> list[Value]:
        """The values of `outputs`, given those of the leaves."""
        known: dict[Tensor, Any] = dict(values)
        if not self.loops:
            for leaf, value in values.items():
                self.watch(Step(leaf, (), (value,), 0.0, ()))
        for node in toposort(outputs, stop=known):
            if node in known:
                continue
            if node.op is OUTPUT:
                known[node] = known[node.inputs[0]][node.params["index"]]
            elif node.op is not None:
                results = self._results(node, [known[t] for t in node.inputs])
                known[node] = results if node.op.multiple else results[0]
            elif isinstance(node, Constant):
                native = self.engine.feed if is_array(node) else self.engine.detached
                known[node] = native(node.value)
        return [known[t] for t in outputs]

    def _results(self, node: Tensor, operands: list[Value]) -> Sequence[Value]:
        loop = _LOOPS.get(node.op)  # type: ignore[arg-type]
        if loop is not None and (ends := loop(self, node, operands)) is not None:
            return ends
        try:
            program, taken = self._program(node, operands)
            start = time.perf_counter()
            results = program(*taken)
            self.engine.wait(results)
            seconds = time.perf_counter() - start
        except Exception as error:
            failed_at(place_of(node), error, self.engine)
            raise
        self.watch(Step(node, operands, results, seconds, self.loops))
        return results

    # --- one node as a program --------------------------------------------------------------------

    def _program(
        self, node: Tensor, operands: Sequence[Value]
    ) -> tuple[Callable[..., tuple[Value, ...]], list[Value]]:
        """The program of a node for operands of these shapes, and what it takes."""
        assert node.op is not None
        inputs: list[Tensor] = []
        taken: list[Value] = []
        for i, (t, value) in enumerate(zip(node.inputs, operands, strict=True)):
            if t is UNREAD or (isinstance(t, Constant) and is_scalar(t)):
                inputs.append(t)  # It may be a parameter of the kernel.
            elif node.op.host is not None and i >= node.op.host:
                size = np.asarray(self.engine.to_numpy(value), t.spec.dtype)
                inputs.append(constant(size))
            else:
                inputs.append(Placeholder(self._spec(t, value)))
                taken.append(value)
        key = (node, *[t.value.item() if is_scalar(t) else t.spec for t in inputs])
        program = self._programs.get(key)
        if program is None:
            if len(self._programs) >= ARRANGEMENT_LIMIT:
                self._programs.clear()
            made = rebuild(node, tuple(inputs), keep_spec=UNREAD in node.inputs)
            results = outputs_of(made) if node.op.multiple else [made]
            given = [t for t in inputs if isinstance(t, Placeholder)]
            request = Request(self.engine, given, results, options=self.options)
            run, constants, *_ = compiled(request)
            program = self._programs[key] = (
                (lambda *values: run(*values, *constants)) if constants else run
            )
        return program, taken

    def _spec(self, t: Tensor, value: Value) -> Any:
        return t.spec if t.spec.sparse else t.spec.with_shape(self.engine.spec_of(value).shape)

    # --- loops and branches -----------------------------------------------------------------------

    def _inside(
        self, node: Tensor, number: int, graph: Graph, values: Sequence[Value]
    ) -> list[Value]:
        """The outputs of a graph inside of `node`."""
        before, self.loops = self.loops, (*self.loops, (node, number))
        try:
            return self.run(graph.outputs, dict(zip(graph.inputs, values, strict=True)))
        finally:
            self.loops = before

    def scan(self, node: Tensor, operands: list[Value]) -> list[Value] | None:
        """All steps of a scan. One without steps runs as it is."""
        carry, xs = node.params["carry"], node.params["xs"]
        state, constants = operands[:carry], operands[carry + xs :]
        rows = [self.engine.to_numpy(x) for x in operands[carry : carry + xs]]
        length = rows[0].shape[0] if rows else node.params["length"]
        if not length:
            return None
        order = range(length - 1, -1, -1) if node.params["reverse"] else range(length)
        stacks: list[list[np.ndarray]] = [[] for _ in node.params["body"].outputs[carry:]]
        for t in order:
            now = [self.engine.feed(np.array(x[t])) for x in rows]
            ends = self._inside(node, t, node.params["body"], [*state, *now, *constants])
            state = ends[:carry]
            for stack, y in zip(stacks, ends[carry:], strict=True):
                stack.append(self.engine.to_numpy(y))
        if node.params["reverse"]:
            stacks = [stack[::-1] for stack in stacks]
        return [*state, *[self.engine.feed(np.stack(stack)) for stack in stacks]]

    def while_loop(self, node: Tensor, operands: list[Value]) -> list[Value]:
        """All steps of a while loop."""
        carry = node.params["carry"]
        state, constants = operands[:carry], operands[carry:]
        number = 0
        while self._holds(self._inside(node, number, node.params["test"], [*state, *constants])[0]):
            state = self._inside(node, number, node.params["body"], [*state, *constants])
            number += 1
        return state

    def cond(self, node: Tensor, operands: list[Value]) -> list[Value]:
        """The branch that is chosen."""
        predicate, *rest = operands
        branch = node.params["then" if self._holds(predicate) else "orelse"]
        return self._inside(node, 0, branch, rest)

    def _holds(self, value: Value) -> bool:
        return bool(self.engine.to_numpy(value))


_LOOPS: dict[Primitive[Any], Callable[[Stepper, Tensor, list[Value]], list[Value] | None]] = {
    scan_: Stepper.scan,
    while_loop_: Stepper.while_loop,
    cond_: Stepper.cond,
}


# --- functions ------------------------------------------------------------------------------------

Graphs = Callable[[Sequence[Tensor], Mapping[Tensor, Tensor]], list[Tensor]]
"""Makes, of outputs and what replaces leaves, the graph that runs."""


def as_built(outputs: Sequence[Tensor], replace: Mapping[Tensor, Tensor]) -> list[Tensor]:
    """The graph as the user built it, without what loops only offer to gradients."""
    return prune(substitute(outputs, replace) if replace else outputs)


def call_stepwise(
    plan: Plan,
    values: Sequence[Any],
    stepper: Stepper,
    graph: Graphs = as_built,
    thin: Set[Tensor] = frozenset(),
) -> list[np.ndarray]:
    """A function's outputs as NumPy arrays, op by op. A failure changes no variable. The matrices
    in `thin` are in compressed rows.
    """
    engine, replace = plan.engine, dict(plan.defaults)
    outputs, _, parts = in_rows(plan, thin, [])
    compressed = makers(plan, parts)
    leaves: dict[Tensor, Value] = {}
    for i, (p, value) in enumerate(zip(plan.inputs, values, strict=True)):
        if p in compressed:
            leaves |= zip(parts[p].fed(), compressed[p](value).parts, strict=True)
            continue
        fed = plan.feeds[i](value, engine, False)
        if p.is_phase():
            replace[p] = constant(fed, p.spec.dtype)
        else:
            leaves[p] = fed
    keys = draw(plan.keys)
    try:
        leaves |= zip(plan.keys, map(engine.feed, keys), strict=True)
        leaves |= zip(plan.variables, lent(plan.variables, engine), strict=True)
        for v in compressed.keys() & set(plan.variables):
            leaves |= zip(parts[v].fed(), compressed[v](v), strict=True)
        # The outputs first: what a gradient gets wrong mostly comes from what is before it.
        count = len(plan.news)
        results = stepper.run(graph([*outputs[count:], *outputs[:count]], replace), leaves)
    except BaseException:
        undraw(plan.keys, keys)
        raise
    arrays = [np.array(engine.to_numpy(value)) for value in results]
    count = len(plan.outputs)
    if plan.updated:
        assign(plan.updated, arrays[count:])
    return arrays[:count]
