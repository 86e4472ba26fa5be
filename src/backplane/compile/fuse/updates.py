"""Finds the steps of optimizers that K code writes out, for engines with kernels for them.

An engine that runs one element-wise operation after the other reads and writes every weight a dozen
times for a step of Adam. A kernel does it once, and in place. So the steps that are found are
replaced by a primitive of `ops.updates`, one for all parameters with the same numbers:

    m' = b * m + (1 - b) * g                      adam_update
    v' = c * v + (1 - c) * square(g)
    p' = p - rate * m' / (sqrt(v') + epsilon)

    m' = b * m - rate * g, p' = p + m'            momentum_update, Nesterov's too
    p' = p - rate * g                             gradient_update
    p' = p - rate * scatter_add(g, indices)       rows_update
    v' = b * v + c * x                            average_update

The order in which a step is written does not matter. Such a node writes over the old values of the
variables. So it runs last, when nothing can fail any more and everybody has read the old values. If
another value shares memory with them, the step is not replaced.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from backplane.compile.codegen.buffers import alias_roots
from backplane.compile.fuse.affine import Factor, Sum, factor_of, leaves, scaled
from backplane.compile.fuse.readers import serves, uses_of
from backplane.compile.fuse.rows import find_rows, lookups
from backplane.core.graph import Constant, Tensor
from backplane.core.primitive import Primitive, outputs_of
from backplane.engines.base import Engine
from backplane.ops.elementwise import add, maximum, mul, sqrt
from backplane.ops.updates import (
    adam_update,
    average_update,
    gradient_update,
    momentum_update,
    rows_set,
    rows_update,
    rows_write,
)

FLOATS = ("float32", "float64")


class Step(NamedTuple):
    """The update of one parameter: the primitive, its numbers, the variables that it replaces, the
    positions of their new values among the outputs, and the gradient, or what it is made of.
    """

    op: Primitive[list[Tensor]]
    numbers: tuple[Factor, ...]
    params: tuple[tuple[str, bool], ...]
    variables: tuple[Tensor, ...]
    positions: tuple[int, ...]
    operands: tuple[Tensor, ...]

    def key(self) -> Hashable:
        """Equal for steps that one node can do together."""
        alone = self.variables if self.op is rows_update else self.variables[0].spec.dtype
        return (self.op, self.numbers, self.params, alone)


def find_updates(
    outputs: Sequence[Tensor], state: Mapping[Tensor, int], engine: Engine
) -> list[Tensor]:
    """`outputs`, with steps of optimizers as single nodes. `state` tells which variable is replaced
    by which output.
    """
    finder = _Finder(outputs, state)
    steps = [s for s in finder.steps() if s.op.name in engine.table]
    steps = _undisturbed(steps, outputs, engine)
    groups: dict[Hashable, list[Step]] = {}
    for step in steps:
        groups.setdefault(step.key(), []).append(step)
    results = list(outputs)
    for group in groups.values():
        _replace(group, results, engine)
    return results


def keep_to_rows(
    outputs: Sequence[Tensor],
    news: Mapping[Tensor, int],
    state: Mapping[Tensor, int],
    engine: Engine,
) -> list[Tensor]:
    """`outputs`, with the rows of tables that a batch reads in the place of whole tables, where the
    other rows stay as they are. `news` tells which variable is replaced by which output, and
    `state` the same of those whose memory may be written over.
    """
    if not {rows_write.name, rows_set.name} & engine.table.keys():
        return list(outputs)
    results, steps = list(outputs), []
    for table, found in find_rows(outputs, news).items():
        position = news[table]
        results[position] = rows_set(table, *found)
        if table in state and rows_write.name in engine.table:
            steps.append(Step(rows_write, (), (), (table,), (position,), found))
    kept = _undisturbed(steps, results, engine)
    if kept:
        _replace(kept, results, engine)
    return results


def _undisturbed(steps: list[Step], outputs: Sequence[Tensor], engine: Engine) -> list[Step]:
    """The steps whose variables may change in place, because nobody else would see it: no output
    has the memory of the old value, and no other step reads it.
    """

    def is_kernel(node: Tensor) -> bool:
        return node.op is not None and serves(engine.table.get(node.op.name), node)

    taken = {i for step in steps for i in step.positions}
    seen = alias_roots([t for i, t in enumerate(outputs) if i not in taken], is_kernel)
    written = {v for step in steps for v in step.variables}
    kept = []
    for step in steps:
        read = [*step.operands, *[t for number in step.numbers for t in number.tensors()]]
        if seen.isdisjoint(step.variables) and written.isdisjoint(alias_roots(read, is_kernel)):
            kept.append(step)
    return kept


def _replace(group: Sequence[Step], results: list[Tensor], engine: Engine) -> None:
    """Build one node for a group of steps, and put its results at their places, if the engine's
    kernel takes it.
    """
    first = group[0]
    dtype = first.variables[0].spec.dtype
    numbers = [number.tensor(dtype) for number in first.numbers]
    columns = zip(*[step.variables for step in group], strict=True)
    variables = [v for column in columns for v in column]
    inputs = (*numbers, *variables, *[t for step in group for t in step.operands])
    op, params = first.op, dict(first.params)
    node = Tensor(
        op,
        inputs,
        params,
        tuple(op.infer_rule(*[t.spec for t in inputs], **params)),  # type: ignore[arg-type]
        results[first.positions[0]].where,
    )
    if not serves(engine.table.get(op.name), node):
        return
    found = outputs_of(node)
    for row, step in enumerate(group):
        for column, position in enumerate(step.positions):
            results[position] = found[column * len(group) + row]


class _Finder:
    """Reads the steps out of the new values of variables."""

    def __init__(self, outputs: Sequence[Tensor], state: Mapping[Tensor, int]) -> None:
        self.new = {v: outputs[i] for v, i in state.items()}
        self.position = dict(state)
        self.variable = {outputs[i]: v for v, i in state.items()}
        self.places = set(self.variable)
        """Where sums are not looked into any further."""
        self.outputs = outputs

    def steps(self) -> list[Step]:
        """All steps that are found. No variable belongs to two of them."""
        found: list[Step] = []
        used: set[Tensor] = set()
        for p, new in self.new.items():
            if not self._is_float(p) or p in used:
                continue
            step = self._step(p, new)
            if step is not None and used.isdisjoint(step.variables):
                found.append(step)
                used.update(step.variables)
        # The averages in Adam's and momentum's steps look like others, but are read.
        rest = [v for v in self.new if v not in used and self._is_float(v)]
        uses = uses_of(self.outputs) if rest else {}
        rest = [v for v in rest if uses[self.new[v]] == 1]
        return [*found, *[step for v in rest if (step := self._average(v)) is not None]]

    def _average(self, v: Tensor) -> Step | None:
        """The step of a moving average."""
        parts = leaves(self.new[v], v, self.places - {self.new[v]})
        own = parts.pop((v, None), None)
        if own is None or own.is_one() or len(parts) != 1:
            return None
        (((x, under), gain),) = parts.items()
        if under is not None:
            return None
        return self._made(average_update, [own.single(), gain.single()], [v], x)

    def _is_float(self, v: Tensor) -> bool:
        spec = v.spec
        fits = spec.dtype in FLOATS and len(spec.shape) > 0 and not spec.sparse
        return fits and self.new[v].spec == spec

    def _step(self, p: Tensor, new: Tensor) -> Step | None:
        """The step that ends in the new value of `p`."""
        stops = self.places - {new}
        parts = leaves(new, p, stops)
        own = parts.pop((p, None), None)
        if own is not None and not own.is_one() and p in new.inputs:
            # With a penalty on weights the gradient contains p, so it stays whole.
            whole = [scaled(t, stops)[1] for t in new.inputs if t is not p]
            parts = leaves(new, p, stops.union(whole))
            own = parts.pop((p, None), None)
        if own is None or not own.is_one() or not parts:
            return None
        moved = [core for core, under in parts if under is None and core in self.variable]
        if len(parts) == 1:
            (((core, under), factor),) = parts.items()
            if under is not None:
                return self._adam(p, core, under, factor)
            if not moved:
                return self._rows(p, core, factor) or self._gradient(p, core, factor)
        return self._momentum(p, moved[0], parts) if len(moved) == 1 else None

    def _made(
        self,
        op: Primitive[list[Tensor]],
        numbers: Sequence[Factor | None],
        variables: Sequence[Tensor],
        gradient: Tensor,
        **params: bool,
    ) -> Step | None:
        known = [n for n in numbers if n is not None]
        if len(known) < len(numbers) or gradient.spec != variables[0].spec:
            return None
        if any(v.spec != variables[0].spec or not self._is_float(v) for v in variables):
            return None
        positions = tuple([self.position[v] for v in variables])
        return Step(
            op, tuple(known), tuple(params.items()), tuple(variables), positions, (gradient,)
        )

    def _rows(self, p: Tensor, core: Tensor, factor: Sum) -> Step | None:
        """A step by the gradients of lookups in `p`."""
        found = lookups(core, p)
        step = self._made(rows_update, [factor.single()], [p], core) if found else None
        operands = [lookup.inputs[i] for i in (0, 1) for lookup in found]
        return None if step is None else step._replace(operands=tuple(operands))

    def _gradient(self, p: Tensor, core: Tensor, factor: Sum) -> Step | None:
        return self._made(gradient_update, [factor.single()], [p], core)

    def _momentum(
        self, p: Tensor, moved: Tensor, parts: dict[tuple[Tensor, Tensor | None], Sum]
    ) -> Step | None:
        m = self.variable[moved]
        own = leaves(moved, m, self.places - {moved})
        decay = own.pop((m, None), None)
        if decay is None or len(own) != 1:
            return None
        (((gradient, under), gain),) = own.items()
        rest = {key: factor for key, factor in parts.items() if key[0] is not moved}
        nesterov = rest == {(gradient, None): gain}
        if under is not None or (rest and not nesterov):
            return None
        numbers = [decay.single(), gain.single(), parts[moved, None].single()]
        return self._made(momentum_update, numbers, [p, m], gradient, nesterov=nesterov)

    def _adam(self, p: Tensor, core: Tensor, under: Tensor, factor: Sum) -> Step | None:
        m = self.variable.get(core)
        found = _root_and_epsilon(under)
        if m is None or found is None or found[0] not in self.variable:
            return None
        second, epsilon = found
        v = self.variable[second]
        squares = leaves(second, v, self.places - {second})
        decay2 = squares.pop((v, None), None)
        if decay2 is None or len(squares) != 1:
            return None
        (((square, below), gain2),) = squares.items()
        squared = _squared(square)
        if squared is None or below is not None:
            return None
        gradient, factor2 = squared
        firsts = leaves(core, m, (self.places - {core}) | {gradient})
        decay1, gain1 = firsts.pop((m, None), None), firsts.pop((gradient, None), None)
        if decay1 is None or gain1 is None or firsts:
            return None
        dtype = p.spec.dtype
        numbers = [
            (-factor).single(),
            decay1.complement_of(gain1, dtype),
            decay2.complement_of(gain2.times(factor2), dtype),
            epsilon,
        ]
        return self._made(adam_update, numbers, [p, m, v], gradient)


def _root_and_epsilon(t: Tensor) -> tuple[Tensor, Factor] | None:
    """The y and e of sqrt(y) + e; `K.sqrt` takes the square root of max(y, 0)."""
    if t.op is not add:
        return None
    for root, number in (t.inputs, t.inputs[::-1]):
        if root.op is sqrt and not number.spec.shape:
            y = root.inputs[0]
            if y.op is maximum and _is_zero(y.inputs[1]):
                y = y.inputs[0]
            return y, factor_of(number)
    return None


def _is_zero(t: Tensor) -> bool:
    return isinstance(t, Constant) and isinstance(t.value, np.ndarray) and not t.value.any()


def _squared(t: Tensor) -> tuple[Tensor, Factor] | None:
    """The g and f of g · g · f."""
    if t.op is not mul:
        return None
    x, y = t.inputs
    if x is y:
        return x, Factor(1.0)
    (f, x, over), (g, y, under) = scaled(x, ()), scaled(y, ())
    return (x, f.times(g)) if x is y and over is under is None else None
